//! Decides how a namespace empties: pods first, because they may need the Secrets, services and the like beside them; then
//! everything else; then the namespace itself. Never forces a pod or takes a finalizer off.

use std::collections::BTreeMap;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;
use serde_json::json;

use super::types::{Observed, Remaining};
use crate::objects::{Condition, replace_condition};
use crate::plan::{Plan, Verb, Write};

/// The finalizer in `spec` that this controller owns.
const FINALIZER: &str = "kubernetes";
/// How soon to look again while something is going.
const SOON: Duration = Duration::from_millis(100);
const WAITING: Duration = Duration::from_secs(2);
/// The same when only groups that do not answer hold it: a change of their APIServices wakes it earlier.
const BLIND: Duration = Duration::from_secs(15);

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let namespace = &observed.namespace;
    if namespace.metadata.deletion_timestamp.is_none() {
        return plan;
    }
    let left: usize = observed.remaining.iter().map(|r| r.objects.len()).sum();
    if left == 0 && observed.failures.is_empty() {
        plan.push(finish(observed));
        return plan;
    }
    let pods = observed.remaining.iter().any(|r| *r.kind == kinds::POD && !r.objects.is_empty());
    let now_going = observed.remaining.iter().filter(|r| !pods || *r.kind == kinds::POD);
    let writes: Vec<Write> = now_going.flat_map(delete).collect();
    plan.requeue_in(match (writes.is_empty(), left) {
        (false, _) => SOON,
        (true, 0) => BLIND,
        (true, _) => WAITING,
    });
    plan.push_all(writes);
    let mut conditions = namespace.status.conditions.clone();
    explain(observed, now).into_iter().for_each(|condition| replace_condition(&mut conditions, condition));
    if conditions != namespace.status.conditions {
        let body = json!({"status": {"conditions": conditions}});
        plan.status = Some(Write::status(&kinds::NAMESPACE, "", &namespace.metadata.name, body));
    }
    plan
}

fn delete(remaining: &Remaining) -> Vec<Write> {
    let going = remaining.objects.iter().filter(|object| object.metadata.deletion_timestamp.is_none());
    let write = |meta: &gantry_apimachinery::meta::ObjectMeta| {
        let options = DeleteOptions::uid(meta.uid.to_string());
        Write::delete(remaining.kind, &meta.namespace, &meta.name, options)
    };
    going.map(|object| write(&object.metadata)).collect()
}

/// Takes this controller's finalizer off `spec`, or deletes the namespace once more when nobody holds it.
fn finish(observed: &Observed) -> Write {
    let namespace = &observed.namespace;
    let meta = &namespace.metadata;
    if namespace.spec.finalizers.is_empty() {
        return Write::delete(&kinds::NAMESPACE, "", &meta.name, DeleteOptions::uid(meta.uid.to_string()));
    }
    let keep: Vec<&String> = namespace.spec.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": meta.name, "uid": meta.uid,
        "resourceVersion": meta.resource_version}, "spec": {"finalizers": keep}});
    Write::new(&kinds::NAMESPACE, "", &meta.name, Verb::Replace { subresource: "finalize", body })
}

/// The conditions by which `kubectl get namespace -o yaml` says what it waits for.
fn explain(observed: &Observed, now: Timestamp) -> Vec<Condition> {
    let new = |kind: &str, bad: bool, reasons: [&str; 2], message: String| {
        let (status, reason) = if bad { ("True", reasons[0]) } else { ("False", reasons[1]) };
        Condition::new(kind, status, reason, message, now)
    };
    let failures = observed.failures.join("; ");
    let discovery = match observed.failures.is_empty() {
        true => "All resources successfully discovered".to_owned(),
        false => {
            let count = observed.failures.len();
            let what = "unable to retrieve the complete list of server APIs";
            format!("Discovery failed for some groups, {count} failing: {what}: {failures}")
        }
    };
    let content = match &observed.delete_failure {
        None => "All content successfully deleted, may be waiting on finalization".to_owned(),
        Some(why) => format!("Failed to delete all resource types, 1 remaining: {why}"),
    };
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for object in observed.remaining.iter().flat_map(|r| &r.objects) {
        object.metadata.finalizers.iter().for_each(|f| *finalizers.entry(f.as_str()).or_default() += 1);
    }
    let held: Vec<String> = finalizers.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    let finalizing = match held.is_empty() {
        true => "All content-preserving finalizers finished".to_owned(),
        false => format!("Some content in the namespace has finalizers remaining: {}", held.join(", ")),
    };
    let counts: Vec<String> = observed
        .remaining
        .iter()
        .filter(|r| !r.objects.is_empty())
        .map(|r| {
            format!("{} has {}{} resource instances", r.kind.resource(), r.objects.len(), if r.more { "+" } else { "" })
        })
        .collect();
    let remaining = match counts.is_empty() {
        true => "All content successfully removed".to_owned(),
        false => format!("Some resources are remaining: {}", counts.join(", ")),
    };
    vec![
        new(
            "NamespaceDeletionDiscoveryFailure",
            !observed.failures.is_empty(),
            ["DiscoveryFailed", "ResourcesDiscovered"],
            discovery,
        ),
        new(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            ["GroupVersionParsingFailed", "ParsedGroupVersions"],
            "All legacy kube types successfully parsed".to_owned(),
        ),
        new(
            "NamespaceDeletionContentFailure",
            observed.delete_failure.is_some(),
            ["ContentDeletionFailed", "ContentDeleted"],
            content,
        ),
        new("NamespaceContentRemaining", !counts.is_empty(), ["SomeResourcesRemain", "ContentRemoved"], remaining),
        new(
            "NamespaceFinalizersRemaining",
            !held.is_empty(),
            ["SomeFinalizersRemain", "ContentHasNoFinalizers"],
            finalizing,
        ),
    ]
}
