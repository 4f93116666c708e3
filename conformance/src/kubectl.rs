//! The real kubectl, run against one cluster. It decides nothing about what kubectl should say.

use crate::tools;
use crate::wait::wait_for;
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// kubectl with a kubeconfig and, if given, a default namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    namespace: Option<String>,
    env: Vec<(String, String)>,
}

/// What one run said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Kubectl {
    /// Its cache goes into `home`, which must not be a data directory: nothing but Gantry's belongs there.
    pub fn new(kubeconfig: &Path, home: &Path) -> anyhow::Result<Self> {
        let (kubeconfig, home) = (kubeconfig.to_path_buf(), home.to_path_buf());
        Ok(Self { binary: tools::kubectl()?, kubeconfig, home, namespace: None, env: Vec::new() })
    }

    /// Another version of kubectl at the same cluster.
    pub fn of_version(&self, binary: PathBuf) -> Self {
        Self { binary, ..self.clone() }
    }

    /// The same kubectl with `-n namespace`.
    pub fn within(&self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self.clone() }
    }

    /// A namespace of its own for one case, deleted in the background afterwards.
    pub fn with_namespace(&self, name: &str, body: impl FnOnce(&Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.ok(&["create", "namespace", name])?;
        let within = self.within(name);
        let account = || within.ok(&["get", "serviceaccount", "default"]);
        wait_for("the default service account", Duration::from_secs(20), account)?;
        let result = body(&within);
        if result.is_err() {
            let _ = within.run(&["get", "pods,events", "-o", "wide"], "").map(|said| eprintln!("{}", said.out));
        }
        self.ok(&["delete", "namespace", name, "--wait=false"])?;
        result
    }

    /// The same kubectl with one more variable in its environment.
    pub fn with_env(&self, name: &str, value: &str) -> Self {
        let mut env = self.env.clone();
        env.push((name.to_owned(), value.to_owned()));
        Self { env, ..self.clone() }
    }

    /// A command that the caller runs, its output and its environment included.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).envs(self.env.iter().cloned());
        if let Some(namespace) = &self.namespace {
            command.args(["-n", namespace]);
        }
        command.args(arguments);
        command
    }

    /// Runs to the end, whatever the exit code. `input` is standard input.
    pub fn run(&self, arguments: &[&str], input: &str) -> anyhow::Result<Said> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl did not start")?;
        let mut stdin = child.stdin.take().context("kubectl's standard input")?;
        let text = input.to_owned();
        let writer = std::thread::spawn(move || {
            // kubectl may exit without reading; a broken pipe is then no failure.
            let _ = stdin.write_all(text.as_bytes());
        });
        let output = child.wait_with_output().context("kubectl's output")?;
        let _ = writer.join();
        Ok(Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Standard output of a run that must succeed.
    pub fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.ok_with(arguments, "")
    }

    pub fn ok_with(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let said = self.run(arguments, input)?;
        anyhow::ensure!(
            said.code == 0,
            "kubectl {} exited with {}:\n{}{}",
            arguments.join(" "),
            said.code,
            said.out,
            said.err
        );
        Ok(said.out)
    }

    /// Standard error of a run that must fail.
    pub fn fails(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let said = self.run(arguments, input)?;
        anyhow::ensure!(said.code != 0, "kubectl {} succeeded, but must not:\n{}", arguments.join(" "), said.out);
        Ok(said.err)
    }

    pub fn json(&self, arguments: &[&str]) -> anyhow::Result<serde_json::Value> {
        let mut all = arguments.to_vec();
        all.extend(["-o", "json"]);
        let text = self.ok(&all)?;
        serde_json::from_str(&text).with_context(|| format!("kubectl {}: {text}", all.join(" ")))
    }

    /// One value by a JSONPath template, as text.
    pub fn path(&self, what: &[&str], jsonpath: &str) -> anyhow::Result<String> {
        let template = format!("jsonpath={{{jsonpath}}}");
        let mut all = vec!["get"];
        all.extend(what);
        all.extend(["-o", &template]);
        self.ok(&all)
    }

    pub fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.ok_with(&["apply", "-f", "-"], manifest)
    }

    /// Starts a long-running kubectl (a watch, a follow) whose output the caller reads; the caller ends it.
    pub fn spawn(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("kubectl did not start")
    }
}
