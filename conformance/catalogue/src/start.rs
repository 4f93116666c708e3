//! Starts a Gantry to run against, from its binary: keys, a store, an API server and the controllers, on loopback and in a
//! folder of its own. It ends what it started, and nothing else.

use anyhow::{Context, ensure};
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const GROUPS: [&str; 3] = ["state", "leases", "events"];

/// Dropping it ends its processes and removes its data.
pub struct Started {
    folder: tempfile::TempDir,
    binary: PathBuf,
    running: Vec<Child>,
}

impl Started {
    /// Returns when everything was started, not when it answers.
    pub fn new(binary: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-catalogue-").tempdir()?;
        let binary = binary.canonicalize().with_context(|| format!("no program {}", binary.display()))?;
        let mut started = Self { folder, binary, running: Vec::new() };
        started.start()?;
        Ok(started)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let ports = free_ports()?;
        let (api, stores) = (format!("127.0.0.1:{}", ports[0]), &ports[1..]);
        self.finish(&[
            "pki",
            "init",
            "--node-name",
            "control",
            "--node-ip",
            "127.0.0.1",
            "--api-port",
            &ports[0].to_string(),
        ])?;
        let mut endpoints = Vec::new();
        for (group, port) in GROUPS.iter().zip(stores) {
            let (listen, data) = (format!("127.0.0.1:{port}"), self.path(&format!("store-{group}")));
            self.spawn(
                &format!("store-{group}"),
                &["store", "--insecure", "--group", group, "--listen", &listen, "--data-dir", &data],
            )?;
            endpoints.push(format!("{group}=http://{listen}"));
        }
        let pki = self.path("control/pki");
        let flags = [
            "--listen",
            &api,
            "--advertise-ip",
            "127.0.0.1",
            "--pki-dir",
            &pki,
            "--store-endpoints",
            &endpoints.join(","),
        ];
        self.spawn("apiserver", &[&["apiserver"][..], &flags[..]].concat())?;
        let server = format!("https://{api}");
        let (admin, controllers) = (self.path("admin.kubeconfig"), self.path("controllers.kubeconfig"));
        self.finish(&[
            "pki",
            "client",
            "kubernetes-admin",
            "--group",
            "system:masters",
            "--server",
            &server,
            "--out",
            &admin,
        ])?;
        self.finish(&["pki", "client", "system:kube-controller-manager", "--server", &server, "--out", &controllers])?;
        let (key, ca) = (format!("{pki}/sa.key"), format!("{pki}/ca.crt"));
        self.spawn(
            "controllers",
            &["controllers", "--kubeconfig", &controllers, "--service-account-key", &key, "--root-ca", &ca],
        )
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A command that ends, on the folder's keys.
    fn finish(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = Command::new(&self.binary).args(arguments).args(["--data-dir", &self.path("control")]).output()?;
        ensure!(output.status.success(), "gantry {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn spawn(&mut self, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let log = File::create(self.log(name))?;
        let mut command = Command::new(&self.binary);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.running.push(command.spawn().with_context(|| format!("{name} did not start"))?);
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// What its parts said last, for a start that does not come to an end.
    pub fn last_words(&self) -> String {
        let tail = |name: &str| {
            let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(5).collect();
            format!("{name}: {}", lines.into_iter().rev().collect::<Vec<_>>().join("\n  "))
        };
        ["store-state", "apiserver", "controllers"].map(tail).join("\n")
    }
}

/// Ports that were free a moment ago: all are held until the last is known.
fn free_ports() -> anyhow::Result<Vec<u16>> {
    let held = (0..=GROUPS.len()).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(held.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect::<Result<_, _>>()?)
}

impl Drop for Started {
    fn drop(&mut self) {
        // The store last: what asks it ends first.
        for child in self.running.iter_mut().rev() {
            if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
                eprintln!("ending a process that was started: {error}");
            }
        }
    }
}
