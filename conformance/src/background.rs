//! A command that goes on while a test does something else: its lines of output as they come, and its end. It decides
//! nothing about what the lines should say.

use crate::tools::printable;
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Dropping it kills the command.
pub struct Background {
    child: Child,
    name: String,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Background {
    /// Both of its outputs are read, in the order in which their lines come.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = printable(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{name} did not start"))?;
        let (sender, lines) = sync_channel(1024);
        let (out, err) = (child.stdout.take().context("its output")?, child.stderr.take().context("its errors")?);
        let (one, other) = (sender.clone(), sender);
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|l| one.send(l)));
        std::thread::spawn(move || BufReader::new(err).lines().map_while(Result::ok).try_for_each(|l| other.send(l)));
        Ok(Self { child, name, lines, seen: Vec::new() })
    }

    /// The next line that holds `word`; an error when none came in time, or when the command ended before.
    pub fn line(&mut self, word: &str, timeout: Duration) -> anyhow::Result<String> {
        loop {
            match self.lines.recv_timeout(timeout) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(word) {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!(
                        "{}: no line with {word:?} within {timeout:?}, only:\n{}",
                        self.name,
                        self.seen.join("\n")
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("{} ended without a line with {word:?}:\n{}", self.name, self.seen.join("\n"))
                }
            }
        }
    }

    /// What it has said so far.
    pub fn said(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    /// Waits for its end and gives all that it said.
    pub fn end(mut self) -> anyhow::Result<(ExitStatus, String)> {
        self.seen.extend(self.lines.iter());
        Ok((self.child.wait()?, self.said()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
