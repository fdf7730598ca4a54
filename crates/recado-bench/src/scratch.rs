//! The directory in which everything happens, removed at the end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Only what has this name is ever removed: the directory it lies in may be the user's.
const NAME: &str = "recado-bench-data";

/// A directory of our own.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it anew, in `RECADO_BENCH_DIR` or `./target/bench-data`.
    pub(crate) fn new() -> Result<Self> {
        let parent = std::env::var_os("RECADO_BENCH_DIR").map_or_else(|| "target/bench-data".into(), PathBuf::from);
        let path = std::path::absolute(parent.join(NAME)).context("cannot tell the current directory")?;
        remove(&path)?;
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A place for `name` where nothing is yet.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        remove(&path)?;
        Ok(path)
    }

    /// Removes a place before the end.
    pub(crate) fn clear(&self, path: &Path) -> Result<()> {
        assert!(path.starts_with(&self.path), "only what is ours is removed");
        remove(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            crate::progress(&format!("{error:#}"));
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
