//! The working state of one look at a deployment: its sets with what is to change on them. Decides how changes become writes
//! (one conditional patch per set); never which changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use serde_json::json;

use super::revision;
use super::scaling::Share;
use super::types::Deployment;
use crate::objects::{Condition, ReplicaSet};
use crate::owner;
use crate::plan::{Plan, Write};

/// A set and its pending changes.
#[derive(Clone, Debug)]
pub struct Changed {
    pub set: Arc<ReplicaSet>,
    pub replicas: i32,
    pub annotations: BTreeMap<String, String>,
    pub min_ready_seconds: Option<i32>,
}

/// Where a set stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    New,
    Old(usize),
}

pub struct Rollout<'a> {
    pub deployment: &'a Deployment,
    /// The set whose template is the deployment's.
    pub new: Option<Changed>,
    /// The others, oldest first.
    pub old: Vec<Changed>,
    pub conditions: Vec<Condition>,
    pub collision_count: Option<i32>,
    pub plan: Plan,
    pub now: Timestamp,
}

impl<'a> Rollout<'a> {
    pub fn new(deployment: &'a Deployment, mut sets: Vec<Arc<ReplicaSet>>, now: Timestamp) -> Self {
        sets.sort_by(|a, b| a.created().cmp(&b.created()).then_with(|| a.metadata.name.cmp(&b.metadata.name)));
        let changed = |set: Arc<ReplicaSet>| Changed {
            replicas: set.replicas(),
            set,
            annotations: BTreeMap::new(),
            min_ready_seconds: None,
        };
        let new = sets.iter().position(|s| s.spec.template.means_the_same(&deployment.spec.template));
        let new = new.map(|index| changed(sets.remove(index)));
        Rollout {
            deployment,
            new,
            old: sets.into_iter().map(changed).collect(),
            conditions: deployment.status.conditions.clone(),
            collision_count: deployment.status.collision_count,
            plan: Plan::default(),
            now,
        }
    }

    /// Pods wished for by all sets.
    pub fn total(&self) -> i32 {
        self.old.iter().chain(&self.new).map(|s| s.replicas).sum()
    }

    pub fn scale_new(&mut self, replicas: i32) {
        self.scale_at(At::New, replicas);
    }

    pub fn scale_old(&mut self, index: usize, replicas: i32) {
        if self.old[index].replicas != replicas {
            self.scale_at(At::Old(index), replicas);
        }
    }

    /// Gives the set this size, and notes on it what it is a share of.
    pub fn scale_at(&mut self, at: At, replicas: i32) {
        let deployment = self.deployment;
        let Some(set) = self.at(at) else { return };
        set.replicas = replicas;
        for (key, value) in revision::shares(deployment) {
            if set.set.metadata.annotations.get(key) != Some(&value) {
                set.annotations.insert(key.to_owned(), value);
            }
        }
    }

    fn at(&mut self, at: At) -> Option<&mut Changed> {
        match at {
            At::New => self.new.as_mut(),
            At::Old(index) => self.old.get_mut(index),
        }
    }

    /// The only live set, or the newest when none is live; `None` when several are.
    pub fn active_or_latest(&self) -> Option<At> {
        let live: Vec<At> = self.positions().filter(|at| self.get(*at).replicas > 0).collect();
        match live.as_slice() {
            [] if self.new.is_some() => Some(At::New),
            [] => self.old.len().checked_sub(1).map(At::Old),
            [one] => Some(*one),
            _ => None,
        }
    }

    fn positions(&self) -> impl Iterator<Item = At> {
        self.new.iter().map(|_| At::New).chain((0..self.old.len()).map(At::Old))
    }

    fn get(&self, at: At) -> &Changed {
        match at {
            At::New => self.new.as_ref().expect("positions names the new set only when there is one"),
            At::Old(index) => &self.old[index],
        }
    }

    /// The live sets, largest first; of equals the newer one when growing, the older one when shrinking.
    pub fn by_size(&self) -> Vec<At> {
        let grows = self.deployment.replicas() + self.deployment.bounds().0 > self.total();
        let mut live: Vec<At> = self.positions().filter(|at| self.get(*at).replicas > 0).collect();
        live.sort_by(|a, b| {
            let (a, b) = (self.get(*a), self.get(*b));
            let age = a.set.created().cmp(&b.set.created());
            b.replicas.cmp(&a.replicas).then(if grows { age.reverse() } else { age })
        });
        live
    }

    pub fn share(&self, at: At) -> Share {
        let set = self.get(at);
        let noted = revision::number(&set.set, revision::MAX).and_then(|n| i32::try_from(n).ok());
        Share { replicas: set.replicas, base: noted.unwrap_or(self.deployment.status.replicas) }
    }

    /// Turns the pending changes into writes.
    pub fn emit(&mut self) {
        let on = owner::reference(&kinds::DEPLOYMENT, &self.deployment.metadata);
        let mut writes = Vec::new();
        for changed in self.new.iter().chain(&self.old) {
            let meta = &changed.set.metadata;
            let mut body = json!({});
            if !changed.annotations.is_empty() {
                body["metadata"]["annotations"] = json!(changed.annotations);
            }
            if let Some(seconds) = changed.min_ready_seconds {
                body["spec"]["minReadySeconds"] = json!(seconds);
            }
            let before = changed.set.replicas();
            if changed.replicas != before {
                body["spec"]["replicas"] = json!(changed.replicas);
            }
            if body.as_object().is_some_and(|b| b.is_empty()) {
                continue;
            }
            body["metadata"]["resourceVersion"] = json!(meta.resource_version);
            let mut write = Write::merge(&kinds::REPLICA_SET, &meta.namespace, &meta.name, body);
            if changed.replicas != before {
                let way = if changed.replicas > before { "up" } else { "down" };
                let text = format!("Scaled {way} replica set {} from {before} to {}", meta.name, changed.replicas);
                write = write.announced(&on, Some(("ScalingReplicaSet", &text)), None);
            }
            writes.push(write);
        }
        self.plan.push_all(writes);
    }
}
