//! The wall clock of a process is faked with libfaketime, from a file that is read whenever the time is asked for.
//! Its monotonic clock is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, for programs with threads.
fn library() -> PathBuf {
    let dirs = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut files = dirs.map(|dir| dir.join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.exists()).expect("libfaketime is installed: run scripts/setup.sh test")
}

/// The command's wall clock is what `file` says.
pub(crate) fn fake(command: &mut Command, file: &Path) {
    command.env("LD_PRELOAD", library()).env("TZ", "UTC").env("FAKETIME_TIMESTAMP_FILE", file);
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets the clock, as in `-3600` (seconds beside the machine's) or `@2026-12-01 12:00:00` (at the start of the
/// process). Nobody reads half of it.
pub(crate) fn set(file: &Path, clock: &str) {
    let new = file.with_extension("new");
    fs::write(&new, format!("{clock}\n")).unwrap();
    fs::rename(new, file).unwrap();
}
