//! A pod's directory on this machine: filled and removed by one at a time, and never filled again once it was removed.
//! What is in it, its callers decide.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::fs;

pub struct Place {
    dir: PathBuf,
    gone: Mutex<bool>,
}

impl Place {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, gone: Mutex::new(false) }
    }

    /// Lets `make` work on the directory, unless the pod was torn down: a refresh may have waited for its objects meanwhile.
    pub fn fill(&self, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        let gone = self.gone.lock();
        if *gone {
            return Err("the pod was torn down".into());
        }
        make(&self.dir)
    }

    /// Unmounts and removes everything, for good. Repeating it is fine.
    pub fn clear(&self) -> io::Result<()> {
        let mut gone = self.gone.lock();
        *gone = true;
        fs::remove_pod_dir(&self.dir)
    }
}
