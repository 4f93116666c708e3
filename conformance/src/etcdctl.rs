//! The real etcdctl, run against one or more members of a group. It decides nothing about what etcdctl should say.

use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// etcdctl with its endpoints and the certificate that it shows.
#[derive(Clone, Debug)]
pub struct Etcdctl {
    endpoints: String,
    pki: PathBuf,
}

/// What one run said.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Etcdctl {
    /// `endpoints` are `host:port`; the certificates of a control machine lie in `pki`.
    pub fn new(endpoints: &[String], pki: &Path) -> Self {
        let endpoints = endpoints.iter().map(|endpoint| format!("https://{endpoint}")).collect::<Vec<_>>().join(",");
        Self { endpoints, pki: pki.to_path_buf() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoints]);
        for (flag, file) in [("--cacert", "store-ca.crt"), ("--cert", "store-peer.crt"), ("--key", "store-peer.key")] {
            command.arg(flag).arg(self.pki.join(file));
        }
        command.args(arguments);
        command
    }

    /// Runs it with `input` on its standard input.
    pub fn run(&self, arguments: &[&str], input: &str) -> anyhow::Result<Answer> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("etcdctl (package etcd-client) did not start")?;
        child.stdin.take().context("its input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        Ok(Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// What it prints; it must succeed.
    pub fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let answer = self.run(arguments, "")?;
        anyhow::ensure!(answer.code == 0, "etcdctl {arguments:?}: {}\n{}{}", answer.code, answer.out, answer.err);
        Ok(answer.out)
    }

    /// It must fail and say this.
    pub fn fails(&self, arguments: &[&str], with: &str) -> anyhow::Result<()> {
        let answer = self.run(arguments, "")?;
        anyhow::ensure!(answer.code != 0, "etcdctl {arguments:?} succeeded: {}", answer.out);
        anyhow::ensure!(answer.err.contains(with), "etcdctl {arguments:?} does not say {with:?}: {}", answer.err);
        Ok(())
    }

    /// One that runs on, with its output in `log`.
    pub fn start(&self, arguments: &[&str], log: &Path) -> anyhow::Result<Child> {
        let file = std::fs::File::create(log).with_context(|| log.display().to_string())?;
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        command.spawn().context("etcdctl (package etcd-client) did not start")
    }
}
