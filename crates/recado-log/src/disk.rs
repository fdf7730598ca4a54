//! The one seam to the operating system: everything the log does to files goes through [`Disk`].
//!
//! What holds on every disk: a write that was synced survives power loss; one that was not may be
//! lost, torn at sectors of 512 bytes, or overtaken by a later one; names are durable after
//! [`Disk::sync_dir`]. After a failed sync nothing is known about what was written since the last
//! good one, and a second sync proves nothing.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

/// One directory of files.
pub trait Disk: Send + Sync {
    /// Names in the directory.
    ///
    /// # Errors
    /// Of the operating system, as for all that follow.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists, to read, and to write where that is allowed.
    ///
    /// # Errors
    /// See [`Disk::list`].
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes an empty file, or empties one.
    ///
    /// # Errors
    /// See [`Disk::list`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name; a file that has it is replaced.
    ///
    /// # Errors
    /// See [`Disk::list`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// See [`Disk::list`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes names durable.
    ///
    /// # Errors
    /// See [`Disk::list`].
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the lock, which is held until the answer is dropped or the process dies.
    ///
    /// # Errors
    /// `WouldBlock` while another process (or this one) holds it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Unpredictable bits; a simulated disk draws them from its seed.
    fn entropy(&self) -> u64;
    /// The path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// An open file, used from several threads.
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// Of the operating system, as for all that follow.
    fn size(&self) -> io::Result<u64>;
    /// Reads some bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some bytes, at least one.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes what was written durable, the length included.
    ///
    /// # Errors
    /// See [`DiskFile::size`].
    fn sync_data(&self) -> io::Result<()>;
}

pub(crate) fn read_exact_at(file: &dyn DiskFile, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes = &mut bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) fn write_all_at(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `from..to` with zeros.
pub(crate) fn zero_at(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    let mut at = from;
    while at < to {
        let count = usize::try_from(to - at).unwrap_or(usize::MAX).min(ZEROS.len());
        write_all_at(file, &ZEROS[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
}

impl RealDisk {
    /// The directory at `path`, which is made when it is missing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let path = path.into();
        if !path.is_dir() {
            fs::create_dir_all(&path)?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(RealDisk { path })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.path
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path.join(name);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if crate::error::is_read_only(&error) => File::open(&path)?,
            file => file?,
        };
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path.join(name))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(Locked(file)))
    }

    fn entropy(&self) -> u64 {
        // Seeded by the operating system; the process id and a counter do not matter then.
        RandomState::new().hash_one(std::process::id())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// A lock belongs to the open file, not to one descriptor of it: a child that another thread is about to start
/// holds a copy until it runs its program, so closing ours would not give the lock back at once.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // What cannot be unlocked is so when the last descriptor is closed.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_given_back_though_a_child_that_starts_has_a_copy_of_its_file() {
        let path = std::env::temp_dir().join(format!("recado-lock-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let copy = file.try_clone().unwrap();
        drop(Locked(file));
        let again = File::open(&path).unwrap();
        flock(&again, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(copy);
        fs::remove_file(&path).unwrap();
    }
}
