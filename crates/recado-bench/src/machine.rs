//! What is measured on, and what the system says about a process: read from `/proc`.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise, statvfs};

/// The machine in a few words; no name of it.
pub(crate) fn describe(data: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let (arch, memory, filesystem) = (std::env::consts::ARCH, memory(), filesystem(data));
    format!("{cores}-core {arch}, {memory}, {filesystem}, load average {load} before the start")
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&text, "MemTotal:").unwrap_or(0);
    format!("{:.0} GiB", kib as f64 / f64::from(1 << 20))
}

/// The type of the file system that holds `path`: the longest mount point above it.
fn filesystem(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let holds = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        path.starts_with(at).then_some((at.len(), kind))
    });
    holds.max().map_or("unknown file system", |(_, kind)| kind).to_owned()
}

/// The first number behind `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the server is gone")?;
    Ok(field(&text, "VmRSS:").context("no VmRSS in /proc")? * 1024)
}

/// Time on a core, in and for a process so far; in hundredths of a second.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server is gone")?;
    // The name, in parentheses, may hold anything.
    let (_, words) = text.rsplit_once(')').context("an odd /proc/PID/stat")?;
    // Fields 14 and 15, user and system; the third is the first behind the name.
    let ticks = words.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    Ok(Duration::from_millis(ticks * 10))
}

/// Free space of the file system of `path`, in bytes.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let stat = statvfs(path).context("cannot ask for free space")?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Makes the system forget what it has cached of the files of a directory, so that they are read from disk.
pub(crate) fn forget_cached(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// What the files of a directory hold on disk, in bytes.
pub(crate) fn directory_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        // A file may be removed between the list and here.
        bytes += entry?.metadata().map_or(0, |meta| meta.len());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 100_000);
        assert!(cpu_time(pid).is_ok());
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(describe(Path::new("/")).contains("-core"));
    }
}
