//! What the disk can do without a queue in front of it: bare appends, each synced.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A file that was filled with zeros and synced beforehand, like the segments of the log.
pub(crate) struct ZeroFilled {
    file: File,
    bytes: u64,
    at: u64,
}

impl ZeroFilled {
    /// Makes one of `mebibytes`.
    pub(crate) fn make(dir: &Path, mebibytes: u64) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join("zero-filled");
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        for index in 0..mebibytes {
            file.write_all_at(&ZEROS, index << 20)?;
        }
        file.sync_all()?;
        Ok(Self { file, bytes: mebibytes << 20, at: 0 })
    }

    /// Appends `bytes` and waits until they are durable; from the start again at the end of the file.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Duration> {
        let started = Instant::now();
        if self.at + bytes.len() as u64 > self.bytes {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.file.sync_data()?;
        self.at += bytes.len() as u64;
        Ok(started.elapsed())
    }

    /// One append after the other of the given sizes: how long they took together.
    pub(crate) fn append_all(&mut self, sizes: &[usize]) -> Result<Duration> {
        let bytes = vec![b'x'; sizes.iter().copied().max().unwrap_or(0)];
        let started = Instant::now();
        for size in sizes {
            self.append(bytes.get(..*size).unwrap_or_default())?;
        }
        Ok(started.elapsed())
    }
}
