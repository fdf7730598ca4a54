//! (q) Through the face of Amazon SQS, in its JSON protocol: messages sent, received and deleted, each answer awaited.
//!
//! In requests a second, beside axum's echo of what a send posts.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::echo::Echo;
use crate::http::Client;
use crate::load::{self, Fill, Post, block_on, post_for};
use crate::payload;
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Messages in a batch, the most that there may be.
const BATCH: u64 = 10;
/// Messages to receive in one measurement: a client that finds none fails it.
const MESSAGES: u64 = 400_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Send,
    SendBatch,
    /// Two requests.
    ReceiveAndDelete,
}

const WHATS: [What; 3] = [What::Send, What::SendBatch, What::ReceiveAndDelete];

/// A cell: its figure and what stands beside it.
struct Cell {
    what: What,
    connections: usize,
    rounds: Vec<f64>,
    echoed: Vec<f64>,
}

impl Cell {
    fn name(&self) -> String {
        let what = match self.what {
            What::Send => "SendMessage",
            What::SendBatch => "SendMessageBatch(10)",
            What::ReceiveAndDelete => "ReceiveMessage(10) + DeleteMessageBatch(10)",
        };
        format!("{what}, {} connection{}", self.connections, if self.connections == 1 { "" } else { "s" })
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    progress("(q) Amazon SQS");
    let time = bench.pick(Duration::from_millis(1_500), Duration::from_millis(400));
    let messages = bench.pick(MESSAGES, MESSAGES / 8);
    let new = |what| CONNECTIONS.map(|connections| Cell { what, connections, rounds: vec![], echoed: vec![] });
    let mut cells: Vec<Cell> = WHATS.into_iter().flat_map(new).collect();
    cells.retain(|cell| bench.wants(&cell.name()));
    let echo = Echo::start()?;
    for round in 0..bench.rounds() {
        let data = bench.scratch.fresh("q")?;
        let server = Server::start(&bench.server, &data, &["--memory", "8GiB"])?;
        for index in super::order(cells.len(), round) {
            let Some(cell) = cells.get_mut(index) else { continue };
            let echoed = Post::json("/echo", body_of(cell.what, ""));
            cell.echoed.push(block_on(post_for(echo.addr, echoed, cell.connections, time))?.per_second);
            cell.rounds.push(block_on(measure(server.addr, cell, messages, time))?);
        }
        server.kill()?;
        bench.scratch.clear(&data)?;
    }
    for cell in cells {
        let per_request = if cell.what == What::Send { 1 } else { BATCH };
        let name = cell.name();
        let mut line = Line::new('q', name, "requests/s", cell.rounds).against("echo", cell.echoed);
        if per_request > 1 {
            line = line.note("10 messages a request");
        }
        bench.report.add(line);
    }
    Ok(())
}

async fn measure(addr: SocketAddr, cell: &Cell, messages: u64, time: Duration) -> Result<f64> {
    let name = format!("sqs{}-{}", WHATS.iter().position(|what| *what == cell.what).unwrap_or(0), cell.connections);
    let mut client = Client::connect(addr).await?;
    client.speak_sqs("CreateQueue");
    let made: Value = serde_json::from_str(client.post("/", &body(&json!({ "QueueName": name }))?).await?)?;
    let url = made["QueueUrl"].as_str().context("a queue has a URL")?.to_owned();
    if cell.what == What::ReceiveAndDelete {
        // They are handed out like messages that were sent.
        load::fill(addr, &name, Fill::plain(messages)).await?;
        return drain_for(addr, &url, cell.connections, time).await;
    }
    let action = if cell.what == What::Send { "SendMessage" } else { "SendMessageBatch" };
    let post = Post::sqs(action, body_of(cell.what, &url));
    Ok(post_for(addr, post, cell.connections, time).await?.per_second)
}

fn body(value: &Value) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

/// What a send posts.
fn body_of(what: What, url: &str) -> Vec<u8> {
    let text = |number| String::from_utf8_lossy(&payload::payload(number)).into_owned();
    let entry = |number: u64| json!({ "Id": number.to_string(), "MessageBody": text(number) });
    let request = match what {
        What::Send => json!({ "QueueUrl": url, "MessageBody": text(0) }),
        _ => json!({ "QueueUrl": url, "Entries": (0..BATCH).map(entry).collect::<Vec<_>>() }),
    };
    request.to_string().into_bytes()
}

/// Receives and deletes over `connections`: requests a second.
async fn drain_for(addr: SocketAddr, url: &str, connections: usize, time: Duration) -> Result<f64> {
    let receive = body(&json!({ "QueueUrl": url, "MaxNumberOfMessages": BATCH }))?;
    let started = Instant::now();
    let mut consumers = JoinSet::new();
    for _ in 0..connections {
        let (receive, url) = (receive.clone(), url.to_owned());
        let mut client = Client::connect(addr).await?;
        consumers.spawn_local(async move {
            let mut requests = 0_u64;
            while started.elapsed() < time {
                client.speak_sqs("ReceiveMessage");
                let delete = delete_all(&url, client.post("/", &receive).await?)?;
                client.speak_sqs("DeleteMessageBatch");
                let deleted = client.post("/", &delete).await?;
                ensure!(deleted.matches("\"Id\"").count() as u64 == BATCH, "not all were deleted: {deleted}");
                requests += 2;
            }
            anyhow::Ok(requests)
        });
    }
    let mut requests = 0;
    while let Some(ended) = consumers.join_next().await {
        requests += ended??;
    }
    Ok(requests as f64 / started.elapsed().as_secs_f64())
}

/// The request that deletes what was received. The answer is read by hand because the client shares the server's cores.
fn delete_all(url: &str, received: &str) -> Result<Vec<u8>> {
    let handles = received.split(r#""ReceiptHandle":""#).skip(1).filter_map(|rest| rest.split('"').next());
    let entries: Vec<String> =
        handles.enumerate().map(|(id, handle)| format!(r#"{{"Id":"{id}","ReceiptHandle":"{handle}"}}"#)).collect();
    ensure!(entries.len() as u64 == BATCH, "{} messages were received: more have to be put in", entries.len());
    Ok(format!(r#"{{"QueueUrl":"{url}","Entries":[{}]}}"#, entries.join(",")).into_bytes())
}
