//! Nobody grants more than they hold. Decides whether a write of a role or a binding would; what a role allows once it is there is
//! decided by the authoriser.
//!
//! A part of the write path and not of admission: the role that a binding names may be younger than the cache.

use super::cover::escalation;
use super::rule::{Rule, rules_of};
use crate::auth::authz::Attributes;
use crate::http::Outcome;
use crate::kinds::rbac::GROUP;
use crate::kinds::value::{items, object_mut, str_at};
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{CLUSTER_ROLE, ROLE};
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// Checks a role or binding that is about to be written; anything else passes.
pub async fn check(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Outcome<()> {
    let kind = call.kind();
    if kind.group != GROUP || call.user.in_group("system:masters") || old.is_some_and(|old| collects_only(new, old)) {
        return Ok(());
    }
    match kind.plural {
        "roles" | "clusterroles" => role(call, new, old).await,
        _ => binding(call, new).await,
    }
}

async fn role(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Outcome<()> {
    let what = Attributes { verb: "escalate", resource: call.kind().plural, name: call.name, ..in_rbac(call) };
    if allowed(call, &what).await {
        return Ok(());
    }
    let name = str_at(new, "metadata.name");
    granted(call, name, &rules_of(new))?;
    let aggregates = |role: &Value| !items(role, "aggregationRule.clusterRoleSelectors").is_empty();
    // It gathers whatever will be labelled, so only those who may do everything set or lift it.
    if aggregates(new) || old.is_some_and(aggregates) {
        let held = call.core.rbac.held(call.user, call.namespace);
        if escalation(call.user, &held.rules, &held.missing, &everything()).is_some() {
            let why = "must have cluster-admin privileges to use an aggregationRule";
            return Err(Status::forbidden(&call.kind().resource(), name, why).into());
        }
    }
    Ok(())
}

async fn binding(call: &Call<'_>, new: &Value) -> Outcome<()> {
    let (resource, kind) = match str_at(new, "roleRef.kind") {
        "ClusterRole" => ("clusterroles", &CLUSTER_ROLE),
        "Role" if call.kind().namespaced => ("roles", &ROLE),
        // Validation refuses it.
        _ => return Ok(()),
    };
    let role = str_at(new, "roleRef.name");
    let what = Attributes { verb: "bind", resource, name: role, ..in_rbac(call) };
    if allowed(call, &what).await {
        return Ok(());
    }
    let found = call.core.latest(kind, call.namespace, role, false).await?;
    let found = found.ok_or_else(|| Status::not_found(&kind.resource(), role))?;
    granted(call, str_at(new, "metadata.name"), &rules_of(&found.value))
}

fn in_rbac<'a>(call: &Call<'a>) -> Attributes<'a> {
    Attributes { group: GROUP, namespace: call.namespace, ..Attributes::default() }
}

async fn allowed(call: &Call<'_>, what: &Attributes<'_>) -> bool {
    call.core.authorize(call.user, what).await.is_allowed()
}

/// Refuses rules that the writer does not hold.
fn granted(call: &Call<'_>, name: &str, rules: &[Rule]) -> Outcome<()> {
    let held = call.core.rbac.held(call.user, call.namespace);
    match escalation(call.user, &held.rules, &held.missing, rules) {
        None => Ok(()),
        Some(why) => Err(Status::forbidden(&call.kind().resource(), name, &why).into()),
    }
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), urls: all(), ..Rule::default() },
    ]
}

/// Whether a write changes only what the garbage collector changes of an object: who owns it and who holds it.
fn collects_only(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = object_mut(&mut object["metadata"]);
        metadata.retain(|field, value| {
            let collected =
                ["ownerReferences", "finalizers", "managedFields", "resourceVersion"].contains(&field.as_str());
            !collected && !value.is_null()
        });
        object
    };
    rest(new) == rest(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn owners_and_finalizers_grant_nothing() {
        let check = |new: Value, expect: bool| {
            let old = json!({"metadata": {"name": "a", "finalizers": ["x"]}, "rules": [1]});
            assert_eq!(collects_only(&new, &old), expect, "{new}");
        };
        check(json!({"metadata": {"name": "a", "ownerReferences": [], "resourceVersion": "7"}, "rules": [1]}), true);
        check(json!({"metadata": {"name": "a", "labels": {}}, "rules": [1]}), false);
        check(json!({"metadata": {"name": "a"}, "rules": [2]}), false);
    }
}
