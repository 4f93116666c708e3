//! Processes that outlive this one: containerd and the guard. Started in a session of their own, found again by their
//! pid file, and watched through a pidfd, so that a reused process id is never mistaken for them.
//!
//! It decides only whether such a process is alive; what it does is its own affair.

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

/// A living (or just ended) process.
#[derive(Debug)]
pub struct Detached {
    pid: u32,
    pidfd: AsyncFd<OwnedFd>,
    /// Present when this process started it and so has to reap it.
    child: Option<Child>,
}

/// Starts `program` in a new session with its output appended to `log`, and writes its id to `pid_file` if one is given.
/// It keeps this process's working directory, so that relative paths in its arguments and environment keep their meaning.
pub fn spawn(program: &Path, arguments: &[OsString], log: &Path, pid_file: Option<&Path>) -> anyhow::Result<Detached> {
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(log)
        .with_context(|| format!("opening {}", log.display()))?;
    // setsid(1) becomes the program without a fork, because a fresh child never leads a process group.
    let setsid = crate::preflight::find_program("setsid").context("setsid(1) is missing")?;
    let child = Command::new(setsid)
        .arg(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(false)
        .spawn()?;
    let pid = child.id().context("the process ended at once")?;
    if let Some(pid_file) = pid_file {
        crate::datadir::write_file(pid_file, format!("{pid}\n").as_bytes(), 0o644)?;
    }
    let pidfd = open(pid).context("the process ended at once")?;
    Ok(Detached { pid, pidfd, child: Some(child) })
}

impl Detached {
    /// The process named in `pid_file`, if it is alive and runs `program`.
    pub fn from_pid_file(pid_file: &Path, program: &Path) -> Option<Self> {
        let pid: u32 = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
        let pidfd = open(pid)?;
        runs(pid, program).then_some(Self { pid, pidfd, child: None })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it was started as exactly this program, from the file that is there now, with exactly these arguments.
    pub fn was_started_as(&self, program: &Path, arguments: &[OsString]) -> bool {
        let exe = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        exe == program && self.arguments() == arguments
    }

    /// Without the program's own name.
    pub fn arguments(&self) -> Vec<OsString> {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
        words.skip(1).map(|word| OsString::from_vec(word.to_vec())).collect()
    }

    /// Returns when the process has ended. May be dropped and called again.
    pub async fn ended(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
            return;
        }
        // A pidfd becomes readable when its process ends.
        let _ = self.pidfd.readable().await;
    }

    /// Stops watching; the process goes on.
    pub fn leave(self) {}

    /// SIGTERM, then SIGKILL once `patience` is over. Returns when the process is gone.
    pub async fn stop(mut self, patience: Duration) {
        let _ = pidfd_send_signal(self.pidfd.get_ref(), Signal::TERM);
        if tokio::time::timeout(patience, self.ended()).await.is_err() {
            let _ = pidfd_send_signal(self.pidfd.get_ref(), Signal::KILL);
            self.ended().await;
        }
    }
}

fn open(pid: u32) -> Option<AsyncFd<OwnedFd>> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // SAFETY: the AsyncFd owns the descriptor, and nothing takes it out or closes it before the AsyncFd is dropped.
    #[expect(unsafe_code, reason = "tokio has no safe way to watch a descriptor that it does not know the type of")]
    let watched = unsafe { AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE) };
    watched.ok()
}

/// Whether process `pid` executes a file of `program`'s name (its path may have been replaced by a newer build).
fn runs(pid: u32, program: &Path) -> bool {
    let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let name = exe.file_name().map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
    name.as_deref() == program.file_name().and_then(|name| name.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_detached_process_is_found_again_and_stopped() {
        let scratch = tempfile::tempdir().unwrap();
        let (log, pid_file) = (scratch.path().join("log"), scratch.path().join("pid"));
        let sleep = crate::preflight::find_program("sleep").unwrap();
        let started = spawn(&sleep, &["60".into()], &log, Some(&pid_file)).unwrap();
        let pid = started.pid();
        let found = loop {
            // Until setsid(1) has become the program, the process runs another file; then, for a moment, without arguments.
            match Detached::from_pid_file(&pid_file, &sleep).filter(|found| !found.arguments().is_empty()) {
                Some(found) => break found,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(found.pid(), pid);
        let sleep_itself = sleep.canonicalize().unwrap();
        assert!(found.was_started_as(&sleep_itself, &["60".into()]));
        assert!(!found.was_started_as(&sleep_itself, &["61".into()]));
        assert!(Detached::from_pid_file(&pid_file, Path::new("/bin/another")).is_none());
        started.stop(Duration::from_secs(5)).await;
        let mut found = found;
        tokio::time::timeout(Duration::from_secs(5), found.ended()).await.unwrap();
        assert!(Detached::from_pid_file(&pid_file, &sleep).is_none());
    }
}
