//! (f) Whether a long backlog makes a drain slower: two servers, one with many jobs and one with few,
//! drained in turns of equal size and filled up again.

use anyhow::Result;

use crate::load::{self, Drain, Fill, block_on};
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress};

const QUEUE: &str = "depth";
const SHALLOW: u64 = 10_000;
/// One turn takes all of the shallow queue.
const TURN: Drain = Drain { jobs: SHALLOW, consumers: 16, by: 10, piggybacked: true };
const TURNS: usize = 9;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let deep = bench.pick(1_000_000, 100_000);
    progress(&format!("(f) drain with {deep} jobs waiting, and with {SHALLOW}"));
    let mut servers = Vec::new();
    for (name, jobs) in [("f-shallow", SHALLOW), ("f-deep", deep)] {
        let data = bench.scratch.fresh(name)?;
        let server = Server::start(&bench.server, &data, &[])?;
        block_on(async {
            load::configure(server.addr, QUEUE).await?;
            load::fill(server.addr, QUEUE, Fill::plain(jobs)).await
        })?;
        servers.push((server, data));
    }
    let mut rates = [vec![], vec![]];
    for turn in 0..bench.pick(TURNS, 3) {
        for index in super::order(servers.len(), turn) {
            let (Some((server, _)), Some(rates)) = (servers.get(index), rates.get_mut(index)) else { continue };
            let took = block_on(load::drain(server.addr, QUEUE, TURN))?;
            rates.push(TURN.jobs as f64 / took.as_secs_f64());
            block_on(load::fill(server.addr, QUEUE, Fill::plain(TURN.jobs)))?;
        }
    }
    for (server, data) in servers {
        server.kill()?;
        bench.scratch.clear(&data)?;
    }
    let [shallow, deep_rates] = rates;
    let what = format!("drain by tens with {deep} waiting");
    bench.report.add(Line::new('f', what, "jobs/s", deep_rates).against("with 10,000", shallow));
    Ok(())
}
