//! Counting what a namespace has, and writing it to its quotas. Decides when that is due: a quota's limits changed, something of the
//! namespace ended, or some minutes passed. Every server does it; who writes first is right, and the others find nothing to write.

use super::charge::written;
use super::usage::{in_scope, measured, of};
use super::{is_counted, period_key};
use crate::cache::{Object, in_namespace};
use crate::core::{Core, store_failure};
use crate::gantry::room::{Amounts, add, amounts};
use crate::http::Outcome;
use gantry_apimachinery::kinds::{Kind, RESOURCE_QUOTA, StoreGroup};
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::Status;
use gantry_store::{Compare, Op, RangeRequest, Revision, Txn};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Ends in one namespace are gathered this long.
const PAUSE: Duration = Duration::from_millis(100);
/// Everything is counted again after this, in case something was missed.
const EVERY: Duration = Duration::from_secs(300);
/// Charges are made good by a count after this, should the write that they were for not have come about.
const SOME_TIME: Duration = Duration::from_secs(10);
/// The pause of a namespace is so many times as long as the count before it.
const SHARE: u32 = 9;
/// A count as short makes nobody wait.
const NOTHING: Duration = Duration::from_millis(1);
/// A write that is late is counted once more after this.
const LATER: Duration = Duration::from_secs(1);

/// When each namespace is counted next, and not before when it may be.
#[derive(Default)]
struct Due {
    at: BTreeMap<Box<str>, Instant>,
    not_before: BTreeMap<Box<str>, Instant>,
}

impl Due {
    fn add(&mut self, namespace: Box<str>, at: Instant) {
        let at = self.not_before.get(&namespace).map_or(at, |not_before| at.max(*not_before));
        let known = self.at.entry(namespace).or_insert(at);
        *known = at.min(*known);
    }

    fn next(&self) -> Option<Instant> {
        self.at.values().min().copied()
    }

    /// One whose time has come.
    fn take(&mut self, now: Instant) -> Option<Box<str>> {
        let namespace = self.at.iter().filter(|(_, at)| **at <= now).min_by_key(|(_, at)| **at)?.0.clone();
        self.at.remove(&namespace);
        Some(namespace)
    }

    /// Counting it took so long: for many times that, others have the processor.
    fn counted(&mut self, namespace: &str, now: Instant, took: Duration) {
        self.not_before.retain(|_, not_before| *not_before > now);
        if took > NOTHING {
            self.not_before.insert(namespace.into(), now + took * SHARE);
        }
    }
}

/// Runs until cancelled.
pub async fn run(core: Arc<Core>, cancel: CancellationToken) {
    let quotas = core.stored_kind(&RESOURCE_QUOTA).clone();
    let mut all = tokio::time::interval(EVERY);
    let mut due = Due::default();
    loop {
        let next = due.next();
        let everything = tokio::select! {
            () = cancel.cancelled() => return,
            () = quotas.group.freed() => false,
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => false,
            _ = all.tick() => true,
        };
        let now = Instant::now();
        for (namespace, soon) in quotas.group.take_freed() {
            due.add(namespace, now + if soon { PAUSE } else { SOME_TIME });
        }
        if everything {
            let namespaces = quotas.resource.snapshot();
            namespaces.tree.values().for_each(|quota| due.add(quota.namespace.clone(), now));
        }
        // One at a time: what came meanwhile is heard between two.
        let Some(namespace) = due.take(now) else { continue };
        let mut took = Duration::ZERO;
        let outcome = recount(&core, &namespace, &mut took).await;
        let now = Instant::now();
        due.counted(&namespace, now, took);
        match outcome {
            Ok(true) => {}
            // Somebody was charged meanwhile.
            Ok(false) => due.add(namespace, now + LATER),
            Err(status) => {
                tracing::warn!(%namespace, message = %status.message, "quotas could not be counted");
                due.add(namespace, now + LATER);
            }
        }
    }
}

