//! Which incarnation of each other member this one heard of first: a file of its own, durable before anybody is told. It
//! decides nothing.

use super::identity::{IdentityError, write_file};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: &str = "members";
const FIRST_LINE: &str = "gantry store members' incarnations, format 1";

pub struct Kept {
    /// `None`: whoever simulates the directory holds `of` too.
    dir: Option<PathBuf>,
    of: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Kept {
    pub fn read(dir: &Path) -> Result<Self, IdentityError> {
        let path = dir.join(FILE);
        let of = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or(IdentityError::Damaged { path })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(IdentityError::Io { path, source }),
        };
        Ok(Self { dir: Some(dir.to_owned()), of: Arc::new(Mutex::new(of)) })
    }

    #[cfg(test)]
    pub fn simulated(of: Arc<Mutex<BTreeMap<u64, u64>>>) -> Self {
        Self { dir: None, of }
    }

    pub fn all(&self) -> BTreeMap<u64, u64> {
        self.of.lock().clone()
    }

    /// Keeps those of members that were not heard of before; answers all. Blocks.
    pub fn note(&self, heard: &BTreeMap<u64, u64>) -> io::Result<BTreeMap<u64, u64>> {
        let mut of = self.of.lock();
        let mut all = heard.clone();
        all.extend(of.iter());
        if all != *of {
            if let Some(dir) = &self.dir {
                write_file(dir, FILE, &text(&all))?;
            }
            *of = all;
        }
        Ok(of.clone())
    }
}

fn text(of: &BTreeMap<u64, u64>) -> String {
    let lines = of.iter().map(|(member, incarnation)| format!("{member} {incarnation:016x}\n"));
    format!("{FIRST_LINE}\n{}", lines.collect::<String>())
}

fn parse(text: &str) -> Option<BTreeMap<u64, u64>> {
    let mut lines = text.lines();
    lines.next().filter(|first| *first == FIRST_LINE)?;
    lines
        .map(|line| {
            let (member, incarnation) = line.split_once(' ')?;
            Some((member.parse().ok()?, u64::from_str_radix(incarnation, 16).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_first_stays_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::read(dir.path()).unwrap();
        assert_eq!(kept.note(&BTreeMap::from([(2, 7)])).unwrap(), BTreeMap::from([(2, 7)]));
        let all = BTreeMap::from([(2, 7), (3, 9)]);
        assert_eq!(kept.note(&BTreeMap::from([(2, 8), (3, 9)])).unwrap(), all);
        assert_eq!(Kept::read(dir.path()).unwrap().all(), all);
        std::fs::write(dir.path().join(FILE), "something else").unwrap();
        assert!(matches!(Kept::read(dir.path()), Err(IdentityError::Damaged { .. })));
    }
}
