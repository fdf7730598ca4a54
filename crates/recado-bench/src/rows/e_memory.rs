//! (e) Memory of a waiting job, and how long a start takes with a backlog.
//!
//! Memory is what the system says the server holds, minus what it held empty, with nearly no payloads
//! cached. A start is one after SIGKILL: from the process to the first answer that says it is ready.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::load::{self, Fill, block_on};
use crate::payload::{Keys, PAYLOAD_BYTES};
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, machine, progress};

/// Payloads are not what is measured.
const MORE: [&str; 4] = ["--payload-cache", "1MiB", "--memory", "8GiB"];
/// What was handed to the system lately may not be back yet.
const SETTLE_TIME: Duration = Duration::from_secs(2);
const STARTS: usize = 3;
const LARGE_BYTES: usize = 64 * 1024;
const LARGE_TOTAL_BYTES: u64 = 5_000_000_000;
/// Left free on the disk beside it.
const SPARE_BYTES: u64 = 5_000_000_000;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let jobs = bench.pick(1_000_000, 200_000);
    for (keys, what) in [(Keys::Plain, "plain"), (Keys::All, "with dedup key, business id, idempotency key")] {
        progress(&format!("(e) {jobs} waiting jobs, {what}"));
        let data = bench.scratch.fresh("e")?;
        let fill = Fill { jobs, batch: 1_000, keys, payload_bytes: PAYLOAD_BYTES };
        let server = Server::start(&bench.server, &data, &MORE)?;
        let empty = server.resident_bytes()?;
        block_on(async {
            load::configure(server.addr, "memory").await?;
            load::fill(server.addr, "memory", fill).await
        })?;
        std::thread::sleep(SETTLE_TIME);
        let full = server.resident_bytes()?;
        server.kill()?;
        let (starts, restarted) = restart(&bench.server, &data, false)?;
        let each = |bytes: u64| bytes.saturating_sub(empty) as f64 / jobs as f64;
        bench.report.add(
            Line::new('e', format!("memory of a waiting job, {what}, at {jobs}"), "B", vec![each(full)]).note(format!(
                "{:.0} B after a restart, {:.0} MiB empty",
                each(restarted),
                mebibytes(empty)
            )),
        );
        let disk = format!("{:.0} MiB of files", mebibytes(machine::directory_bytes(&data)?));
        bench.report.add(Line::new('e', format!("restart with them, {what}"), "s", starts).note(disk));
        bench.scratch.clear(&data)?;
    }
    if bench.is_quick {
        progress("(e) --quick: the restart with 5 GB is left out");
        return Ok(());
    }
    large(bench)
}

fn large(bench: &mut Bench) -> Result<()> {
    let free = machine::free_bytes(bench.scratch.path())?;
    if free < LARGE_TOTAL_BYTES + SPARE_BYTES {
        progress(&format!("(e) the restart with 5 GB is left out: only {:.0} MiB are free", mebibytes(free)));
        return Ok(());
    }
    progress("(e) 5 GB of payloads of 64 KiB");
    let data = bench.scratch.fresh("e-large")?;
    let jobs = LARGE_TOTAL_BYTES / LARGE_BYTES as u64;
    let server = Server::start(&bench.server, &data, &MORE)?;
    block_on(async {
        load::configure(server.addr, "large").await?;
        load::fill(server.addr, "large", Fill { jobs, batch: 50, keys: Keys::Plain, payload_bytes: LARGE_BYTES }).await
    })?;
    server.kill()?;
    let files = mebibytes(machine::directory_bytes(&data)?);
    ensure!(files * f64::from(1 << 20) >= LARGE_TOTAL_BYTES as f64, "only {files:.0} MiB were written");
    for (is_cold, what) in [(false, "cached by the system"), (true, "read from disk")] {
        let (starts, _) = restart(&bench.server, &data, is_cold)?;
        let line = Line::new('e', format!("restart with 5 GB of 64 KiB payloads, {what}"), "s", starts);
        bench.report.add(line.note(format!("{files:.0} MiB of files")));
    }
    bench.scratch.clear(&data)
}

/// Starts a few times, and says what the last one holds in memory.
fn restart(binary: &Path, data: &Path, is_cold: bool) -> Result<(Vec<f64>, u64)> {
    let (mut starts, mut resident) = (Vec::new(), 0);
    for _ in 0..STARTS {
        if is_cold {
            machine::forget_cached(data)?;
        }
        let server = Server::start(binary, data, &MORE)?;
        starts.push(server.ready_after.as_secs_f64());
        resident = server.resident_bytes()?;
        server.kill()?;
    }
    Ok((starts, resident))
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
