//! How far `gantry up` has come: one line per step for people, and a file that a waiting `--detach` reads.

use crate::datadir::{DataDir, write_file};
use crate::say::say;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Keys,
    Store,
    Api,
    Containerd,
    Images,
    Registering,
    Ready,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keys => "making keys and certificates",
            Self::Store => "opening the store",
            Self::Api => "starting the API server",
            Self::Containerd => "starting containerd",
            Self::Images => "importing images",
            Self::Registering => "registering the machine",
            Self::Ready => "Ready",
        })
    }
}

/// The current phase, and the process that wrote it.
#[derive(Serialize, Deserialize)]
struct Written {
    process: u32,
    phase: Phase,
}

fn path(data: &DataDir) -> PathBuf {
    data.run().join("phase.json")
}

impl Phase {
    /// Prints and writes the phase. A phase file that cannot be written only spoils the progress display.
    pub fn announce(self, data: &DataDir) {
        say!("gantry: {self}");
        let written = Written { process: std::process::id(), phase: self };
        if let Ok(bytes) = serde_json::to_vec(&written)
            && let Err(error) = write_file(&path(data), &bytes, 0o644)
        {
            tracing::warn!("{error:#}");
        }
    }

    /// The phase of the `gantry up` that runs now; `None` when none runs or it has not said.
    pub fn read(data: &DataDir) -> Option<Self> {
        let written: Written = serde_json::from_slice(&std::fs::read(path(data)).ok()?).ok()?;
        (data.holder("gantry") == Some(written.process)).then_some(written.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_running_process_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        data.create().unwrap();
        Phase::Api.announce(&data);
        assert_eq!(Phase::read(&data), None);
        let _lock = data.lock("gantry").unwrap();
        assert_eq!(Phase::read(&data), Some(Phase::Api));
    }
}
