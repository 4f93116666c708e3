//! A disk that keeps only what it was told to make durable. The process that dies leaves everything behind; the power that
//! fails takes what was not synced: each block of an unsynced write may be there or not, and the last names may be missing.

use super::dice;
use crate::disk::{Disk, DiskFile, FileRef};
use crate::wal::Space;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What survives or not as one.
const BLOCK: usize = 512;

/// One member's disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// While it is used up, no file grows.
    pub space: Space,
}

#[derive(Debug, Default)]
struct State {
    /// The process that may use the disk; the handles of those before it are dead.
    epoch: u64,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// What happened to names since the last sync, in order.
    renamed: Vec<Name>,
    files: Vec<Content>,
    /// Writes and syncs until the process dies in the middle of one.
    dies_in: Option<u64>,
}

#[derive(Clone, Debug)]
enum Name {
    Is(PathBuf, usize),
    Gone(PathBuf),
}

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl SimDisk {
    /// The disk as the process of the newest epoch sees it.
    pub fn mount(&self) -> Arc<Mount> {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.dies_in = None;
        Arc::new(Mount { epoch: state.epoch, disk: self.clone() })
    }

    /// The process is dead: its handles do nothing any more.
    pub fn unmount(&self) {
        self.state.lock().epoch += 1;
    }

    /// Lets the process die within its next writes and syncs.
    pub fn die_in(&self, operations: u64) {
        self.state.lock().dies_in = Some(operations);
    }

    /// Whether that has happened.
    pub fn died(&self) -> bool {
        self.state.lock().dies_in == Some(0)
    }

    /// The power fails: what was not synced is lost, in part or as a whole.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        let kept = dice::below(state.renamed.len() as u64 + 1) as usize;
        let mut names = std::mem::take(&mut state.durable_names);
        for name in state.renamed.drain(..).take(kept) {
            name.apply(&mut names);
        }
        state.names = names.clone();
        state.durable_names = names;
        for content in &mut state.files {
            let unsynced = std::mem::take(&mut content.unsynced);
            for (at, bytes) in unsynced {
                if dice::percent(50) {
                    keep_blocks(&mut content.durable, at, &bytes);
                }
            }
            content.now = content.durable.clone();
        }
    }
}

/// Keeps some of a write's blocks: all, those before some point, or any.
fn keep_blocks(into: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let torn = dice::below(3);
    let cut = dice::below(bytes.len() as u64 + 1) as usize;
    let mut start = 0;
    while start < bytes.len() {
        let end = ((at + start) / BLOCK * BLOCK + BLOCK - at).min(bytes.len());
        if torn == 0 || (torn == 1 && end <= cut) || (torn == 2 && dice::percent(50)) {
            write(into, at + start, &bytes[start..end]);
        }
        start = end;
    }
}

fn write(into: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    into[at..end].copy_from_slice(bytes);
}

impl Name {
    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Is(path, file) => drop(names.insert(path, file)),
            Self::Gone(path) => drop(names.remove(&path)),
        }
    }
}

impl State {
    fn name(&mut self, name: Name) {
        self.renamed.push(name.clone());
        name.apply(&mut self.names);
    }

    /// Counts an operation; `false`: the process dies before it.
    fn survives(&mut self) -> bool {
        match &mut self.dies_in {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                *left > 0
            }
            None => true,
        }
    }
}

/// The disk in the hands of one process.
#[derive(Debug)]
pub struct Mount {
    epoch: u64,
    disk: SimDisk,
}

fn dead() -> io::Error {
    io::Error::other("this process is dead")
}

impl Mount {
    fn read<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        if !super::running() {
            return Err(io::Error::other("a thread that is not the simulation's uses its disk"));
        }
        let mut state = self.disk.state.lock();
        if state.epoch != self.epoch || state.dies_in == Some(0) {
            return Err(dead());
        }
        work(&mut state)
    }

    fn change<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.read(|state| if state.survives() { work(state) } else { Err(dead()) })
    }

    fn handle(&self, file: usize) -> FileRef {
        Arc::new(SimFile { mount: Self { epoch: self.epoch, disk: self.disk.clone() }, file })
    }
}

impl Disk for Mount {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        self.read(|_| Ok(()))
    }

    /// One directory is as good as all here: a journal keeps the order of everything before it.
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change(|state| {
            state.renamed.clear();
            state.durable_names = state.names.clone();
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.read(|state| Ok(state.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect()))
    }

    fn open(&self, path: &Path) -> io::Result<FileRef> {
        let file = self.read(|state| state.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into()));
        file.map(|file| self.handle(file))
    }

    fn create(&self, path: &Path) -> io::Result<FileRef> {
        let file = self.change(|state| {
            state.files.push(Content::default());
            let file = state.files.len() - 1;
            state.name(Name::Is(path.to_owned(), file));
            Ok(file)
        });
        file.map(|file| self.handle(file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            if !state.names.contains_key(path) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.name(Name::Gone(path.to_owned()));
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| {
            let file = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            // Both names change at once, or not at all; a crash between is as good as one before.
            state.name(Name::Is(to.to_owned(), file));
            state.name(Name::Gone(from.to_owned()));
            Ok(())
        })
    }

    fn lock(&self, _: &Path) -> io::Result<Option<FileRef>> {
        self.read(|_| Ok(Some(self.handle(usize::MAX))))
    }
}

#[derive(Debug)]
struct SimFile {
    mount: Mount,
    file: usize,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.mount.read(|state| {
            let rest = state.files[self.file].now.get(at as usize..).unwrap_or_default();
            let n = rest.len().min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }

    /// A process that dies in a write has done a part of it.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.mount.read(|state| {
            if at as usize + bytes.len() > state.files[self.file].now.len() {
                self.mount.disk.space.take()?;
            }
            let survives = state.survives();
            let part = if survives { bytes.len() } else { dice::below(bytes.len() as u64 + 1) as usize };
            let content = &mut state.files[self.file];
            write(&mut content.now, at as usize, &bytes[..part]);
            content.unsynced.push((at as usize, bytes[..part].to_vec()));
            if survives { Ok(()) } else { Err(dead()) }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.mount.change(|state| {
            let content = &mut state.files[self.file];
            for (at, bytes) in content.unsynced.drain(..) {
                write(&mut content.durable, at, &bytes);
            }
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        self.mount.read(|state| Ok(state.files[self.file].now.len() as u64))
    }
}
