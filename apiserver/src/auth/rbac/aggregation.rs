//! ClusterRoles that gather the rules of others by their labels. Decides what such a role's rules are; the loop writes them.
//!
//! It runs in the API server, where roles are read, and not among the controllers: an API server alone has complete roles, and no
//! component needs the right to escalate. Several servers come to the same rules and write them only where they differ.

use crate::bootstrap::{OwnWrites, identity};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::items;
use crate::rest::update::update;
use gantry_apimachinery::kinds::CLUSTER_ROLE;
use gantry_apimachinery::labels::Selector;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A ClusterRole as others may gather it.
pub struct Part<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub rules: &'a [Value],
}

/// The rules of an aggregating role out of all roles (in the order of their names); `None` for a role that gathers nothing.
pub fn gathered(role: &Value, all: &[Part<'_>]) -> Option<Vec<Value>> {
    let own = role["metadata"]["name"].as_str().unwrap_or("");
    let selectors = items(role, "aggregationRule.clusterRoleSelectors");
    if selectors.is_empty() {
        return None;
    }
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| Selector::from_json(Some(selector)).ok()) {
        for part in all.iter().filter(|part| part.name != own && selector.matches(part.labels)) {
            for rule in part.rules {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

/// Keeps the aggregating roles complete until cancelled.
pub async fn run(core: &Core, cancel: CancellationToken) {
    /// Before a failed write is tried again.
    const AGAIN_AFTER: Duration = Duration::from_secs(1);
    while !cancel.is_cancelled() {
        let changed = async {
            core.rbac.cluster_roles_changed.notified().await;
            while let Err(status) = settle(core).await {
                tracing::warn!(message = %status.message, "the rules of an aggregated ClusterRole are not written");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = changed => {}
        }
    }
}

/// Writes the rules of every aggregating role that does not have them. A role that gathers from another that gathers is settled
/// when that one's change comes back.
async fn settle(core: &Core) -> Outcome<()> {
    for (name, rules) in differing(core) {
        let user = identity();
        let at = OwnWrites { core, user: &user };
        let mut call = at.call(&CLUSTER_ROLE, "", &name);
        call.options.field_manager = "clusterrole-aggregation-controller".into();
        let transform = |old: &Value| {
            let mut new = old.clone();
            // Who took the aggregation away meanwhile gave the rules.
            if !items(old, "aggregationRule.clusterRoleSelectors").is_empty() {
                new["rules"] = rules.clone().into();
            }
            Ok(new)
        };
        match update(&call, &transform).await {
            Err(status) if status.code() == 404 => {}
            outcome => outcome.map(|_| ())?,
        }
    }
    Ok(())
}

/// The aggregating roles whose rules are not those that they gather, with these.
fn differing(core: &Core) -> Vec<(String, Vec<Value>)> {
    let tree = core.stored_kind(&CLUSTER_ROLE).resource.snapshot().tree;
    let values: Vec<Value> = tree.values().map(|object| object.value().unwrap_or_default()).collect();
    let parts: Vec<Part<'_>> = tree
        .values()
        .zip(&values)
        .map(|(object, value)| Part { name: &object.name, labels: &object.labels, rules: items(value, "rules") })
        .collect();
    let wanted = tree.values().zip(&values).filter_map(|(object, value)| {
        let rules = gathered(value, &parts)?;
        (items(value, "rules") != rules).then(|| (object.name.to_string(), rules))
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_role_gathers_what_its_selectors_find() {
        let labels = |text: &str| -> BTreeMap<String, String> {
            text.split_whitespace().map(|label| (label.to_owned(), "true".to_owned())).collect()
        };
        let (one, two, three) =
            ([json!({"verbs": ["get"]})], [json!({"verbs": ["list"]}), json!({"verbs": ["get"]})], []);
        let (a, b, ab) = (labels("a"), labels("b"), labels("a b"));
        let all = [
            Part { name: "1", labels: &a, rules: &one },
            Part { name: "2", labels: &ab, rules: &two },
            Part { name: "3", labels: &b, rules: &three },
        ];
        let check = |name: &str, selectors: Value, expect: Option<Value>| {
            let role = json!({"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": selectors}});
            assert_eq!(gathered(&role, &all).map(Value::from), expect, "{role}");
        };
        check("x", json!([{"matchLabels": {"a": "true"}}]), Some(json!([{"verbs": ["get"]}, {"verbs": ["list"]}])));
        check("x", json!([{"matchLabels": {"b": "true"}}]), Some(json!([{"verbs": ["list"]}, {"verbs": ["get"]}])));
        check("2", json!([{"matchLabels": {"a": "true"}}]), Some(json!([{"verbs": ["get"]}])));
        check("x", json!([{"matchLabels": {"c": "true"}}]), Some(json!([])));
        check("x", json!([]), None);
        assert_eq!(gathered(&json!({"rules": one}), &all), None);
    }
}
