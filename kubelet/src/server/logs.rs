//! Serves a container's log files: the present run or the one before, all at once or as it grows.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gantry_apimachinery::time::Timestamp;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

use super::logfile::{Printer, Wanted, tail_start};
use super::{Answer, Query, text};
use crate::agent::{PodView, Shared, now};

const CHUNK: usize = 32 << 10;
const POLL: Duration = Duration::from_millis(100);
/// Polls that a follower gives a run to begin: 5 s.
const BEGIN_WAITS: usize = 50;

/// What the query asks for, or what is wrong with it.
fn wanted(query: &Query, now: Timestamp) -> Result<Wanted, String> {
    let number = |key: &str| match query.get(key).filter(|v| !v.is_empty()) {
        Some(v) => v.parse::<usize>().map(Some).map_err(|_| format!("{key}: {v:?} is not a number")),
        None => Ok(None),
    };
    let since = match (number("sinceSeconds")?, query.get("sinceTime").filter(|v| !v.is_empty())) {
        (Some(s), _) => Some(now.add_secs(-i64::try_from(s).unwrap_or(i64::MAX))),
        (None, Some(t)) => Some(Timestamp::parse(t).map_err(|e| format!("sinceTime: {e}"))?),
        (None, None) => None,
    };
    let stream = query.get("stream").filter(|s| !s.eq_ignore_ascii_case("all")).map(str::to_ascii_lowercase);
    Ok(Wanted {
        tail: number("tailLines")?,
        since,
        timestamps: query.flag("timestamps"),
        limit_bytes: number("limitBytes")?,
        stream: stream.filter(|s| !s.is_empty()),
    })
}

pub fn serve(shared: Arc<Shared>, view: PodView, container: &str, query: &Query) -> Answer {
    let wanted = match wanted(query, now().wall) {
        Ok(wanted) => wanted,
        Err(e) => return text(StatusCode::BAD_REQUEST, e),
    };
    let meta = &view.pod.metadata;
    let name = &meta.name;
    if view.pod.container(container).is_none() {
        return text(StatusCode::BAD_REQUEST, format!("container {container:?} in pod {name:?} is not available"));
    }
    let Some(newest) = view.attempts.get(container).copied() else {
        let state = view.status.container(container).and_then(|c| c.state.waiting.as_ref().map(|w| w.reason.clone()));
        let why = state.unwrap_or_else(|| "ContainerCreating".into());
        let message = format!("container {container:?} in pod {name:?} is waiting to start: {why}");
        return text(StatusCode::BAD_REQUEST, message);
    };
    let dir = shared.config.pod_log_dir(&meta.namespace, name, meta.uid.as_str()).join(container);
    let previous = query.flag("previous");
    let attempt = match (previous, newest.checked_sub(1)) {
        (false, _) => newest,
        (true, Some(before)) => before,
        (true, None) => {
            let message = format!("previous terminated container {container:?} in pod {name:?} not found");
            return text(StatusCode::BAD_REQUEST, message);
        }
    };
    let (tx, rx) = mpsc::channel(8);
    let follow = query.flag("follow") && !previous;
    let uid = meta.uid.to_string();
    let container = container.to_owned();
    tokio::task::spawn_blocking(move || {
        let runs = || {
            let views = shared.views.all();
            let view = views.iter().find(|v| v.pod.uid() == uid);
            let same = view.is_some_and(|v| v.attempts.get(&container) == Some(&attempt));
            same && view.is_some_and(|v| v.running.contains_key(&container)) && !shared.cancel.is_cancelled()
        };
        let mut reader = Reader { dir, attempt, printer: Printer::new(wanted.clone()), out: tx };
        // A client that went away is no error of ours.
        reader.all(wanted.tail, follow, &runs).ok();
    });
    let body = StreamBody::new(ReceiverStream::new(rx).map(|chunk| Ok(Frame::data(chunk))));
    let mut answer = Response::new(BodyExt::boxed(body));
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("text/plain"));
    answer
}

/// A run's files, oldest first: rotated ones carry a date behind the name.
pub fn files(dir: &Path, attempt: u32) -> Vec<PathBuf> {
    let current = format!("{attempt}.log");
    let rotated = format!("{current}.");
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut old: Vec<PathBuf> =
        names.filter(|e| e.file_name().to_string_lossy().starts_with(&rotated)).map(|e| e.path()).collect();
    old.sort();
    old.push(dir.join(current));
    old
}

/// Removes all of a run's files, rotated ones too. What stays is looked at by nobody.
pub fn remove(dir: &Path, attempt: u32) {
    for file in files(dir, attempt) {
        drop(std::fs::remove_file(file));
    }
}

