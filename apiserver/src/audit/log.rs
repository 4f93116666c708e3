//! The file that audit events go to, off the requests' way. Decides when it is put aside and which old ones go.
//!
//! Events wait in a bounded queue for one thread that writes. When the queue is full, or the disk, events are dropped, counted
//! (`apiserver_audit_error`) and complained of; no request waits or fails for it. A line is in the file whole or not at all.

#![expect(clippy::disallowed_methods, reason = "complaints are spaced by the thread's own clock")]

use gantry_apimachinery::clock::Clock;
use prometheus_client::metrics::counter::Counter;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Events that may wait, and their bytes together.
const MOST_WAITING: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
const DAY_S: i64 = 86_400;

/// Where events go, and for how long. Zero: no limit.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// `-`: standard output.
    pub path: PathBuf,
    pub max_age_days: u32,
    pub max_backups: usize,
    pub max_size_mb: u64,
}

enum Item {
    Line(String),
    Flush(oneshot::Sender<()>),
}

/// The way into the queue.
pub struct Log {
    queue: mpsc::Sender<Item>,
    waiting: Arc<AtomicUsize>,
    written: Counter,
    dropped: Counter,
}

impl Log {
    /// Opens the file, so that what is wrong with it is known at once, and begins to write.
    pub fn open(config: &LogConfig, clock: Arc<dyn Clock>, written: Counter, dropped: Counter) -> io::Result<Self> {
        let (queue, items) = mpsc::channel(MOST_WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer::open(config.clone(), clock)?;
        let (count, lost) = (waiting.clone(), dropped.clone());
        let work = move || run(&mut writer, items, &count, &lost);
        std::thread::Builder::new().name("audit".to_owned()).spawn(work)?;
        Ok(Self { queue, waiting, written, dropped })
    }

    /// Never waits.
    pub fn put(&self, line: String) {
        let size = line.len();
        let room = self.waiting.fetch_add(size, Ordering::SeqCst) + size <= MOST_BYTES;
        if room && self.queue.try_send(Item::Line(line)).is_ok() {
            self.written.inc();
            return;
        }
        self.waiting.fetch_sub(size, Ordering::SeqCst);
        self.dropped.inc();
    }

    /// Waits until everything before is in the file.
    pub async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.queue.send(Item::Flush(done)).await.is_ok() {
            let _ = told.await;
        }
    }
}

fn run(writer: &mut Writer, mut items: mpsc::Receiver<Item>, waiting: &AtomicUsize, dropped: &Counter) {
    let mut complained: Option<Instant> = None;
    while let Some(item) = items.blocking_recv() {
        match item {
            Item::Line(line) => {
                waiting.fetch_sub(line.len(), Ordering::SeqCst);
                if let Err(error) = writer.write(&line) {
                    dropped.inc();
                    if complained.is_none_or(|at| at.elapsed() > COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        let file = writer.config.path.display();
                        tracing::error!(%file, %error, "audit events are lost: make room on the disk, or write elsewhere");
                    }
                }
            }
            Item::Flush(done) => drop(done.send(())),
        }
    }
}

struct Writer {
    config: LogConfig,
    clock: Arc<dyn Clock>,
    /// `None`: standard output.
    file: Option<File>,
    length: u64,
}

