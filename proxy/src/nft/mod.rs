//! The edge to nftables: runs `nft`, one transaction per call. It decides nothing about Services.

mod kernel;
mod layout;
mod names;
mod render;

pub use layout::Layout;

use crate::ruleset::{Op, Ruleset};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The program cannot be run. The caller retries; a person installs nftables.
    #[error("running {}", .program.display())]
    Run { program: PathBuf, source: std::io::Error },
    /// The kernel refused the transaction; nothing of it was applied. The caller reads the state and tries again.
    #[error("nft refused the transaction: {0}")]
    Refused(String),
    /// The caller retries.
    #[error("nft did not end within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// What the kernel holds is not what this program writes. The caller rebuilds the table.
    #[error("the table in the kernel cannot be read: {0}")]
    Unreadable(String),
}

/// One table of the kernel.
#[derive(Clone, Debug)]
pub struct Table {
    program: PathBuf,
    layout: Layout,
}

impl Table {
    pub fn new(program: PathBuf, layout: Layout) -> Self {
        Self { program, layout }
    }

    /// What the kernel holds; `None` when the table is absent, of another layout, or unreadable, and has to be rebuilt.
    pub async fn read(&self) -> Result<Option<Ruleset>, NftError> {
        let name = &self.layout.table;
        match self.run(&["-j", "list", "table", "inet", name], "").await {
            Ok(text) => match kernel::parse(&text, &self.layout) {
                Ok(ruleset) => Ok(ruleset),
                Err(error) => {
                    tracing::warn!(%error, "the nftables table is rebuilt");
                    Ok(None)
                }
            },
            // nft has no exit code of its own for "there is none".
            Err(NftError::Refused(text)) if text.contains("No such file or directory") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces whatever is there by the layout and `ruleset`, in one transaction.
    pub async fn rebuild(&self, ruleset: &Ruleset) -> Result<(), NftError> {
        let mut text = self.layout.fresh();
        let ops = crate::ruleset::diff(&Ruleset::default(), ruleset);
        render::render(&mut text, &self.layout.table, &ops);
        self.run(&["-f", "-"], &text).await.map(|_| ())
    }

    /// Applies the steps in one transaction.
    pub async fn apply(&self, ops: &[Op]) -> Result<(), NftError> {
        let mut text = String::new();
        render::render(&mut text, &self.layout.table, ops);
        self.run(&["-f", "-"], &text).await.map(|_| ())
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Result<String, NftError> {
        let failed = |source| NftError::Run { program: self.program.clone(), source };
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take().expect("stdin was piped");
        let exchange = async {
            // nft reads all of its input before it answers, and ends early only to refuse it.
            let write = async {
                let _ = stdin.write_all(input.as_bytes()).await;
                drop(stdin);
            };
            let ((), output) = tokio::join!(write, child.wait_with_output());
            output
        };
        let output = tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| NftError::Timeout)?.map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        // The first lines name the fault; the rest repeats the whole input.
        Err(NftError::Refused(text.lines().take(3).collect::<Vec<_>>().join("; ")))
    }
}
