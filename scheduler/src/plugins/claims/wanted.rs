//! What a pod's claims ask of a machine, read once for many machines, and what a machine answers.

use std::sync::Arc;

use crate::plugins::{Reason, Trouble};
use crate::pod::PodClaim;
use crate::selector::Term;
use crate::snapshot::volumes::{Claim, StorageClass, Volume};
use crate::snapshot::{Machine, Snapshot};

/// A volume's labels that say where it is, each with its older name.
const ZONES: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];

/// A claim that gets its volume after the decision.
struct Late<'a> {
    key: &'a Arc<str>,
    name: Arc<str>,
    claim: &'a Claim,
    class: &'a StorageClass,
    /// Volumes that it could have, but for where they are; the smallest first.
    volumes: Vec<&'a Volume>,
}

pub(super) struct Wanted<'a> {
    bound: Vec<(Arc<str>, &'a Volume)>,
    late: Vec<Late<'a>>,
}

impl Wanted<'_> {
    pub fn is_late(&self) -> bool {
        !self.late.is_empty()
    }
}

/// Where a late claim gets its volume.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    There(&'a Volume),
    Made,
}

/// A late claim, by its key, with where it gets its volume.
pub(super) type Sourced<'a> = (&'a Arc<str>, &'a Claim, Source<'a>);

/// What the claims ask, or why no machine will do.
pub(super) fn read<'a>(snapshot: &'a Snapshot, claims: &'a [PodClaim]) -> Result<Wanted<'a>, Reason> {
    let mut wanted = Wanted { bound: Vec::new(), late: Vec::new() };
    for own in claims {
        let name: Arc<str> = own.name().into();
        let trouble = |trouble| Reason::Claim(name.clone(), trouble);
        let claim = snapshot.claim(&own.key).ok_or_else(|| trouble(Trouble::Missing))?;
        if own.owner.as_ref().is_some_and(|uid| *uid != claim.owner) {
            return Err(trouble(Trouble::Foreign));
        }
        if claim.is_deleting {
            return Err(trouble(Trouble::Deleting));
        }
        if claim.is_lost {
            return Err(trouble(Trouble::Lost));
        }
        if claim.volume.is_empty() {
            let class = snapshot.storage_class(&claim.wants.class).filter(|class| class.is_late);
            let class = class.ok_or_else(|| trouble(Trouble::Unbound))?;
            let volumes = candidates(snapshot, &own.key, claim);
            wanted.late.push(Late { key: &own.key, name, claim, class, volumes });
            continue;
        }
        if !claim.is_bound {
            return Err(trouble(Trouble::Unbound));
        }
        let volume = snapshot.volume(&claim.volume).ok_or_else(|| trouble(Trouble::NoVolume))?;
        wanted.bound.push((name, volume));
    }
    // The smallest first, so that it does not take what a larger one needs.
    wanted.late.sort_by_key(|late| late.claim.wants.bytes);
    Ok(wanted)
}

/// A volume that is meant for the claim is the only one.
fn candidates<'a>(snapshot: &'a Snapshot, key: &str, claim: &Claim) -> Vec<&'a Volume> {
    let fits = |volume: &&Volume| {
        let (has, wants) = (&volume.has, &claim.wants);
        has.is_block == wants.is_block
            && has.attributes == wants.attributes
            && has.bytes >= wants.bytes
            && wants.modes.iter().all(|mode| has.modes.contains(mode))
    };
    let is_meant = |volume: &&Volume| volume.claim.as_ref().is_some_and(|(_, uid)| uid.is_empty() || *uid == claim.uid);
    if let Some(meant) = snapshot.volumes_for(key).filter(fits).find(is_meant) {
        return vec![meant];
    }
    let selects = |volume: &&Volume| claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels));
    snapshot.free_volumes(&claim.wants.class).filter(fits).filter(selects).collect()
}

/// Whether one of the terms matches, or none is asked for.
fn reaches(snapshot: &Snapshot, terms: Option<&Vec<Term>>, machine: Machine) -> bool {
    let (name, labels) = (snapshot.name(machine), snapshot.labels(machine));
    terms.is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
}

/// Whether the machine is where the volume's labels say. One without any such label is anywhere. (Kubernetes: VolumeZone.)
fn is_in_zone(snapshot: &Snapshot, volume: &Volume, machine: Machine) -> bool {
    let labels = snapshot.labels(machine);
    if volume.labels.is_empty() || ZONES.iter().flatten().all(|key| labels.get(key).is_none()) {
        return true;
    }
    ZONES.iter().all(|names| {
        let own = names.iter().find_map(|name| labels.get(name));
        // A volume that is in several has them joined.
        let among = |wanted: &String| own.is_some_and(|own| wanted.split("__").any(|zone| zone == own));
        names.iter().filter_map(|name| volume.labels.get(*name)).all(among)
    })
}

/// Where each late claim would get its volume if the pod went to the machine, or why it cannot go there.
pub(super) fn on_machine<'a>(
    snapshot: &Snapshot,
    wanted: &Wanted<'a>,
    machine: Machine,
) -> Result<Vec<Sourced<'a>>, Reason> {
    for (name, volume) in &wanted.bound {
        if !reaches(snapshot, volume.terms.as_ref(), machine) {
            return Err(Reason::VolumeAffinity(name.clone()));
        }
        if !is_in_zone(snapshot, volume, machine) {
            return Err(Reason::VolumeZone(name.clone()));
        }
    }
    let mut sources: Vec<Sourced> = Vec::new();
    for late in &wanted.late {
        let source = match &late.claim.selected {
            Some(node) if **node != *snapshot.name(machine) => {
                return Err(Reason::Elsewhere(late.name.clone(), node.clone()));
            }
            Some(_) => Source::Made,
            None => source(snapshot, late, machine, &sources)?,
        };
        sources.push((late.key, late.claim, source));
    }
    Ok(sources)
}

fn source<'a>(
    snapshot: &Snapshot,
    late: &Late<'a>,
    machine: Machine,
    others: &[Sourced],
) -> Result<Source<'a>, Reason> {
    let is_left = |volume: &Volume| {
        !others.iter().any(|(.., other)| matches!(other, Source::There(taken) if taken.name == volume.name))
    };
    let will_do = |volume: &&&Volume| reaches(snapshot, volume.terms.as_ref(), machine) && is_left(volume);
    if let Some(volume) = late.volumes.iter().find(will_do) {
        return Ok(Source::There(volume));
    }
    let is_meant = late.volumes.iter().any(|volume| volume.claim.is_some());
    if !is_meant && late.class.makes_volumes() && reaches(snapshot, late.class.terms.as_ref(), machine) {
        return Ok(Source::Made);
    }
    Err(Reason::NoVolume(late.name.clone()))
}
