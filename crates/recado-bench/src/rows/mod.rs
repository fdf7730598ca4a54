//! The rows of the table, a file a row.

mod a_engine;
mod b_enqueue;
mod c_drain;
mod d_latency;
mod e_memory;
mod f_depth;
mod g_churn;
mod q_sqs;
mod s_scan;
mod w_worker;

use anyhow::{Result, bail};

use crate::Bench;

/// All rows, in the order of the table.
pub(crate) const ALL: &str = "abcdefgqsw";

/// Those that need the server's binary.
pub(crate) const OVER_HTTP: &str = "bcdefqw";

/// Measures one.
pub(crate) fn run(row: char, bench: &mut Bench) -> Result<()> {
    match row {
        'a' => a_engine::run(bench),
        'b' => b_enqueue::run(bench),
        'c' => c_drain::run(bench),
        'd' => d_latency::run(bench),
        'e' => e_memory::run(bench),
        'f' => f_depth::run(bench),
        'g' => g_churn::run(bench),
        'q' => q_sqs::run(bench),
        's' => s_scan::run(bench),
        'w' => w_worker::run(bench),
        other => bail!("there is no row `{other}`"),
    }
}

/// The order of a round: every second one is backwards, so that nobody always comes first.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
