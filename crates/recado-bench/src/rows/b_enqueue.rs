//! (b) Enqueue over HTTP, each answer awaited, beside axum's echo of one such body.

use std::time::Duration;

use anyhow::Result;

use crate::echo::Echo;
use crate::load::{self, block_on, post_for};
use crate::payload::{self, Keys, PAYLOAD_BYTES};
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const BATCHES: [u64; 4] = [1, 10, 100, 1_000];

/// A cell: how many connections, and jobs in a request; 0 is the echo.
#[derive(Default)]
struct Cell {
    connections: usize,
    batch: u64,
    rounds: Vec<f64>,
    cpu_us: Vec<f64>,
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
    let echo = Echo::start()?;
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
    }
    let mut echoed = Vec::new();
    for Cell { connections, batch, rounds, cpu_us } in cells {
        if batch == 0 {
            echoed = rounds;
            continue;
        }
        let how = match batch {
            1 => "one by one".into(),
            _ => format!("batches of {batch}"),
        };
        let plural = if connections == 1 { "" } else { "s" };
        let what = format!("enqueue, {connections} connection{plural}, {how}");
        let cpu = format!("{:.1} us server CPU a job", crate::stats::median(&cpu_us));
        let line = Line::new('b', what, "jobs/s", rounds).note(cpu);
        bench.report.add(if batch == 1 { line.against("echo", echoed.clone()) } else { line });
    }
    Ok(())
}

fn measure(cell: &mut Cell, echo: &Echo, server: &Server, time: Duration) -> Result<()> {
    if cell.batch == 0 {
        let body = payload::payload(0);
        cell.rounds.push(block_on(post_for(echo.addr, "/echo".into(), body, cell.connections, time))?);
        return Ok(());
    }
    let queue = format!("c{}-b{}", cell.connections, cell.batch);
    let path = format!("/v1/queues/{queue}/jobs");
    let body = payload::batch(0, cell.batch, Keys::Plain, PAYLOAD_BYTES);
    let cpu = server.cpu_time()?;
    let answers = block_on(async {
        load::configure(server.addr, &queue).await?;
        post_for(server.addr, path, body, cell.connections, time).await
    })?;
    let jobs = answers * cell.batch as f64;
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() / (load::WARM_UP + time).as_secs_f64();
    cell.rounds.push(jobs);
    cell.cpu_us.push(cpu * 1e6 / jobs);
    Ok(())
}
