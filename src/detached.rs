//! Processes that outlive this one: containerd and the guard. Started in a session of their own, found again by their
//! pid file, and watched through a pidfd, so that a reused process id is never mistaken for them.
//!
//! It decides only whether such a process is alive; what it does is its own affair.

use crate::datadir::{self, DataDir};
use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
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

    /// The process of a role on this data directory, by its command line: for when its pid file is lost.
    pub fn role_of(data: &DataDir, role: &str, program: &Path) -> Option<Self> {
        let command = if role == "gantry" { "up" } else { role };
        Self::find(program, data, |process| {
            let words = process.arguments();
            words.first().is_some_and(|word| word == command)
                // The front that waits for the one in the background.
                && !words.iter().any(|word| word == "--detach")
                && process.data_dir(&words).as_deref() == Some(data.root())
        })
    }

    /// The containerd with this data directory's configuration, likewise.
    pub fn containerd_of(data: &DataDir) -> Option<Self> {
        let config = data.containerd().join("config.toml").into_os_string();
        Self::find(Path::new("containerd"), data, |process| process.arguments().contains(&config))
    }

    /// A process in a container may have been given the same path and mean another directory.
    fn find(program: &Path, data: &DataDir, wanted: impl Fn(&Self) -> bool) -> Option<Self> {
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let own = identity(data.root())?;
        let below = data.root().strip_prefix("/").ok()?;
        let sees = |pid: u32| identity(&Path::new(&format!("/proc/{pid}/root")).join(below)) == Some(own);
        let entries = std::fs::read_dir("/proc").ok()?.flatten();
        let mut found = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != std::process::id() && runs(*pid, program) && sees(*pid))
            .filter_map(|pid| Some(Self { pid, pidfd: open(pid)?, child: None }));
        found.find(wanted)
    }

    /// The data directory that the process was given: by flag, by environment, or the default.
    fn data_dir(&self, words: &[OsString]) -> Option<PathBuf> {
        let variable = || {
            let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
            let mut all = environment.split(|byte| *byte == 0);
            all.find_map(|pair| pair.strip_prefix(b"GANTRY_DATA_DIR=")).map(|value| OsString::from_vec(value.to_vec()))
        };
        let given = data_dir_flag(words).or_else(variable).unwrap_or_else(|| datadir::DEFAULT.into());
        if Path::new(&given).is_absolute() {
            return std::path::absolute(given).ok();
        }
        let folder = std::fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()?;
        std::path::absolute(folder.join(given)).ok()
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

/// What follows `--` is another program's.
fn data_dir_flag(words: &[OsString]) -> Option<OsString> {
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    own.iter().enumerate().find_map(|(at, word)| match word.as_encoded_bytes().strip_prefix(b"--data-dir") {
        Some([]) => own.get(at + 1).cloned(),
        Some([b'=', value @ ..]) => Some(OsString::from_vec(value.to_vec())),
        _ => None,
    })
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
    let exe = match std::fs::read_link(format!("/proc/{pid}/exe")) {
        // Only root may see what another's process executes; how it was called, everybody may.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            PathBuf::from(OsString::from_vec(line.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()))
        }
        Err(_) => return false,
        Ok(exe) => exe,
    };
    let name = exe.file_name().map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
    name.as_deref() == program.file_name().and_then(|name| name.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_is_read_from_the_flags() {
        let flag = |words: &[&str]| data_dir_flag(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(flag(&["up", "--data-dir", "/d"]), Some("/d".into()));
        assert_eq!(flag(&["up", "--restart", "--data-dir=/d e"]), Some("/d e".into()));
        assert_eq!(flag(&["guard", "--", "gantry", "up", "--data-dir", "/d"]), None);
        assert_eq!(flag(&["up", "--data-directory", "/d"]), None);
    }

    #[tokio::test]
    async fn a_role_is_found_by_its_command_line() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| DataDir::new(&scratch.path().canonicalize().unwrap().join(name)).unwrap();
        // A shell under a name of its own, whose script is called as the command is.
        let program = scratch.path().join("gantry-of-test");
        std::fs::copy(crate::preflight::find_program("sh").unwrap().canonicalize().unwrap(), &program).unwrap();
        std::fs::write(scratch.path().join("up"), "read line").unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        std::fs::create_dir(scratch.path().join("other")).unwrap();
        let mut child = std::process::Command::new(&program)
            .args(["up", "--data-dir", "d", "--restart"])
            .current_dir(scratch.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let found = loop {
            match Detached::role_of(&at("d"), "gantry", &program) {
                Some(found) => break found.pid(),
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(found, child.id());
        assert!(Detached::role_of(&at("other"), "gantry", &program).is_none());
        assert!(Detached::role_of(&at("d"), "kubelet", &program).is_none());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(Detached::role_of(&at("d"), "gantry", &program).is_none());
    }

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
