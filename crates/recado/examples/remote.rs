//! The same over a server: `recado serve` in one terminal, `cargo run -p recado --example remote` in another.
//!
//! A producer and a worker would be two programs; here they are two tasks of one.

use std::time::Duration;

use recado::{Ctx, Error, Job, Recado, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Resize {
    image_id: String,
    width: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Resized {
    bytes: u64,
}

impl Job for Resize {
    const NAME: &'static str = "image.resize";
    const QUEUE: &'static str = "images";
    type Output = Resized;
}

async fn resize(ctx: Ctx, job: Resize) -> Result<Resized, std::io::Error> {
    for part in 1..=4 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(50)) => ctx.progress(f64::from(part) / 4.0),
            why = ctx.cancelled() => return Err(std::io::Error::other(format!("{why:?}"))),
        }
    }
    Ok(Resized { bytes: u64::from(job.width) * 100 })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("RECADO_URL").unwrap_or_else(|_| "http://127.0.0.1:7070".to_owned());
    let recado = Recado::connect(&url).await?;
    let worker = Worker::builder(&recado).concurrency(2).timeout(Duration::from_secs(10)).handle(resize).build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await });
    let enqueued = recado.enqueue(Resize { image_id: "img-1".into(), width: 640 }).business_id("product-7").await?;
    if let Some(id) = enqueued.id {
        let job = recado.wait(id, Duration::from_secs(30)).await?;
        println!("{} is {}: {:?}", job.id(), job.state(), job.result::<Resize>()?);
    }
    drop(stop);
    if let Ok(done) = working.await {
        println!("{} runs done", done?.completed);
    }
    Ok(())
}