/// Whether the namespace's quotas now say what is there.
async fn recount(core: &Core, namespace: &str, took: &mut Duration) -> Outcome<bool> {
    let group = &core.stored_kind(&RESOURCE_QUOTA).group;
    let store = &group.store;
    let period = store.range(RangeRequest::key(period_key(namespace))).await.map_err(store_failure)?;
    let quotas =
        store.range(RangeRequest::prefix(RESOURCE_QUOTA.key_prefix(namespace))).await.map_err(store_failure)?;
    // What is counted is not older than the quotas that were read. A write that was charged before and is stored after this
    // count is charged again, because the period moves.
    group.wait_for(quotas.revision.0).await.map_err(|behind| Status::timeout(&behind.to_string(), 1))?;
    let period = period.kvs.first().map_or(0, |kv| kv.mod_revision.0);
    let mut txn = Txn { compare: vec![Compare::unchanged(period_key(namespace), Revision(period))], ..Txn::default() };
    for kv in quotas.kvs {
        let mut quota: Value = serde_json::from_slice(&kv.value).map_err(Status::internal)?;
        let hard = amounts(&quota["spec"]["hard"]);
        let began = Instant::now();
        let used = count(core, namespace, &quota, &hard);
        *took += began.elapsed();
        let same = !is_uncounted(&quota) && amounts(&quota["status"]["used"]) == used;
        // Compared also when nothing changes: all quotas are of one moment.
        txn.compare.push(Compare::unchanged(kv.key.clone(), kv.mod_revision));
        if !same {
            quota["status"]["hard"] = quota["spec"]["hard"].clone();
            quota["status"]["used"] = written(&used);
            txn.success.push(Op::put(kv.key, serde_json::to_vec(&quota).map_err(Status::internal)?));
        }
    }
    if txn.success.is_empty() {
        return Ok(true);
    }
    txn.success.push(Op::put(period_key(namespace), Vec::new()));
    Ok(store.txn(txn).await.map_err(store_failure)?.succeeded)
}

fn count(core: &Core, namespace: &str, quota: &Value, hard: &Amounts) -> Amounts {
    let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    for served in core.registry().all() {
        let kind = served.resource.kind;
        // Each stored kind once, and only those that this quota can measure.
        if !is_counted(kind) || served.kind.stored_as() != served.kind || !may_measure(kind, hard) {
            continue;
        }
        if served.as_custom().is_some_and(|version| version.storage != served.kind.api_version()) {
            continue;
        }
        for (_, object) in served.resource.snapshot().tree.range(in_namespace(namespace)) {
            add(&mut used, &taken(kind, object, quota, hard));
        }
    }
    used
}

fn taken(kind: &'static Kind, object: &Object, quota: &Value, hard: &Amounts) -> Amounts {
    let Ok(value) = object.value() else { return Amounts::new() };
    if in_scope(quota, kind, &value) { measured(&of(kind, &value), hard) } else { Amounts::new() }
}

/// Whether any name of the quota can be about this kind: a namespace's thousand secrets are not read for a quota of pods.
fn may_measure(kind: &Kind, hard: &Amounts) -> bool {
    let counted = format!("count/{}", kind.resource());
    hard.keys().any(|name| match (kind.group, kind.plural) {
        ("", "pods") => {
            name == "pods" || *name == counted || !name.contains("storageclass") && !name.starts_with("count/")
        }
        ("", "persistentvolumeclaims") => name.contains("storage") || name.contains("persistentvolumeclaims"),
        ("", plural) => name == plural || *name == counted || (plural == "services" && name.starts_with("services")),
        (_, plural) => *name == counted || (plural == "resourceclaims" && name == plural),
    })
}

/// Whether an event of this kind may give room back.
pub fn frees(kind: &Kind, deleted: bool, phase: Option<&str>) -> bool {
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    kind.namespaced && kind.store == StoreGroup::State && (deleted || ended)
}

/// Whether a quota's status does not tell of its limits yet.
pub fn is_uncounted(quota: &Value) -> bool {
    quota["spec"]["hard"] != quota["status"]["hard"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_takes_long_makes_only_itself_wait() {
        let (mut due, now) = (Due::default(), Instant::now());
        let second = Duration::from_secs(1);
        due.counted("big", now, second);
        due.add("big".into(), now);
        due.add("small".into(), now + second);
        due.add("small".into(), now);
        assert_eq!((due.take(now).as_deref(), due.take(now)), (Some("small"), None));
        assert_eq!(due.next(), Some(now + second * SHARE));
        due.add("big".into(), now + second);
        assert_eq!(due.take(now + second * SHARE).as_deref(), Some("big"));
        // What is charged again and again does not put its count off.
        due.add("busy".into(), now + SOME_TIME);
        due.add("busy".into(), now + SOME_TIME * 2);
        assert_eq!(due.next(), Some(now + SOME_TIME));
    }
}
