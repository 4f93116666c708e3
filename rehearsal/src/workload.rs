//! Workloads as manifests: services, bursts of tasks, mixes of affinities, gangs. Decides which objects a profile and a seed stand for;
//! each object depends on the profile, the seed and its number alone.

mod manifest;
mod profile;

use crate::dice::Dice;
use serde_json::Value;
use std::collections::VecDeque;

pub use profile::{BUILT_IN, Form, Near, Part, Spread, WorkloadProfile};

/// The gang that a pod belongs to.
pub const LABEL_GROUP: &str = "gantry.dev/pod-group";
/// So many of a gang must be placed for any to be.
pub const LABEL_MIN_MEMBER: &str = "gantry.dev/min-member";
/// How long a hollow machine runs the pod's containers, such as `30s`.
pub const ANNOTATION_LIFETIME: &str = "gantry.dev/hollow-lifetime";
/// With which code they end then.
pub const ANNOTATION_EXIT_CODE: &str = "gantry.dev/hollow-exit-code";

/// The manifests of a workload of so many pods: Deployments and Jobs count with all their replicas.
pub fn generate(profile: &WorkloadProfile, seed: u64, pods: u64) -> Workload<'_> {
    Workload { profile, seed, left: pods, number: 0, waiting: VecDeque::new() }
}

/// See [`generate`].
#[derive(Debug)]
pub struct Workload<'a> {
    profile: &'a WorkloadProfile,
    seed: u64,
    /// Pods that are not in any manifest yet.
    left: u64,
    number: u64,
    /// The rest of the gang that was begun.
    waiting: VecDeque<Value>,
}

impl Iterator for Workload<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if let Some(manifest) = self.waiting.pop_front() {
            return Some(manifest);
        }
        if self.left == 0 {
            return None;
        }
        let mut dice = Dice::of(self.seed, &format!("object {}", self.number));
        let part = &self.profile.parts[dice.weighted(self.profile.parts.iter().map(|part| part.share))];
        let size = if part.form == Form::Pod { 1 } else { dice.between(part.replicas).min(self.left) };
        self.left -= size;
        let object = manifest::Object { profile: self.profile, part, seed: self.seed, number: self.number, size };
        self.number += 1;
        self.waiting.extend(object.manifests(&mut dice));
        self.waiting.pop_front()
    }
}

/// The pods that a manifest stands for.
pub fn pods_of(manifest: &Value) -> u64 {
    let spec = &manifest["spec"];
    match manifest["kind"].as_str() {
        Some("Deployment") => spec["replicas"].as_u64().unwrap_or(1),
        Some("Job") => spec["completions"].as_u64().unwrap_or(1),
        Some("Pod") => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
