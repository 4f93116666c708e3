//! Snapshot files: a whole state with its history, in frames with checksums. A file appears under its name only when it
//! is whole and durable. It decides nothing about when.
//!
//! ```text
//! "GNTRYSNP" | version u8 | 7 zero | frames: length u32 | crc32 u32 | items
//! item: 1 head (raft's metadata, the state's base) | 2 key | 3 commit | 4 end (keys, commits) | 5 an alarm | 6 whose it is
//! ```

use super::types::{self, Meta};
use crate::archive::{Archive, Nothing, bring_back};
use crate::codec::{self, DecodeError, Reader, put_u64};
use crate::disk::{Cursor, DiskFile, DiskRef, FileRef, RealDisk};
use crate::mvcc::{Base, Builder, Mark, Mvcc, Version};
use crate::plant::{Plant, planted};
use crate::reply;
use bytes::{BufMut, Bytes};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const VERSION: u8 = 2;
const MAGIC: &[u8; 8] = b"GNTRYSNP";
/// Items are gathered into a frame until it has this many bytes.
const FRAME_BYTES: usize = 1 << 20;
/// Read at a time.
pub const READ_BYTES: usize = 1 << 20;
const MAX_FRAME_BYTES: usize = 256 << 20;
const HEAD: u8 = 1;
const KEY: u8 = 2;
const COMMIT: u8 = 3;
const END: u8 = 4;
const ALARM: u8 = 5;
const IDENTITY: u8 = 6;

/// Why a snapshot cannot be used. A person acts, or the leader sends another.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{path} cannot be used", path = .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged: {what}", path = .path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{path} has format version {found}, this build reads version {VERSION}", path = .path.display())]
    Version { path: PathBuf, found: u8 },
}

/// An open snapshot file. The file stays readable while this exists, also after a newer one has replaced it.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    pub file: FileRef,
    pub path: PathBuf,
    pub bytes: u64,
    /// Until it is promoted.
    temporary: Option<Arc<Temporary>>,
}

/// A file that goes away with its last user.
#[derive(Debug)]
struct Temporary(DiskRef, PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // One that was promoted has another name by now.
        let _ = self.0.remove(&self.1);
    }
}

/// The directory of one group's snapshots: one current file, and temporary ones that an opening removes.
#[derive(Clone, Debug)]
pub struct SnapshotDir {
    disk: DiskRef,
    dir: PathBuf,
    /// How many temporary files there were: each has a name of its own.
    temporaries: Arc<AtomicU64>,
}

/// A snapshot with what it holds.
pub type Found = (Meta, Mvcc, SnapshotFile);

impl SnapshotDir {
    /// Opens the directory and reads the newest snapshot in it, if there is one.
    pub fn open(dir: &Path) -> Result<(Self, Option<Found>), SnapshotError> {
        Self::open_on(RealDisk::shared(), dir)
    }

    pub fn open_on(disk: DiskRef, dir: &Path) -> Result<(Self, Option<Found>), SnapshotError> {
        let at = |source| SnapshotError::Io { path: dir.to_owned(), source };
        disk.create_dir_all(dir).map_err(at)?;
        let mut names = Vec::new();
        for path in disk.list(dir).map_err(at)? {
            match path.extension().and_then(|e| e.to_str()) {
                Some("snap") => names.push(path),
                Some("tmp") => disk.remove(&path).map_err(at)?,
                _ => {}
            }
        }
        names.sort();
        let this = Self { disk: disk.clone(), dir: dir.to_owned(), temporaries: Arc::default() };
        let Some(newest) = names.pop() else { return Ok((this, None)) };
        let file = SnapshotFile::open_on(&disk, &newest)?;
        let (meta, mvcc) = file.read()?;
        this.remove_older(&newest);
        Ok((this, Some((meta, mvcc, file))))
    }

    /// Writes a snapshot of a state whose values are all in memory. Blocks.
    pub fn write(&self, meta: &Meta, mvcc: &Mvcc) -> Result<SnapshotFile, SnapshotError> {
        self.write_from(meta, mvcc, &Nothing)
    }

    /// Writes a snapshot to a temporary file; what the state lacks comes from `archive`. Blocks.
    pub fn write_from(&self, meta: &Meta, mvcc: &Mvcc, archive: &dyn Archive) -> Result<SnapshotFile, SnapshotError> {
        let mut temporary = self.temporary("build")?;
        let path = temporary.path.clone();
        write_to(&*temporary.file, meta, mvcc, archive).map_err(|source| SnapshotError::Io { path, source })?;
        temporary.bytes = temporary.file.bytes().unwrap_or(0);
        Ok(temporary)
    }

