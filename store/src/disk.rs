//! The edge to files. The log and the snapshots are written against these traits, so that they also run on a disk that
//! loses what was not made durable. It decides nothing.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system. What happens to names is durable after `sync_dir`, what happens to bytes after the file's `sync_data`.
pub trait Disk: Debug + Send + Sync + 'static {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The files in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Opens a file that exists, to read and to write.
    fn open(&self, path: &Path) -> io::Result<FileRef>;
    /// Opens a file without content, made if it is missing.
    fn create(&self, path: &Path) -> io::Result<FileRef>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Keeps others out while the answer exists; `None`: another is in.
    fn lock(&self, path: &Path) -> io::Result<Option<FileRef>>;
}

pub type DiskRef = Arc<dyn Disk>;
pub type FileRef = Arc<dyn DiskFile>;

/// An open file.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Fewer bytes than there is room for only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// The content, and as much about it as is needed to read it.
    fn sync_data(&self) -> io::Result<()>;
    fn sync_all(&self) -> io::Result<()>;
    fn bytes(&self) -> io::Result<u64>;

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let n = self.read_at(buffer, at)?;
        if n < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// A file read or written from its beginning on.
pub struct Cursor<'a> {
    pub file: &'a dyn DiskFile,
    pub at: u64,
}

impl io::Read for Cursor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl io::Write for Cursor<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The whole content of a file.
pub fn read_whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.bytes()?).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The machine's own file system.
#[derive(Debug)]
pub struct RealDisk;

impl RealDisk {
    pub fn shared() -> DiskRef {
        Arc::new(Self)
    }
}

fn shared(file: io::Result<File>) -> io::Result<FileRef> {
    Ok(Arc::new(file?))
}

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|file| Ok(file?.path())).collect()
    }

    fn open(&self, path: &Path) -> io::Result<FileRef> {
        shared(OpenOptions::new().read(true).write(true).open(path))
    }

    fn create(&self, path: &Path) -> io::Result<FileRef> {
        shared(OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<FileRef>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Arc::new(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match FileExt::read_at(self, &mut buffer[read..], at + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
