//! Whether members that stand at the same revision hold the same state.

use crate::Violation;
use std::collections::BTreeMap;

/// What one member said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSample {
    pub member: u64,
    pub revision: u64,
    pub hash: u64,
}

pub fn check_hashes(samples: &[HashSample]) -> Result<(), Violation> {
    let mut first = BTreeMap::new();
    for sample in samples {
        let known: &mut HashSample = first.entry(sample.revision).or_insert(*sample);
        if known.hash != sample.hash {
            let members = [known.member, sample.member];
            return Err(Violation::Diverged { revision: sample.revision, members });
        }
    }
    Ok(())
}
