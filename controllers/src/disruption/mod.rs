//! Keeps the counts by which evictions are allowed or refused.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Object, OwnerReference, Uid, split_api_version};
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;
use serde::Deserialize;

pub use types::PodDisruptionBudget;
use types::{Observed, Wanted};

use crate::deployment::Deployment;
use crate::edge::{Controller, Env, Feeds, Key, Memory, rest};
use crate::objects::{Pod, ReplicaSet};
use crate::plan::Plan;

/// The loop's edge. Keys are budgets.
pub struct Disruptions;

impl Controller for Disruptions {
    type Observed = Observed;
    const NAME: &'static str = "disruption";
    const COMPONENT: &'static str = "controllermanager";

    fn new(_env: &Arc<Env>) -> Self {
        Disruptions
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.budgets, |budget: &PodDisruptionBudget| vec![Key::of(budget)]);
        let with = env.clone();
        feeds.on_change(&env.informers.pods, move |old: Option<&Pod>, new: Option<&Pod>| match (old, new) {
            (Some(old), Some(new)) if !matters(old, new) => Vec::new(),
            _ => about(&with, old.into_iter().chain(new)),
        });
        // What an owner wants is what a relative budget counts from.
        let with = env.clone();
        feeds.on_change(&env.informers.deployments, move |old: Option<&Deployment>, new: Option<&Deployment>| {
            match (old, new) {
                (Some(old), Some(new)) if old.spec.replicas == new.spec.replicas => Vec::new(),
                _ => relative(&with, old.or(new).map_or("", |object| object.namespace())),
            }
        });
        let with = env.clone();
        feeds.on_change(&env.informers.replica_sets, move |old: Option<&ReplicaSet>, new: Option<&ReplicaSet>| match (
            old, new,
        ) {
            (Some(old), Some(new)) if old.spec.replicas == new.spec.replicas => Vec::new(),
            _ => relative(&with, old.or(new).map_or("", |object| object.namespace())),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.budgets.list().iter().map(|budget| Key::of(&**budget)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(budget) = env.informers.budgets.get(&key.namespace, &key.name) else { return Ok(None) };
        let mut pods = Vec::new();
        if let Some(selector) = budget.selector() {
            pods = env.informers.pods.list_namespace(&key.namespace);
            pods.retain(|pod| selector.matches(&pod.metadata.labels));
        }
        let wanted = if budget.is_relative() { wanted(env, &pods).await? } else { Ok(Wanted::default()) };
        Ok(Some(Observed { budget, pods, wanted }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Observed) -> Duration {
        rest(observed.pods.len())
    }
}

fn matters(old: &Pod, new: &Pod) -> bool {
    old.is_ready() != new.is_ready()
        || old.is_terminating() != new.is_terminating()
        || old.metadata.labels != new.metadata.labels
        || old.metadata.uid != new.metadata.uid
}

/// The budgets that are about one of these states of a pod.
fn about<'a>(env: &Env, states: impl Iterator<Item = &'a Pod>) -> Vec<Key> {
    let states: Vec<&Pod> = states.collect();
    let Some(first) = states.first() else { return Vec::new() };
    let budgets = env.informers.budgets.list_namespace(first.namespace());
    let is_about = |budget: &PodDisruptionBudget| {
        let selector = budget.selector();
        selector.is_some_and(|selector| states.iter().any(|pod| selector.matches(&pod.metadata.labels)))
    };
    budgets.iter().filter(|budget| is_about(budget)).map(|budget| Key::of(&**budget)).collect()
}

fn relative(env: &Env, namespace: &str) -> Vec<Key> {
    let budgets = env.informers.budgets.list_namespace(namespace);
    budgets.iter().filter(|budget| budget.is_relative()).map(|budget| Key::of(&**budget)).collect()
}

/// How many pods the owners of these want. Inside, why that is not known.
async fn wanted(env: &Env, pods: &[Arc<Pod>]) -> Result<Result<Wanted, String>, ApiError> {
    let mut all = Wanted::default();
    let mut known = BTreeSet::new();
    for pod in pods {
        let Some(owner) = pod.owner() else {
            all.unowned += 1;
            continue;
        };
        if !known.insert(owner.uid.clone()) {
            continue;
        }
        match wants(env, pod.namespace(), owner, &mut known).await {
            Ok(pods) => all.pods = all.pods.saturating_add(pods),
            Err(Unknown::Why(why)) => return Ok(Err(why)),
            Err(Unknown::Asking(error)) => return Err(error),
        }
    }
    Ok(Ok(all))
}

/// Why it is not known how many pods an owner wants.
enum Unknown {
    Why(String),
    Asking(ApiError),
}

/// A replica set of a Deployment wants what the Deployment wants, once for all of its sets. Everybody else says it by `scale`.
async fn wants(env: &Env, namespace: &str, owner: &OwnerReference, known: &mut BTreeSet<Uid>) -> Result<i32, Unknown> {
    if owner.kind == "ReplicaSet" && owner.api_version == "apps/v1" {
        let set = env.informers.replica_sets.get(namespace, &owner.name).filter(|set| set.metadata.uid == owner.uid);
        let Some(set) = set else { return Ok(0) };
        let Some(above) = set.metadata.controller().filter(|above| above.kind == "Deployment") else {
            return Ok(set.replicas());
        };
        let deployment = env.informers.deployments.get(namespace, &above.name);
        let deployment = deployment.filter(|one| one.metadata.uid == above.uid && known.insert(above.uid.clone()));
        return Ok(deployment.map_or(0, |deployment| deployment.replicas()));
    }
    scale(env, namespace, owner).await
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scale {
    spec: ScaleSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: i32,
}

async fn scale(env: &Env, namespace: &str, owner: &OwnerReference) -> Result<i32, Unknown> {
    let (group, version) = split_api_version(&owner.api_version);
    let unscalable = || Unknown::Why(format!("{}.{group} does not implement the scale subresource", owner.kind));
    let kind = env.informers.kind_of(group, version, &owner.kind).ok_or_else(unscalable)?;
    // Of a custom resource only the server knows it.
    let built_in = kinds::by_kind(group, version, &owner.kind).is_some();
    if built_in && kind.subresource("scale").is_none() {
        return Err(unscalable());
    }
    let path = format!("{}/scale", kind.path(namespace, &owner.name));
    match env.client.get_path::<Scale>(&path).await {
        Ok(scale) => Ok(scale.spec.replicas),
        Err(error) if error.is_not_found() && built_in => Ok(0),
        Err(error) if error.is_not_found() => Err(unscalable()),
        Err(error) => Err(Unknown::Asking(error)),
    }
}
