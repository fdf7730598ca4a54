//! (c) Drain over HTTP: 16 consumers receive and ack 100,000 jobs, every ack awaited.

use anyhow::Result;

use crate::load::{self, Drain, Fill, block_on};
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress, stats};

const CONSUMERS: usize = 16;
/// What they ask for, and whether the acks travel with the next receive.
const WAYS: [(u64, bool); 4] = [(1, true), (1, false), (10, true), (10, false)];

fn name(way: (u64, bool)) -> String {
    let how = match way {
        (1, true) => "one by one, ack with the next receive",
        (1, false) => "one by one, ack by itself",
        (_, true) => "by tens, acks with the next receive",
        (_, false) => "by tens, acks by themselves",
    };
    format!("drain, {CONSUMERS} consumers, {how}")
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let jobs = bench.pick(100_000, 20_000);
    progress(&format!("(c) drain of {jobs} jobs over HTTP"));
    let mut rates = WAYS.map(|_| Vec::new());
    let mut cpu_us = WAYS.map(|_| Vec::new());
    for round in 0..bench.rounds() {
        let data = bench.scratch.fresh("c")?;
        let server = Server::start(&bench.server, &data, &[])?;
        for index in super::order(WAYS.len(), round) {
            let (Some((by, piggybacked)), Some(rates), Some(cpu_us)) =
                (WAYS.get(index).copied(), rates.get_mut(index), cpu_us.get_mut(index))
            else {
                continue;
            };
            if !bench.wants(&name((by, piggybacked))) {
                continue;
            }
            let (queue, drain) = (format!("drain-{index}"), Drain { jobs, consumers: CONSUMERS, by, piggybacked });
            let cpu = block_on(async {
                load::fill(server.addr, &queue, Fill::plain(jobs)).await?;
                server.cpu_time()
            })?;
            let took = block_on(load::drain(server.addr, &queue, drain))?;
            rates.push(jobs as f64 / took.as_secs_f64());
            cpu_us.push((server.cpu_time()? - cpu).as_secs_f64() * 1e6 / jobs as f64);
        }
        server.kill()?;
        bench.scratch.clear(&data)?;
    }
    for ((way, rates), cpu_us) in WAYS.into_iter().zip(rates).zip(cpu_us) {
        if rates.is_empty() {
            continue;
        }
        let cpu = format!("{:.1} us server CPU a job", stats::median(&cpu_us));
        bench.report.add(Line::new('c', name(way), "jobs/s", rates).note(cpu));
    }
    Ok(())
}
