//! A pod goes where the volumes of its claims are, or where they can be had: as Kubernetes' VolumeBinding and VolumeZone.
//! A claim of a class that binds late (`WaitForFirstConsumer`) follows the decision: it takes a volume that is there, or has one
//! made. What is to be written for that is said here; nothing is written.

mod wanted;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{Check, Checked, Preparing, Reason};
use crate::bits::filtered;
use crate::pod::PodClaim;
use crate::snapshot::{Machine, Placed, Snapshot};
use wanted::{Source, Sourced, on_machine, read};

#[derive(Debug)]
struct Claims(Vec<PodClaim>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let claims = &preparing.info.claims;
    if claims.is_empty() { None } else { Some(Box::new(Claims(claims.clone()))) }
}

impl Check for Claims {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        read(snapshot, &self.0).is_ok_and(|wanted| on_machine(snapshot, &wanted, machine).is_ok())
    }

    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        let Ok(wanted) = read(snapshot, &self.0) else { return 0 };
        filtered(word, mask, |machine| on_machine(snapshot, &wanted, machine).is_ok())
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, _: &[&Placed], reasons: &mut Vec<Reason>) {
        let found = read(snapshot, &self.0).and_then(|wanted| on_machine(snapshot, &wanted, machine).map(drop));
        reasons.extend(found.err());
    }
}

/// What is written so that a claim gets its volume where the pod goes. Each on condition that nobody wrote in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeWrite {
    /// The claim's volume is to be made for this machine.
    Select { claim: Arc<str>, uid: String, revision: String, node: String },
    /// The volume is for this claim; `is_reserved`: as somebody said before, by a `claimRef` without a uid.
    Take { volume: Arc<str>, revision: String, claim: Arc<str>, uid: String, is_reserved: bool },
}

/// What is still to be written before a pod with these claims can go to the machine, which would do; `None` when all of them are
/// bound. Nothing is to be written, and yet it must wait, while what was written is being carried out.
pub fn writes(snapshot: &Snapshot, claims: &[PodClaim], machine: Machine) -> Option<Vec<VolumeWrite>> {
    let wanted = read(snapshot, claims).ok().filter(|wanted| wanted.is_late())?;
    let sources = on_machine(snapshot, &wanted, machine).ok()?;
    let write = |(key, claim, source): Sourced| match source {
        Source::Made if claim.selected.is_some() => None,
        Source::Made => Some(VolumeWrite::Select {
            claim: key.clone(),
            uid: claim.uid.clone(),
            revision: claim.revision.clone(),
            node: snapshot.name(machine).to_owned(),
        }),
        Source::There(volume) if volume.claim.as_ref().is_some_and(|(_, uid)| *uid == claim.uid) => None,
        Source::There(volume) => Some(VolumeWrite::Take {
            volume: volume.name.clone(),
            revision: volume.revision.clone(),
            claim: key.clone(),
            uid: claim.uid.clone(),
            is_reserved: volume.claim.is_some(),
        }),
    };
    Some(sources.into_iter().filter_map(write).collect())
}