struct Reader {
    dir: PathBuf,
    attempt: u32,
    printer: Printer,
    out: mpsc::Sender<Bytes>,
}

/// The client is gone, or has all that it asked for.
struct Enough;

impl Reader {
    fn all(&mut self, tail: Option<usize>, follow: bool, runs: &dyn Fn() -> bool) -> Result<(), Enough> {
        let mut files = files(&self.dir, self.attempt);
        let mut skip_to = 0;
        if let Some(n) = tail {
            // Only as many files as hold the tail.
            let bytes = files.last().and_then(|f| std::fs::read(f).ok()).unwrap_or_default();
            let lines = bytes.iter().filter(|b| **b == b'\n').count();
            if lines >= n {
                files = files.split_off(files.len() - 1);
                skip_to = tail_start(&bytes, n);
            } else if files.len() > 1 {
                let before = &files[files.len() - 2];
                let old = std::fs::read(before).unwrap_or_default();
                skip_to = tail_start(&old, n - lines);
                files = files.split_off(files.len() - 2);
            }
        }
        let last = files.pop();
        for (i, file) in files.iter().enumerate() {
            if let Ok(file) = File::open(file) {
                self.file(file, if i == 0 { skip_to } else { 0 })?;
            }
        }
        let Some(last) = last else { return Ok(()) };
        if follow {
            self.until_begun(&last, runs);
        }
        let Ok(mut file) = File::open(&last) else { return Ok(()) };
        let mut reader = self.file(file, if files.is_empty() { skip_to } else { 0 })?;
        if !follow {
            return Ok(());
        }
        loop {
            // Asked before the read: what was written until the end is then read.
            let running = runs();
            self.rest(&mut reader)?;
            let moved = inode(&last) != reader.get_ref().metadata().ok().map(|m| m.ino());
            if moved && let Ok(fresh) = File::open(&last) {
                file = fresh;
                reader = self.file(file, 0)?;
            } else if !running {
                return self.rest(&mut reader);
            } else {
                wait();
            }
            if self.out.is_closed() {
                return Err(Enough);
            }
        }
    }

    /// A run that is only just being made has neither a log nor a process yet; whoever follows it waits for the first of the two.
    fn until_begun(&self, log: &Path, runs: &dyn Fn() -> bool) {
        let begun = || std::fs::metadata(log).is_ok_and(|log| log.len() > 0) || runs();
        for _ in 0..BEGIN_WAITS {
            if begun() || self.out.is_closed() {
                return;
            }
            wait();
        }
    }

    fn file(&mut self, mut file: File, from: usize) -> Result<BufReader<File>, Enough> {
        let from = u64::try_from(from).unwrap_or(0);
        drop(file.seek(SeekFrom::Start(from)));
        let mut reader = BufReader::with_capacity(CHUNK, file);
        self.rest(&mut reader)?;
        Ok(reader)
    }

    /// Everything up to the end; half a line stays for the next time.
    fn rest(&mut self, reader: &mut BufReader<File>) -> Result<(), Enough> {
        let (mut line, mut out) = (vec![], vec![]);
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).unwrap_or(0);
            let whole = line.last() == Some(&b'\n');
            if whole {
                self.printer.print(&line[..line.len() - 1], &mut out);
            } else if read > 0 {
                drop(reader.seek_relative(-i64::try_from(read).unwrap_or(0)));
            }
            let ended = !whole || self.printer.is_full();
            if (out.len() >= CHUNK || ended) && !out.is_empty() {
                self.out.blocking_send(Bytes::from(std::mem::take(&mut out))).map_err(|_| Enough)?;
            }
            if self.printer.is_full() {
                return Err(Enough);
            }
            if ended {
                return Ok(());
            }
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|m| m.ino())
}

#[expect(clippy::disallowed_methods, reason = "the edge that follows a growing file: nothing wakes it but time")]
fn wait() {
    std::thread::sleep(POLL);
}

/// The size of a run's present file.
pub fn size(dir: &Path, attempt: u32) -> u64 {
    let mut one = [0; 1];
    let path = dir.join(format!("{attempt}.log"));
    let Ok(mut file) = File::open(path) else { return 0 };
    if file.read(&mut one).unwrap_or(0) == 0 { 0 } else { file.metadata().map_or(0, |m| m.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_with_its_rotated_files_and_no_other_run() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["1.log", "1.log.20260101T000000", "1.log.20260102T000000", "11.log", "2.log", "2.log.20260101T000000"]
        {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        remove(dir.path(), 1);
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["11.log", "2.log", "2.log.20260101T000000"]);
    }
}
