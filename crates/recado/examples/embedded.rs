//! A web application's mail in one process: the queue is a directory, the worker a task.
//!
//! `cargo run -p recado --example embedded`; stop it with Ctrl-C, as often as you like.

use std::time::Duration;

use recado::{Backoff, Ctx, Error, Job, JobError, JobOptions, Recado, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendEmail {
    delivery_id: String,
}

impl Job for SendEmail {
    const NAME: &'static str = "email.send";
    const QUEUE: &'static str = "email";
    type Output = String;

    fn options() -> JobOptions {
        JobOptions::default().max_attempts(5).backoff(Backoff::Fixed(Duration::from_millis(200)))
    }
}

/// A provider that has no time the first time it is asked.
async fn send(ctx: Ctx, job: SendEmail) -> Result<String, JobError> {
    if ctx.attempt() == 1 && job.delivery_id.ends_with('3') {
        return Err(JobError::retry_after(Duration::from_millis(100)).because("the provider is busy"));
    }
    // The same key in every attempt: the provider sends once.
    println!("sent {} under the key {} (attempt {})", job.delivery_id, ctx.provider_key("send"), ctx.attempt());
    Ok(format!("message for {}", job.delivery_id))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "./recado-data".to_owned());
    let recado = Recado::open(&dir).await?;
    for number in 1..=5 {
        let delivery_id = format!("mail-{number}");
        // A second start enqueues none of them again while they are unfinished.
        recado.enqueue(SendEmail { delivery_id: delivery_id.clone() }).dedup(&delivery_id).await?;
    }
    let worker = Worker::builder(&recado).concurrency(4).handle(send).build()?;
    let done = worker.run().await?;
    println!("{} runs done, {} failed", done.completed, done.failed);
    recado.close().await
}
