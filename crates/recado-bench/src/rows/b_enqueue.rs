//! (b) Enqueue over HTTP, each answer awaited.
//!
//! One by one it stands beside axum's echo of one payload; over one connection, where nothing can be done
//! at the same time, beside an echo and then a synced append.

use std::time::Duration;

use anyhow::Result;

use crate::echo::Echo;
use crate::load::{self, Post, block_on, post_for};
use crate::payload::{self, Keys, PAYLOAD_BYTES};
use crate::raw_disk::ZeroFilled;
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const APPEND_BYTES: usize = 512;
const APPENDS: usize = 1_000;
const BATCHES: [u64; 4] = [1, 10, 100, 1_000];

/// A cell: how many connections, and jobs in a request; 0 is the echo.
#[derive(Default)]
struct Cell {
    connections: usize,
    batch: u64,
    rounds: Vec<f64>,
    cpu_us: Vec<f64>,
    refused: u64,
}

impl Cell {
    fn name(&self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        match self.batch {
            0 => format!("echo, {} connection{plural}", self.connections),
            1 => format!("enqueue, {} connection{plural}, one by one", self.connections),
            _ => format!("enqueue, {} connection{plural}, batches of {}", self.connections, self.batch),
        }
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    progress("(b) enqueue over HTTP");
    let time = bench.pick(Duration::from_millis(1_500), Duration::from_millis(400));
    let mut cells = Vec::new();
    for connections in CONNECTIONS {
        for batch in [0].into_iter().chain(BATCHES) {
            cells.push(Cell { connections, batch, ..Cell::default() });
        }
    }
    cells.retain(|cell: &Cell| cell.batch == 0 || bench.wants(&cell.name()));
    let echo = Echo::start()?;
    let mut appends = Vec::new();
    for round in 0..bench.rounds() {
        let data = bench.scratch.fresh("b")?;
        let server = Server::start(&bench.server, &data, &["--memory", "8GiB"])?;
        for index in super::order(cells.len(), round) {
            if let Some(cell) = cells.get_mut(index) {
                measure(cell, &echo, &server, time)?;
            }
        }
        server.kill()?;
        bench.scratch.clear(&data)?;
        let dir = bench.scratch.fresh("b-append")?;
        let took = ZeroFilled::make(&dir, 8)?.append_all(&[APPEND_BYTES; APPENDS])?;
        appends.push(APPENDS as f64 / took.as_secs_f64());
        bench.scratch.clear(&dir)?;
    }
    report(bench, cells, &appends);
    Ok(())
}

fn report(bench: &mut Bench, cells: Vec<Cell>, appends: &[f64]) {
    let mut echoed = Vec::new();
    for cell in cells {
        let name = cell.name();
        let Cell { connections, batch, rounds, cpu_us, refused } = cell;
        if batch == 0 {
            echoed = rounds;
            continue;
        }
        let mut note = format!("{:.1} us server CPU a job", crate::stats::median(&cpu_us));
        if refused > 0 {
            note += &format!(", {refused} requests refused for a moment");
        }
        let line = Line::new('b', name, "jobs/s", rounds).note(note);
        bench.report.add(match (batch, connections) {
            (1, 1) => {
                let both = echoed.iter().zip(appends).map(|(echo, append)| 1.0 / (1.0 / echo + 1.0 / append));
                line.against("echo, then append", both.collect())
            }
            (1, _) => line.against("echo", echoed.clone()),
            _ => line,
        });
    }
}

fn measure(cell: &mut Cell, echo: &Echo, server: &Server, time: Duration) -> Result<()> {
    if cell.batch == 0 {
        let body = payload::payload(0);
        let posted = block_on(post_for(echo.addr, Post::json("/echo", body), cell.connections, time))?;
        cell.rounds.push(posted.per_second);
        return Ok(());
    }
    let queue = format!("c{}-b{}", cell.connections, cell.batch);
    let path = format!("/v1/queues/{queue}/jobs");
    let body = payload::batch(0, cell.batch, Keys::Plain, PAYLOAD_BYTES);
    let cpu = server.cpu_time()?;
    let posted = block_on(async {
        load::configure(server.addr, &queue).await?;
        post_for(server.addr, Post::json(path, body), cell.connections, time).await
    })?;
    let jobs = posted.per_second * cell.batch as f64;
    cell.refused += posted.refused;
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() / (load::WARM_UP + time).as_secs_f64();
    cell.rounds.push(jobs);
    cell.cpu_us.push(cpu * 1e6 / jobs);
    Ok(())
}
