//! Tells the authors of admission policies which of their expressions cannot be right.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::cel::Decl;
use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::split_api_version;
use gantry_apimachinery::schema::declare;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use types::ValidatingAdmissionPolicy;
use types::{Observed, Rule};

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::plan::Plan;

/// Kinds that one policy's expressions are checked against; Kubernetes' own bound.
const MOST_KINDS: usize = 10;

/// The loop's edge. Keys are policies.
pub struct PolicyStatus;

impl Controller for PolicyStatus {
    type Observed = Observed;
    const NAME: &'static str = "policy-status";
    const COMPONENT: &'static str = "validatingadmissionpolicy-status-controller";
    const WORKERS: usize = 1;

    fn new(_env: &Arc<Env>) -> Self {
        PolicyStatus
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.policies, |policy: &ValidatingAdmissionPolicy| vec![Key::of(policy)]);
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.policies.list().iter().map(|policy| Key::of(&**policy)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(policy) = env.informers.policies.get("", &key.name) else { return Ok(None) };
        let params = policy.spec.param_kind.as_ref().and_then(|params| {
            let (group, version) = split_api_version(&params.api_version);
            declare::of_kind(group, version, &params.kind)
        });
        let params = params.unwrap_or_else(|| Decl::dynamic().clone());
        let kinds = named(&policy.spec.match_constraints.resource_rules);
        Ok(Some(Observed { policy, kinds, params }))
    }

    fn reconcile(observed: &Observed, _: Timestamp) -> Plan {
        core::reconcile(observed)
    }
}

/// The built-in kinds that rules name without wildcards: of a custom resource the fields are not known here.
fn named(rules: &[Rule]) -> Vec<(String, Decl)> {
    let mut found = BTreeSet::new();
    for rule in rules {
        for group in &rule.api_groups {
            for version in &rule.api_versions {
                let kinds = rule.resources.iter().filter_map(|plural| kinds::by_resource(group, version, plural));
                found.extend(kinds.map(|kind| (kind.group, kind.version, kind.kind)));
            }
        }
    }
    let kinds = found.into_iter().take(MOST_KINDS);
    let declared = |(group, version, kind): (&str, &str, &str)| {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some((format!("{api_version}, Kind={kind}"), declare::of_kind(group, version, kind)?))
    };
    kinds.filter_map(declared).collect()
}
