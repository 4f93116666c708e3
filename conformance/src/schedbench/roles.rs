//! One role of the product as a process of its own, with its own identity. It never signals a process that it did not start.

use crate::readings;
use crate::storebench::interrupt;
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Dropping it kills the process.
pub struct Role {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Role {
    /// Its output is appended to a file of its name in `folder`.
    pub fn start(name: &'static str, command: &mut Command, folder: &Path) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("{name} did not start"))?;
        interrupt::started(child.id());
        Ok(Self { name, child, log })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn cpu_s(&self) -> anyhow::Result<f64> {
        Ok(readings::cpu_ms(self.pid())? / 1_000.0)
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid().cast_signed()).context("a process id is not 0")?;
        kill_process(pid, Signal::TERM).with_context(|| format!("a signal to {}", self.name))?;
        interrupt::ending(self.pid());
        self.child.wait().with_context(|| format!("the end of {}", self.name))?;
        Ok(())
    }

    /// An error with its last words if it has ended.
    pub fn alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => anyhow::bail!("{} ended: {status}\n{}", self.name, self.tail()),
            None => Ok(()),
        }
    }

    pub fn tail(&self) -> String {
        format!("{}:\n{}", self.name, crate::cluster::tail(&self.log, 8))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // One that ended by itself is as good as killed.
        let _ = self.child.kill();
        interrupt::ending(self.child.id());
        let _ = self.child.wait();
    }
}
