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
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Ends in one namespace are gathered this long.
const PAUSE: Duration = Duration::from_millis(100);
/// Everything is counted again after this, in case something was missed.
const EVERY: Duration = Duration::from_secs(300);
/// A pause is so many times as long as the count before it.
const SHARE: u32 = 9;
/// A write that is late is counted once more after this.
const LATER: Duration = Duration::from_secs(1);

/// Runs until cancelled.
pub async fn run(core: Arc<Core>, cancel: CancellationToken) {
    let quotas = core.stored_kind(&RESOURCE_QUOTA).clone();
    let mut all = tokio::time::interval(EVERY);
    loop {
        let everything = tokio::select! {
            () = cancel.cancelled() => return,
            () = quotas.group.freed() => false,
            _ = all.tick() => true,
        };
        tokio::time::sleep(PAUSE).await;
        let mut due: BTreeSet<Box<str>> = quotas.group.take_freed();
        if everything {
            due.extend(quotas.resource.snapshot().tree.values().map(|quota| quota.namespace.clone()));
        }
        for namespace in due {
            let began = core.clock.boottime_ms();
            let outcome = recount(&core, &namespace).await;
            // However much a namespace has, and however often something ends there: most of the time goes to others.
            let took = Duration::from_millis(core.clock.boottime_ms().saturating_sub(began));
            tokio::time::sleep(took * SHARE).await;
            match outcome {
                Ok(true) => {}
                // Somebody was charged meanwhile.
                Ok(false) => quotas.group.free_later(namespace, LATER),
                Err(status) => {
                    tracing::warn!(%namespace, message = %status.message, "quotas could not be counted");
                    quotas.group.free_later(namespace, LATER);
                }
            }
        }
    }
}

/// Whether the namespace's quotas now say what is there.
async fn recount(core: &Core, namespace: &str) -> Outcome<bool> {
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
        let used = count(core, namespace, &quota, &hard);
        let same = amounts(&quota["status"]["hard"]) == hard && amounts(&quota["status"]["used"]) == used;
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