impl Writer {
    fn open(config: LogConfig, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut writer = Self { config, clock, file: None, length: 0 };
        if writer.config.path != Path::new("-") {
            writer.reopen()?;
        }
        Ok(writer)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.config.path)?;
        let metadata = file.metadata()?;
        // One that was there already may have been readable by others. What is no file (a pipe, a device) is its owner's.
        if metadata.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        self.length = metadata.len();
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let bytes = format!("{line}\n").into_bytes();
        if self.config.path == Path::new("-") {
            return io::stdout().lock().write_all(&bytes);
        }
        let limit = self.config.max_size_mb << 20;
        if limit > 0 && self.length > 0 && self.length + bytes.len() as u64 > limit {
            // The file that there is takes the line, too.
            if let Err(error) = self.put_aside() {
                tracing::warn!(%error, path = %self.config.path.display(), "the audit log cannot be put aside");
            }
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.write_all(&bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a line would spoil the next one.
                let _ = file.set_len(self.length);
                Err(error)
            }
        }
    }

    /// Gives the full file a name with the time, and removes those that are too old or too many.
    fn put_aside(&mut self) -> io::Result<()> {
        let path = &self.config.path;
        let time = self.clock.now().to_micro_string().replace(':', "-");
        std::fs::rename(path, backup(path, time.trim_end_matches('Z')))?;
        self.file = None;
        self.reopen()?;
        self.remove_old()
    }

    fn remove_old(&self) -> io::Result<()> {
        let path = &self.config.path;
        let mut backups: Vec<PathBuf> = Vec::new();
        for entry in
            std::fs::read_dir(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
        {
            let one = entry?.path();
            if is_backup(path, &one) {
                backups.push(one);
            }
        }
        // Their names are their times: the newest first.
        backups.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = self.clock.now().secs() - i64::from(self.config.max_age_days) * DAY_S;
        for (at, one) in backups.iter().enumerate() {
            let too_many = self.config.max_backups > 0 && at >= self.config.max_backups;
            let modified = std::fs::metadata(one)?.modified()?.duration_since(std::time::UNIX_EPOCH);
            let modified = modified.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
            if too_many || (self.config.max_age_days > 0 && modified < oldest) {
                std::fs::remove_file(one)?;
            }
        }
        Ok(())
    }
}

/// `audit.log` → `audit-2026-01-01T00-00-00.000000.log`.
fn backup(path: &Path, time: &str) -> PathBuf {
    let (stem, ending) = parts(path);
    path.with_file_name(format!("{stem}-{time}{ending}"))
}

fn is_backup(path: &Path, other: &Path) -> bool {
    let (stem, ending) = parts(path);
    let name = other.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let time = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&ending));
    time.is_some_and(|time| time.len() >= 19 && time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('T'))
}

fn parts(path: &Path) -> (String, String) {
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = text(path.extension());
    (text(path.file_stem()), if ending.is_empty() { ending } else { format!(".{ending}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::clock::FakeClock;
    use gantry_apimachinery::time::Timestamp;

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_put_aside_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let clock = FakeClock::new(Timestamp::parse("2026-01-01T00:00:00Z").unwrap());
        let path = folder.path().join("audit.log");
        std::fs::write(folder.path().join("audit-notes.log"), "kept").unwrap();
        let config = LogConfig { path: path.clone(), max_backups: 2, max_size_mb: 1, max_age_days: 0 };
        let mut writer = Writer::open(config.clone(), Arc::new(clock.clone())).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let line = "x".repeat(600 << 10);
        for _ in 0..4 {
            writer.write(&line).unwrap();
            clock.advance_ms(1_000);
        }
        let expect = [
            "audit-2026-01-01T00-00-02.000000.log",
            "audit-2026-01-01T00-00-03.000000.log",
            "audit-notes.log",
            "audit.log",
        ];
        assert_eq!(files(folder.path()), expect);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), line.len() as u64 + 1);
        // A day later they are too old.
        writer.config.max_age_days = 1;
        clock.set_wall(Timestamp::from_secs(SECONDS_FAR_AHEAD));
        writer.write(&line).unwrap();
        assert_eq!(files(folder.path()), ["audit-notes.log", "audit.log"]);
    }

    const SECONDS_FAR_AHEAD: i64 = 4_000_000_000;

    #[test]
    fn a_full_disk_loses_events_and_no_line_is_torn() {
        let config = LogConfig { path: "/dev/full".into(), ..LogConfig::default() };
        let mut writer = Writer::open(config, Arc::new(FakeClock::default())).unwrap();
        assert!(writer.write("lost").is_err());
        assert_eq!(writer.length, 0);
    }

    #[tokio::test]
    async fn what_is_too_much_is_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let config = LogConfig { path: folder.path().join("a.log"), ..LogConfig::default() };
        let (written, dropped) = (Counter::default(), Counter::default());
        let log = Log::open(&config, Arc::new(FakeClock::default()), written.clone(), dropped.clone()).unwrap();
        log.put("x".repeat(MOST_BYTES + 1));
        log.put("one".to_owned());
        log.flush().await;
        assert_eq!((written.get(), dropped.get()), (1, 1));
        assert_eq!(std::fs::read_to_string(&config.path).unwrap(), "one\n");
        let nowhere = LogConfig { path: folder.path().join("no/where"), ..LogConfig::default() };
        assert!(Log::open(&nowhere, Arc::new(FakeClock::default()), written, dropped).is_err());
    }
}
