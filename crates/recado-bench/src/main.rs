//! Measures Recado next to the limits of the machine it runs on: `make bench`.
//!
//! Whatever is quoted as a ratio was measured in this run, in turns with what it is compared to, on the
//! same disk and the same cores. What the rows mean and what bounds them: `docs/performance.md`.

mod echo;
mod http;
mod load;
mod machine;
mod payload;
mod raw_disk;
mod report;
mod rows;
mod scratch;
mod server;
mod stats;
mod traced_disk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::report::Report;
use crate::scratch::Scratch;

const HELP: &str = "\
Measures Recado next to the limits of this machine.

Usage: recado-bench [--quick] [--rows a,b,..] [--only WORDS] [--server PATH]

  --quick        about a minute: shorter, fewer rounds, smaller backlogs, no 5 GB row
  --rows a,b,..  only these rows, of a to g, q, s and w
  --only WORDS   of rows b, c and q only what has these words in its name: to profile one thing
  --server PATH  the recado binary; by default it is built with cargo, or taken from beside this binary

RECADO_BENCH_DIR is where the data goes (./target/bench-data); it should be on the disk that matters.
The figures go to standard output and to target/bench/bench.json, progress to standard error.
";

/// What every row gets.
pub(crate) struct Bench {
    /// Shorter and smaller.
    pub(crate) is_quick: bool,
    /// Words that what is measured must have in its name.
    only: String,
    /// Where the data goes.
    pub(crate) scratch: Scratch,
    /// The recado binary.
    pub(crate) server: PathBuf,
    /// What was measured so far.
    pub(crate) report: Report,
}

impl Bench {
    /// `full`, or `quick` with `--quick`.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// Whether something of this name was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    /// Short rows are measured so often; their median counts.
    pub(crate) fn rounds(&self) -> usize {
        self.pick(3, 1)
    }
}

struct Args {
    is_quick: bool,
    rows: String,
    only: String,
    server: Option<PathBuf>,
}

fn parse_args() -> Result<Option<Args>> {
    let mut args = Args { is_quick: false, rows: rows::ALL.into(), only: String::new(), server: None };
    let mut given = std::env::args().skip(1);
    while let Some(arg) = given.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => args.is_quick = true,
            "--rows" => args.rows = given.next().context("--rows needs a list, like a,b")?,
            "--only" => args.only = given.next().context("--only needs words")?,
            "--server" => args.server = Some(given.next().context("--server needs a path")?.into()),
            other => bail!("unknown argument `{other}`: see --help"),
        }
    }
    args.rows.retain(|c| !c.is_whitespace() && c != ',');
    if let Some(row) = args.rows.chars().find(|row| !rows::ALL.contains(*row)) {
        bail!("there is no row `{row}`: the rows are {}", rows::ALL);
    }
    Ok(Some(args))
}

fn run() -> Result<()> {
    let Some(args) = parse_args()? else {
        print!("{HELP}");
        return Ok(());
    };
    let started = Instant::now();
    let scratch = Scratch::new()?;
    let machine = machine::describe(scratch.path());
    let needs_server = args.rows.contains(|row| rows::OVER_HTTP.contains(row));
    let server = if needs_server { server::find(args.server)? } else { PathBuf::new() };
    let report = Report::new(machine, args.is_quick);
    let mut bench = Bench { is_quick: args.is_quick, only: args.only, scratch, server, report };
    for row in rows::ALL.chars().filter(|row| args.rows.contains(*row)) {
        let begun = Instant::now();
        rows::run(row, &mut bench).with_context(|| format!("row ({row})"))?;
        progress(&format!("({row}) took {:.0} s", begun.elapsed().as_secs_f64()));
    }
    progress(&format!("all took {:.0} s", started.elapsed().as_secs_f64()));
    print!("{}", bench.report.table());
    let path = bench.report.write()?;
    progress(&format!("written to {}", path.display()));
    Ok(())
}

/// Says on standard error what is going on.
pub(crate) fn progress(what: &str) {
    eprintln!("bench: {what}");
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
