//! Disks without room, and how they get it back.
//!
//! Where this user may mount one, that is a real file system of its own (tmpfs, seen by the server alone). Where not,
//! as in a container without privileges, the server's system calls say that there is no space: the one that fills the
//! file of the next segment, which is the only one that claims any.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::trace::{start_failing, stop_failing};
use crate::support::{Dir, RECADO, Server, command_through, make_small_log};

/// Room for some segments of 4 MiB.
const DISK: &str = "48m";
/// The file that becomes a segment.
const PREPARING: &str = "prepare.tmp";

/// A server on a full disk.
pub(super) struct Full {
    pub(super) server: Server,
    how: How,
    _dir: Dir,
}

enum How {
    /// This file fills it.
    Filled(PathBuf),
    /// Its system calls say so.
    Said,
}

impl Full {
    /// One of each kind that can be had here.
    pub(super) fn all() -> Vec<Full> {
        let mounted = mounted();
        println!("a file system of {DISK}: {}", if mounted.is_some() { "mounted" } else { "cannot be mounted here" });
        mounted.into_iter().chain([said()]).collect()
    }

    /// Space comes back.
    pub(super) fn make_room(&self) {
        match &self.how {
            How::Filled(filler) => fs::remove_file(filler).unwrap(),
            How::Said => stop_failing(&self.server),
        }
    }
}

fn said() -> Full {
    let dir = Dir::new();
    let data = dir.path().join("data");
    let server = start_failing(&data, &[], "pwrite64:error=ENOSPC", Some(&data.join(PREPARING)));
    Full { server, how: How::Said, _dir: dir }
}

/// Runs `then` where `disk` is a small disk of its own, which nobody else sees and which ends with it.
fn on_small_disk(disk: &Path, then: &str) -> Command {
    let script = format!("mount -t tmpfs -o size={DISK} none \"$1\" && {then}");
    let disk = disk.display().to_string();
    let home = Path::new(&disk).parent().unwrap();
    command_through("unshare", home, &["-rm", "sh", "-c", &script, "sh", &disk, RECADO])
}

fn mounted() -> Option<Full> {
    let dir = Dir::new();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let tried = on_small_disk(&disk, "true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return None;
    }
    make_small_log(&dir.path().join("empty"));
    let serve = "cp -r empty \"$1/data\" && exec \"$2\" serve --listen 127.0.0.1:0 --data \"$1/data\"";
    let server = Server::spawn(&mut on_small_disk(&disk, serve));
    let seen = PathBuf::from(format!("/proc/{}/root{}", server.process.pid(), disk.display()));
    let filler = fill(&seen);
    Some(Full { server, how: How::Filled(filler), _dir: dir })
}

/// Fills the disk to its last byte.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}