    /// A new empty file to put a snapshot in; it is removed with its last user unless it is promoted.
    pub fn temporary(&self, what: &str) -> Result<SnapshotFile, SnapshotError> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{what}-{number}.tmp"));
        let file = self.disk.create(&path).map_err(|source| SnapshotError::Io { path: path.clone(), source })?;
        let temporary = Some(Arc::new(Temporary(self.disk.clone(), path.clone())));
        Ok(SnapshotFile { file, path, bytes: 0, temporary })
    }

    /// Gives a complete file its name: durable, renamed, and without older ones beside it. One at a time, see `Snapshots`.
    pub fn promote(&self, file: &mut SnapshotFile, meta: &Meta) -> Result<(), SnapshotError> {
        let index = meta.last_log_id.map_or(0, |id| id.index);
        let path = self.dir.join(format!("{index:016x}.snap"));
        let renamed = file.file.sync_all().and_then(|()| self.disk.rename(&file.path, &path));
        let done = renamed.and_then(|()| self.disk.sync_dir(&self.dir));
        done.map_err(|source| SnapshotError::Io { path: path.clone(), source })?;
        file.path = path;
        file.temporary = None;
        file.bytes = file.file.bytes().unwrap_or(file.bytes);
        self.remove_older(&file.path);
        Ok(())
    }

    fn remove_older(&self, keep: &Path) {
        let Ok(files) = self.disk.list(&self.dir) else { return };
        for path in files {
            if path.as_path() < keep
                && path.extension().is_some_and(|e| e == "snap")
                && let Err(error) = self.disk.remove(&path)
            {
                tracing::warn!(path = %path.display(), %error, "an old snapshot cannot be removed");
            }
        }
    }
}

/// Gathers items into frames.
struct Frames<W> {
    out: W,
    frame: Vec<u8>,
}

impl<W: Write> Frames<W> {
    fn item(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        put(&mut self.frame);
        if self.frame.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&(self.frame.len() as u32).to_le_bytes())?;
        self.out.write_all(&crc32fast::hash(&self.frame).to_le_bytes())?;
        self.out.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }
}

fn write_to(file: &dyn DiskFile, meta: &Meta, mvcc: &Mvcc, archive: &dyn Archive) -> io::Result<()> {
    let whole = |version: &Version| bring_back(version, archive).map_err(io::Error::other);
    let mut frames = Frames { out: BufWriter::new(Cursor { file, at: 0 }), frame: Vec::new() };
    frames.out.write_all(MAGIC)?;
    frames.out.write_all(&[VERSION, 0, 0, 0, 0, 0, 0, 0])?;
    frames.item(|out| {
        out.put_u8(HEAD);
        if planted(Plant::ForgottenMembers) {
            types::put_meta(out, &Meta { last_log_id: meta.last_log_id, ..Meta::default() });
        } else {
            types::put_meta(out, meta);
        }
        put_base(out, &mvcc.base());
    })?;
    if let Some(identity) = mvcc.identity() {
        frames.item(|out| {
            out.put_u8(IDENTITY);
            codec::put_identity(out, identity);
        })?;
    }
    for alarm in mvcc.alarms() {
        frames.item(|out| {
            out.put_u8(ALARM);
            codec::put_alarm(out, alarm);
        })?;
    }
    let mut keys = 0;
    let mut result = Ok(());
    mvcc.each_base_key(|kv| {
        if result.is_ok() {
            keys += 1;
            result = whole(kv).and_then(|kv| {
                frames.item(|out| {
                    out.put_u8(KEY);
                    reply::put_key_value(out, &kv.key_value());
                })
            });
        }
    });
    result?;
    let lacking = usize::from(planted(Plant::OldSnapshot) && mvcc.commits().len() > 1);
    let commits = mvcc.commits().len() - lacking;
    for commit in mvcc.commits().take(commits) {
        let ops = commit.changes().iter().map(|change| whole(&change.kv).map(|kv| kv.op()));
        let ops = ops.collect::<io::Result<Vec<_>>>()?;
        frames.item(|out| {
            out.put_u8(COMMIT);
            out.put_u64_le(commit.hash);
            put_u64(out, ops.len() as u64);
            ops.iter().for_each(|op| codec::put_op(out, op));
        })?;
    }
    frames.item(|out| {
        out.put_u8(END);
        put_u64(out, keys);
        put_u64(out, commits as u64);
    })?;
    frames.flush()?;
    frames.out.flush()
}

fn put_base(out: &mut Vec<u8>, base: &Base) {
    put_u64(out, base.compacted);
    put_u64(out, base.hash);
    put_u64(out, base.time_ms);
    put_u64(out, base.marks.len() as u64);
    for mark in &base.marks {
        put_u64(out, mark.time_ms);
        put_u64(out, mark.revision);
    }
    put_u64(out, base.leases.len() as u64);
    for (id, ttl_s) in &base.leases {
        codec::put_lease(out, *id);
        put_u64(out, ttl_s.cast_unsigned());
    }
}

