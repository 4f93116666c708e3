//! The agent's process: found by its pid file and program, watched through a pidfd, started in a session of its own.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

use super::GuardConfig;

/// A living agent.
pub struct Agent {
    pidfd: AsyncFd<OwnedFd>,
}

impl Agent {
    #[expect(deprecated, reason = "its replacement is unsafe; the descriptor is owned here and never changed")]
    /// A process id may be used again: the program has to be the agent's too.
    pub fn find(config: &GuardConfig) -> Option<Self> {
        let raw: i32 = std::fs::read_to_string(&config.agent_pid_file).ok()?.trim().parse().ok()?;
        let pidfd = pidfd_open(Pid::from_raw(raw)?, PidfdFlags::NONBLOCK).ok()?;
        if is_zombie(raw) || !runs(raw, Path::new(config.argv.first()?)) {
            return None;
        }
        let pidfd = AsyncFd::with_interest(pidfd, tokio::io::Interest::READABLE).ok()?;
        Some(Self { pidfd })
    }

    /// Returns when the process has ended.
    pub async fn ended(self) {
        drop(self.pidfd.readable().await);
    }
}

fn runs(pid: i32, program: &Path) -> bool {
    let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    // A program that was replaced while it runs reads as "PATH (deleted)".
    let exe = exe.to_string_lossy();
    let wanted = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    Path::new(exe.trim_end_matches(" (deleted)")) == wanted
}

fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with(['Z', 'X']))
}

/// Starts the agent through setsid(1), so that it outlives the guard; a thread reaps it. It inherits the guard's working
/// directory, which is the one that its arguments were given in.
pub fn start(config: &GuardConfig) -> io::Result<()> {
    let output = OpenOptions::new().create(true).append(true).open(&config.log)?;
    let mut child = Command::new("setsid")
        .args(&config.argv)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    std::thread::spawn(move || child.wait());
    Ok(())
}
