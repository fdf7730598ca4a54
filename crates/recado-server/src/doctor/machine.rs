//! The server and where it runs.

use std::path::PathBuf;

use recado_shard::{COMMIT_BOUNDS_US, Status};
use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Sheet;
use crate::limits::CONNECTIONS_MAX;
use crate::{duration, size};

/// What does not change while the server runs.
pub(crate) struct Place {
    /// Where the data is.
    pub(crate) data: PathBuf,
    /// What is acknowledged survives power loss.
    pub(crate) is_synced: bool,
}

/// Less space than this leaves no night to act, in bytes.
const SPACE_BYTES_MIN: u64 = 1 << 30;
/// A commit that takes longer is felt by every producer, in microseconds.
const COMMIT_US_MAX: u64 = 100_000;
/// Share of the memory for jobs from which on it is short.
const MEMORY_SHARE_MAX: f64 = 0.8;
/// Files that are open beside connections: segments, and the workings of the process.
const FILES_BESIDE: u64 = 256;

/// File systems by the number that statfs(2) gives: which of them is not what the log is made for, and why.
const FILE_SYSTEMS: &[(u32, &str, &str)] = &[
    (0x9123_683e, "btrfs", COPIES),
    (0x2fc1_2fc1, "zfs", COPIES),
    (0x794c_7630, "overlayfs", "put the data on a volume: what a container writes is gone with it"),
    (0x0102_1994, "tmpfs", "put the data on a disk: this is memory, and gone with the machine's power"),
    (0x6969, "nfs", "put the data on a local disk: locks and syncs over a network are only as good as the other side"),
];

const COPIES: &str = "it copies what is written over, so that the log's reused segments cost space and time: put the \
                      data on ext4 or xfs, or turn copying off for the directory (chattr +C)";

pub(super) fn judge(place: &Place, status: &Status, sheet: &mut Sheet) {
    sheet.pass("version", env!("CARGO_PKG_VERSION"));
    match &status.failed {
        Some(reason) => sheet.fail("log", &**reason, "free the disk or replace it, then start the server again"),
        None => {
            sheet.pass("log", format!("{} live of {}", size::text(status.live_bytes), size::text(status.log.log_bytes)))
        }
    }
    if status.unreadable > 0 {
        let value = format!("{} could not be read", status.unreadable);
        sheet.fail("payloads", value, "stop the server and run recado log check; restore from a backup what it names");
    }
    space(place, status, sheet);
    commits(place, status, sheet);
    let (used, limit) = (status.memory_bytes, status.memory_limit_bytes);
    let value = format!("{} of {}", size::text(used), size::text(limit));
    if used as f64 > limit as f64 * MEMORY_SHARE_MAX {
        sheet.warn("memory", value, "raise server.memory, or let workers catch up: at the limit producers are refused");
    } else {
        sheet.pass("memory", value);
    }
    let needed = CONNECTIONS_MAX as u64 + FILES_BESIDE;
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => sheet.warn(
            "open-files",
            files.to_string(),
            format!("raise the limit to {needed} (LimitNOFILE= of systemd, ulimit -n), so that {CONNECTIONS_MAX} can connect"),
        ),
        files => sheet.pass("open-files", files.map_or("no limit".to_owned(), |files| files.to_string())),
    }
}

fn space(place: &Place, status: &Status, sheet: &mut Sheet) {
    let data = place.data.display();
    match statvfs(&place.data) {
        Err(error) => sheet.fail("disk", format!("{data}: {error}"), "make the data directory readable for the server"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let value = format!("{} free", size::text(free));
            if status.storage_full {
                sheet.fail("disk", value, "free space: producers are refused until there is some");
            } else if free < SPACE_BYTES_MIN {
                sheet.warn("disk", value, "free space, or move the data to a larger disk");
            } else {
                sheet.pass("disk", value);
            }
        }
    }
    let number = statfs(&place.data).map(|found| found.f_type as u32);
    match number.ok().and_then(|number| FILE_SYSTEMS.iter().find(|(known, ..)| *known == number)) {
        Some((_, name, fix)) => sheet.warn("file-system", *name, *fix),
        None => sheet.pass("file-system", "writes in place"),
    }
}

fn commits(place: &Place, status: &Status, sheet: &mut Sheet) {
    if !place.is_synced {
        let fix = "set durability to sync, unless jobs of the last moments may be lost with the machine's power";
        return sheet.warn("commit", "durability os", fix);
    }
    let commits = &status.commit;
    if commits.count == 0 {
        return sheet.pass("commit", "none yet");
    }
    let mut left = commits.count - commits.count / 100;
    let slow = commits.buckets.iter().position(|count| {
        left = left.saturating_sub(*count);
        left == 0
    });
    let bound_us = slow.and_then(|index| COMMIT_BOUNDS_US.get(index)).copied().unwrap_or(u64::MAX);
    let value = format!("99 of 100 within {}", text_of_us(bound_us));
    if bound_us > COMMIT_US_MAX {
        sheet.warn("commit", value, "use a faster disk, or one that nobody else writes to: each answer waits for it");
    } else {
        sheet.pass("commit", value);
    }
}

fn text_of_us(us: u64) -> String {
    if us < 1_000 { format!("{us} us") } else { duration::text(us / 1_000) }
}
