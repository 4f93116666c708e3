//! Decides a deployment's next step: which of its replica sets is the new one, whether to create it, and who grows or shrinks.
//! Follows Kubernetes' deployment controller. One step scales up the new set *or* scales down old ones, so every state in
//! between keeps the rollout's bounds. Never touches pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;

use super::progress;
use super::revision;
use super::rollout::Rollout;
use super::scaling::{self, Share, Size};
use super::types::{Deployment, Observed};
use crate::objects::{ReplicaSet, compile};
use crate::owner;
use crate::plan::Plan;

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let deployment = &*observed.deployment;
    let Some(selector) = compile(&deployment.spec.selector) else { return Plan::default() };
    let claim =
        owner::claim_kind(&deployment.metadata, &kinds::DEPLOYMENT, &kinds::REPLICA_SET, &observed.sets, |set| {
            selector.matches(&set.metadata.labels)
        });
    let adopted = !claim.writes.is_empty();
    let mut rollout = Rollout::new(deployment, claim.owned, now);
    rollout.plan.push_all(claim.writes);
    if deployment.metadata.deletion_timestamp.is_some() || adopted {
        // Adopted sets have a new version: look again before writing to them.
        progress::write_status(&mut rollout, false);
        return rollout.plan;
    }
    progress::note_pause(&mut rollout);
    let followed = if deployment.spec.paused {
        revision::sync(&mut rollout);
        scale(&mut rollout);
        revision::clean_up(&mut rollout);
        false
    } else if is_scaled(deployment, &rollout) {
        revision::sync(&mut rollout);
        scale(&mut rollout);
        false
    } else {
        roll(&mut rollout, observed);
        true
    };
    rollout.emit();
    progress::write_status(&mut rollout, followed);
    rollout.plan
}

/// The wished number changed since the live sets were last scaled.
fn is_scaled(deployment: &Deployment, rollout: &Rollout<'_>) -> bool {
    let sets = rollout.old.iter().chain(&rollout.new);
    sets.filter(|s| s.set.replicas() > 0)
        .any(|s| revision::number(&s.set, revision::DESIRED).is_some_and(|n| n != i64::from(deployment.replicas())))
}

fn roll(rollout: &mut Rollout<'_>, observed: &Observed) {
    revision::sync(rollout);
    if rollout.deployment.is_recreate() {
        recreate(rollout, &observed.running, observed);
    } else {
        rolling_update(rollout, observed);
    }
    if progress::is_complete(rollout.deployment, &progress::status_of(rollout)) {
        revision::clean_up(rollout);
    }
}

fn rolling_update(rollout: &mut Rollout<'_>, observed: &Observed) {
    let deployment = rollout.deployment;
    let Some(new) = &rollout.new else {
        let replicas = scaling::new_set(deployment, 0, rollout.total());
        return revision::create(rollout, replicas, observed);
    };
    let grown = scaling::new_set(deployment, new.replicas, rollout.total());
    if grown != new.replicas {
        return rollout.scale_new(grown);
    }
    let size = |set: &ReplicaSet, replicas| Size { replicas, available: set.status.available_replicas };
    let new = size(&new.set, new.replicas);
    let old: Vec<Size> = rollout.old.iter().map(|s| size(&s.set, s.replicas)).collect();
    for (index, replicas) in scaling::old_sets(deployment, new, &old).into_iter().enumerate() {
        rollout.scale_old(index, replicas);
    }
}

/// All old pods go, then the new ones come.
fn recreate(rollout: &mut Rollout<'_>, running: &BTreeMap<gantry_apimachinery::meta::Uid, usize>, observed: &Observed) {
    if rollout.old.iter().any(|s| s.replicas > 0) {
        (0..rollout.old.len()).for_each(|index| rollout.scale_old(index, 0));
        return;
    }
    let lives = |set: &Arc<ReplicaSet>| {
        set.status.replicas > 0 || running.get(&set.metadata.uid).is_some_and(|count| *count > 0)
    };
    if rollout.old.iter().any(|s| lives(&s.set)) {
        return;
    }
    let wanted = rollout.deployment.replicas();
    if rollout.new.is_some() {
        rollout.scale_new(wanted);
    } else {
        revision::create(rollout, wanted, observed);
    }
}

/// Brings the sets to a new total without moving the rollout on.
fn scale(rollout: &mut Rollout<'_>) {
    let deployment = rollout.deployment;
    let wanted = deployment.replicas();
    if let Some(position) = rollout.active_or_latest() {
        return rollout.scale_at(position, wanted);
    }
    let saturated = rollout.new.as_ref().is_some_and(|new| {
        new.replicas == wanted
            && new.set.status.available_replicas == wanted
            && revision::number(&new.set, revision::DESIRED) == Some(i64::from(wanted))
    });
    if saturated {
        (0..rollout.old.len()).for_each(|index| rollout.scale_old(index, 0));
    } else if !deployment.is_recreate() {
        let order = rollout.by_size();
        let shares: Vec<Share> = order.iter().map(|at| rollout.share(*at)).collect();
        for (at, replicas) in order.iter().zip(scaling::proportional(deployment, &shares)) {
            rollout.scale_at(*at, replicas);
        }
    }
}
