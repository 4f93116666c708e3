//! The machine's own containerd: its configuration, and that one runs for as long as it should.
//!
//! It is started in a session of its own, so that it outlives a killed `gantry` and is adopted by the next one. This
//! module never speaks CRI.

mod config;

pub use config::{Settings, render};

use crate::datadir::{DataDir, make_dir, write_file};
use crate::detached::{self, Detached};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

const START_DEADLINE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);

/// Paths of one containerd under a data directory.
#[derive(Clone, Debug)]
pub struct Containerd {
    dir: PathBuf,
    program: PathBuf,
    log: PathBuf,
    pid_file: PathBuf,
}

impl Containerd {
    pub fn new(data: &DataDir, program: PathBuf) -> Self {
        Self {
            dir: data.containerd(),
            program,
            log: data.log_file("containerd"),
            pid_file: data.pid_file("containerd"),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("containerd.sock")
    }

    /// Writes the configuration, then adopts the containerd that answers on the socket or starts one, and waits until
    /// it answers.
    pub async fn start(&self) -> anyhow::Result<Detached> {
        self.write_config()?;
        if let Some(running) = self.adopt().await {
            tracing::info!(pid = running.pid(), "adopted the running containerd");
            return Ok(running);
        }
        let arguments = ["--config".into(), self.dir.join("config.toml").into_os_string()];
        let mut child = detached::spawn(&self.program, &arguments, &self.log, Some(&self.pid_file))
            .with_context(|| format!("starting {}", self.program.display()))?;
        tokio::select! {
            answered = self.wait_until_answering() => answered?,
            () = child.ended() => anyhow::bail!("containerd ended at once; see {}", self.log.display()),
        }
        Ok(child)
    }

    /// Keeps one containerd running until `cancel`; the last one is left running.
    pub async fn supervise(&self, mut running: Detached, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return running.leave(),
                () = running.ended() => tracing::warn!(log = %self.log.display(), "containerd ended; starting it again"),
            }
            running = loop {
                match self.start().await {
                    Ok(started) => break started,
                    Err(error) => tracing::error!("{error:#}"),
                }
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_secs(2)) => {}
                }
            };
        }
    }

    fn write_config(&self) -> anyhow::Result<()> {
        for name in ["root", "state", "opt", "cni", "certs.d"] {
            make_dir(&self.dir.join(name), if name == "cni" || name == "certs.d" { 0o755 } else { 0o711 })?;
        }
        let settings = Settings {
            dir: self.dir.clone(),
            sandbox_image: crate::images::PAUSE.to_owned(),
            cni_bin_dir: crate::preflight::CNI_BIN_DIR.into(),
            restrict_oom_score_adj: config::oom_score_adj_is_restricted(),
        };
        write_file(&self.dir.join("config.toml"), render(&settings).as_bytes(), 0o644)
    }

    async fn adopt(&self) -> Option<Detached> {
        let running = Detached::from_pid_file(&self.pid_file, &self.program)?;
        let answered = tokio::time::timeout(START_DEADLINE, self.wait_until_answering()).await;
        matches!(answered, Ok(Ok(()))).then_some(running)
    }

    /// Waits until the CRI plugin's socket accepts; containerd binds it after its plugins are loaded.
    async fn wait_until_answering(&self) -> anyhow::Result<()> {
        let socket = self.socket();
        let deadline = tokio::time::Instant::now() + START_DEADLINE;
        while !accepts(&socket).await {
            anyhow::ensure!(
                tokio::time::Instant::now() < deadline,
                "containerd did not answer on {} within {} s; see {}",
                socket.display(),
                START_DEADLINE.as_secs(),
                self.log.display()
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

async fn accepts(socket: &Path) -> bool {
    UnixStream::connect(socket).await.is_ok()
}