fn base(from: &mut Reader) -> Result<Base, DecodeError> {
    let (compacted, hash, time_ms) = (from.u64()?, from.u64()?, from.u64()?);
    let mut base = Base { compacted, hash, time_ms, ..Base::default() };
    for _ in 0..from.len()? {
        base.marks.push(Mark { time_ms: from.u64()?, revision: from.u64()? });
    }
    for _ in 0..from.len()? {
        base.leases.push((codec::lease(from)?, from.u64()?.cast_signed()));
    }
    Ok(base)
}

/// What has been read of a snapshot.
#[derive(Default)]
struct Loading {
    builder: Option<(Meta, Builder)>,
    keys: u64,
    commits: u64,
    ended: bool,
}

impl Loading {
    /// Takes one item; `Ok(Some)` says what is wrong with an item that decodes.
    fn item(&mut self, from: &mut Reader) -> Result<Option<&'static str>, DecodeError> {
        let tag = from.u8()?;
        if self.ended {
            return Ok(Some("items after the end"));
        }
        match (tag, &mut self.builder) {
            (HEAD, None) => self.builder = Some((types::meta(from)?, Builder::new(base(from)?))),
            (KEY, Some((_, builder))) => {
                builder.key(&reply::key_value(from)?);
                self.keys += 1;
            }
            (IDENTITY, Some((_, builder))) => builder.identity(codec::identity(from)?),
            (ALARM, Some((_, builder))) => builder.alarm(codec::alarm(from)?),
            (COMMIT, Some((_, builder))) => {
                let hash = from.u64_le()?;
                builder.commit(&codec::ops(from)?, hash);
                self.commits += 1;
            }
            (END, Some(_)) => {
                self.ended = true;
                if (from.u64()?, from.u64()?) != (self.keys, self.commits) {
                    return Ok(Some("the end names another number of items"));
                }
            }
            _ => return Err(DecodeError::Tag { what: "snapshot item", tag }),
        }
        Ok(None)
    }
}

/// The version of a snapshot that a newer build wrote.
pub fn newer_version(head: &[u8]) -> Option<u8> {
    let version = *head.get(8).filter(|_| head.starts_with(MAGIC))?;
    (version > VERSION).then_some(version)
}

impl SnapshotFile {
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        Self::open_on(&RealDisk::shared(), path)
    }

    pub fn open_on(disk: &DiskRef, path: &Path) -> Result<Self, SnapshotError> {
        let at = |source| SnapshotError::Io { path: path.to_owned(), source };
        let file = disk.open(path).map_err(at)?;
        let bytes = file.bytes().map_err(at)?;
        Ok(Self { file, path: path.to_owned(), bytes, temporary: None })
    }

    /// Reads and checks the whole file. Blocks.
    pub fn read(&self) -> Result<(Meta, Mvcc), SnapshotError> {
        let damaged = |what: String| SnapshotError::Damaged { path: self.path.clone(), what };
        let mut from = BufReader::with_capacity(READ_BYTES, Cursor { file: &*self.file, at: 0 });
        let mut head = [0; 16];
        from.read_exact(&mut head).map_err(|_| damaged("it ends in its header".into()))?;
        if &head[..8] != MAGIC {
            return Err(damaged("it is not a snapshot".into()));
        }
        if head[8] != VERSION {
            return Err(SnapshotError::Version { path: self.path.clone(), found: head[8] });
        }
        let bytes = self.file.bytes().map_err(|source| SnapshotError::Io { path: self.path.clone(), source })?;
        let mut loading = Loading::default();
        while !loading.ended {
            let frame = read_frame(&mut from, bytes).map_err(|error| damaged(error.to_string()))?;
            let mut items = Reader::new(frame);
            while !items.is_empty() {
                let wrong = loading.item(&mut items).map_err(|error| damaged(error.to_string()))?;
                if let Some(wrong) = wrong {
                    return Err(damaged(wrong.into()));
                }
            }
        }
        let (meta, builder) = loading.builder.ok_or_else(|| damaged("it has no head".into()))?;
        Ok((meta, builder.finish()))
    }
}

/// The next frame of a file of so many bytes.
fn read_frame(from: &mut impl Read, bytes: u64) -> io::Result<Bytes> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let word = |i: usize| u32::from_le_bytes(head[i..i + 4].try_into().expect("4 bytes"));
    let len = word(0) as usize;
    if len > MAX_FRAME_BYTES || len as u64 > bytes {
        return Err(io::Error::other("a frame's length is out of range"));
    }
    let mut frame = vec![0; len];
    from.read_exact(&mut frame)?;
    if crc32fast::hash(&frame) != word(4) {
        return Err(io::Error::other("a frame does not match its checksum"));
    }
    Ok(frame.into())
}
