//! Revisions: the numbers and annotations by which `kubectl rollout history` and `undo` work, the new set's form, and which
//! old sets are dropped. Never scales.

use std::collections::BTreeMap;

use gantry_apimachinery::kinds;
use gantry_apimachinery::names;
use gantry_client::DeleteOptions;
use serde_json::{Value, json};

use super::progress;
use super::rollout::Rollout;
use super::types::{Deployment, Observed};
use crate::objects::{HASH_LABEL, ReplicaSet};
use crate::owner;
use crate::plan::Write;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a deployment that its sets do not get.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
];
/// Bytes of history that an annotation keeps.
const HISTORY_BYTES: usize = 2000;

/// A number among a set's annotations.
pub fn number(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.metadata.annotations.get(annotation)?.parse().ok()
}

/// What a scaled set notes: the total it is a share of, and the most pods there may be.
pub fn shares(deployment: &Deployment) -> [(&'static str, String); 2] {
    let (surge, _) = deployment.bounds();
    [(DESIRED, deployment.replicas().to_string()), (MAX, (deployment.replicas() + surge).to_string())]
}

/// Gives the new set the highest revision and the deployment's annotations, and the deployment the new set's revision.
pub fn sync(rollout: &mut Rollout<'_>) {
    let revision = next(rollout);
    let deployment = rollout.deployment;
    let Some(new) = &mut rollout.new else { return };
    let have = &new.set.metadata.annotations;
    let wanted = annotations(deployment, have, revision);
    new.annotations.extend(wanted.into_iter().filter(|(key, value)| have.get(key) != Some(value)));
    if new.set.spec.min_ready_seconds != deployment.spec.min_ready_seconds {
        new.min_ready_seconds = Some(deployment.spec.min_ready_seconds);
    }
    let current = new.annotations.get(REVISION).or(have.get(REVISION)).cloned().unwrap_or_default();
    let name = new.set.metadata.name.clone();
    if deployment.metadata.annotations.get(REVISION) != Some(&current) {
        rollout.plan.push(note_revision(deployment, &current));
    }
    progress::note_found(rollout, &name);
}

/// One above the old sets' highest.
fn next(rollout: &Rollout<'_>) -> i64 {
    rollout.old.iter().filter_map(|s| number(&s.set, REVISION)).max().unwrap_or(0) + 1
}

fn note_revision(deployment: &Deployment, revision: &str) -> Write {
    let body = json!({"metadata": {"annotations": {REVISION: revision}}});
    Write::merge(&kinds::DEPLOYMENT, &deployment.metadata.namespace, &deployment.metadata.name, body)
}

/// The annotations that the new set should have beside those it has.
fn annotations(deployment: &Deployment, have: &BTreeMap<String, String>, revision: i64) -> BTreeMap<String, String> {
    let copied = deployment.metadata.annotations.iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    let mut wanted: BTreeMap<String, String> = copied.map(|(k, v)| (k.clone(), v.clone())).collect();
    let old = have.get(REVISION);
    let number: i64 = old.and_then(|text| text.parse().ok()).unwrap_or(0);
    if number < revision {
        wanted.insert(REVISION.to_owned(), revision.to_string());
        // It had a revision: this is a way back to it. The old number stays known.
        if let Some(old) = old {
            wanted.insert(HISTORY.to_owned(), lengthen(have.get(HISTORY), old));
        }
    }
    wanted
}

fn lengthen(history: Option<&String>, revision: &str) -> String {
    let mut all: Vec<&str> = history.map(|h| h.split(',').filter(|r| !r.is_empty()).collect()).unwrap_or_default();
    all.push(revision);
    while all.len() > 1 && all.iter().map(|r| r.len() + 1).sum::<usize>() > HISTORY_BYTES {
        all.remove(0);
    }
    all.join(",")
}

/// The name and the hash of the set that this deployment's template asks for now.
pub fn name_and_hash(deployment: &Deployment) -> (String, String) {
    let collisions = deployment.status.collision_count.unwrap_or(0);
    let hash = names::safe_hash(format!("{}{collisions}", deployment.spec.template.canonical()).as_bytes());
    (format!("{}-{hash}", deployment.metadata.name), hash)
}

/// Creates the new set, or picks another hash when its name is somebody else's.
pub fn create(rollout: &mut Rollout<'_>, replicas: i32, observed: &Observed) {
    let deployment = rollout.deployment;
    if observed.collided {
        rollout.collision_count = Some(rollout.collision_count.unwrap_or(0) + 1);
        return;
    }
    let (name, hash) = name_and_hash(deployment);
    let revision = next(rollout);
    let mut notes = annotations(deployment, &BTreeMap::new(), revision);
    notes.extend(shares(deployment).map(|(k, v)| (k.to_owned(), v)));
    let mut template = deployment.spec.template.value();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = json!(deployment.spec.selector);
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let labels: Value = template["metadata"]["labels"].clone();
    let body = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": deployment.metadata.namespace, "labels": labels, "annotations": notes,
            "ownerReferences": [owner::owner_reference(&kinds::DEPLOYMENT, &deployment.metadata)]},
        "spec": {"replicas": replicas, "minReadySeconds": deployment.spec.min_ready_seconds, "selector": selector,
            "template": template},
    });
    let on = owner::reference(&kinds::DEPLOYMENT, &deployment.metadata);
    let scaled = format!("Scaled up replica set {name} from 0 to {replicas}");
    let done = (replicas > 0).then_some(("ScalingReplicaSet", scaled.as_str()));
    let failed = format!("Failed to create new replica set \"{name}\": {{error}}");
    let write = Write::create(&kinds::REPLICA_SET, &deployment.metadata.namespace, body);
    rollout.plan.push(write.announced(&on, done, Some(("ReplicaSetCreateError", &failed))));
    if deployment.metadata.annotations.get(REVISION) != Some(&revision.to_string()) {
        rollout.plan.push(note_revision(deployment, &revision.to_string()));
    }
    progress::note_created(rollout, &name, observed.failure.as_ref());
}

/// Drops the oldest sets above the history limit, once nothing of them runs.
pub fn clean_up(rollout: &mut Rollout<'_>) {
    let Some(limit) = rollout.deployment.spec.revision_history_limit.and_then(|n| usize::try_from(n).ok()) else {
        return;
    };
    let mut sets: Vec<&ReplicaSet> =
        rollout.old.iter().map(|s| &*s.set).filter(|s| s.metadata.deletion_timestamp.is_none()).collect();
    let Some(excess) = sets.len().checked_sub(limit).filter(|n| *n > 0) else { return };
    sets.sort_by_key(|s| (number(s, REVISION).unwrap_or(0), s.created()));
    let idle = |set: &&&ReplicaSet| {
        set.status.replicas == 0 && set.replicas() == 0 && set.metadata.generation <= set.status.observed_generation
    };
    let writes = sets.iter().take(excess).filter(idle).map(|set| {
        let options = DeleteOptions::uid(set.metadata.uid.to_string());
        Write::delete(&kinds::REPLICA_SET, &set.metadata.namespace, &set.metadata.name, options)
    });
    let writes = writes.collect();
    rollout.plan.push_all(writes);
}
