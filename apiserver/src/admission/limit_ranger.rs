//! LimitRanger: what a namespace's LimitRanges give containers that say nothing, and what they refuse. Decides by container, by pod
//! and by volume claim; words are Kubernetes'.

use super::{Admission, Attributes, Operation};
use crate::cache::in_namespace;
use crate::gantry::room::{Amounts, amounts, of_containers};
use crate::http::Outcome;
use crate::kinds::value::{child, items, items_mut, str_at};
use gantry_apimachinery::kinds::{LIMIT_RANGE, PERSISTENT_VOLUME_CLAIM};
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::Status;
use serde_json::Value;

const NOTE: &str = "kubernetes.io/limit-ranger";

pub struct LimitRanger;

impl Admission for LimitRanger {
    fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value) -> Outcome<()> {
        if !attributes.creates_pod() {
            return Ok(());
        }
        let ranges = ranges(attributes);
        if !ranges.is_empty() {
            // A limit without a request is its request: that comes before what the namespace gives.
            attributes.call.served.strategy().defaults(pod);
        }
        ranges.iter().for_each(|range| fill(range, pod));
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let call = attributes.call;
        let claim = call.kind() == &PERSISTENT_VOLUME_CLAIM
            && call.subresource.is_none()
            && attributes.operation != Operation::Delete;
        let resized = call.subresource == Some("resize") && call.kind().plural == "pods";
        if !attributes.creates_pod() && !claim && !resized {
            return Ok(());
        }
        let mut problems = Vec::new();
        for range in ranges(attributes) {
            for limit in items(&range, "spec.limits") {
                match (str_at(limit, "type"), claim) {
                    ("Container", false) => {
                        let containers =
                            ["containers", "initContainers"].iter().flat_map(|list| items(&object["spec"], list));
                        for container in containers {
                            let resources = &container["resources"];
                            check(
                                limit,
                                "Container",
                                &amounts(&resources["requests"]),
                                &amounts(&resources["limits"]),
                                &mut problems,
                            );
                        }
                    }
                    ("Pod", false) => {
                        let spec = &object["spec"];
                        check(
                            limit,
                            "Pod",
                            &of_containers(spec, "requests"),
                            &of_containers(spec, "limits"),
                            &mut problems,
                        );
                    }
                    ("PersistentVolumeClaim", true) => {
                        check_claim(limit, &amounts(&object["spec"]["resources"]["requests"]), &mut problems)
                    }
                    _ => {}
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let why = if let [one] = &problems[..] { one.clone() } else { format!("[{}]", problems.join(", ")) };
        Err(Status::forbidden(&call.kind().resource(), attributes.name, &why).into())
    }
}

fn ranges(attributes: &Attributes<'_>) -> Vec<Value> {
    let call = attributes.call;
    let all = &call.core.stored_kind(&LIMIT_RANGE).resource;
    if all.is_empty() {
        return Vec::new();
    }
    all.snapshot().tree.range(in_namespace(call.namespace)).filter_map(|(_, object)| object.value().ok()).collect()
}

/// Gives every container the requests and limits that it does not name, and notes on the pod which those were.
fn fill(range: &Value, pod: &mut Value) {
    let Some(limit) = items(range, "spec.limits").iter().find(|limit| limit["type"] == "Container") else { return };
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(&mut pod["spec"], list) {
            let name = str_at(container, "name").to_owned();
            let resources = child(container, "resources");
            let mut given = |kind: &str, word: &str, from: &Value| {
                let missing: Vec<(String, Value)> = from
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(resource, _)| resources[kind].get(resource.as_str()).is_none())
                    .map(|(resource, amount)| (resource.clone(), amount.clone()))
                    .collect();
                if missing.is_empty() {
                    return;
                }
                let names: Vec<&str> = missing.iter().map(|(resource, _)| resource.as_str()).collect();
                notes.push(format!("{} {word} for {what} {name}", names.join(", ")));
                let target = child(resources, kind);
                for (resource, amount) in missing {
                    target[resource] = amount;
                }
            };
            given("requests", "request", &limit["defaultRequest"]);
            given("limits", "limit", &limit["default"]);
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        child(child(pod, "metadata"), "annotations")[NOTE] = note.into();
    }
}

fn check(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts, problems: &mut Vec<String>) {
    let usage = |which: &str, name: &str, bound: &Quantity| format!("{which} {name} usage per {kind} is {bound}");
    for (name, bound) in &amounts(&limit["min"]) {
        let says = usage("minimum", name, bound);
        match (requests.get(name), limits.get(name)) {
            (None, _) => problems.push(format!("{says}.  No request is specified")),
            (Some(request), _) if request < bound => problems.push(format!("{says}, but request is {request}")),
            (_, Some(limit)) if limit < bound => problems.push(format!("{says}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(&limit["max"]) {
        let says = usage("maximum", name, bound);
        match (limits.get(name), requests.get(name)) {
            (None, _) => problems.push(format!("{says}.  No limit is specified")),
            (Some(limit), _) if limit > bound => problems.push(format!("{says}, but limit is {limit}")),
            (_, Some(request)) if request > bound => problems.push(format!("{says}, but request is {request}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(&limit["maxLimitRequestRatio"]) {
        let says = format!("{name} max limit to request ratio per {kind} is {bound}");
        let (request, limit) =
            (requests.get(name).map_or(0, Quantity::milli), limits.get(name).map_or(0, Quantity::milli));
        if request == 0 {
            problems.push(format!("{says}, but no request is specified or request is 0"));
        } else if limit == 0 {
            problems.push(format!("{says}, but no limit is specified or limit is 0"));
        } else {
            let ratio = limit as f64 / request as f64;
            if ratio * 1_000.0 > bound.milli() as f64 {
                problems.push(format!("{says}, but provided ratio is {ratio:.6}"));
            }
        }
    }
}

fn check_claim(limit: &Value, requests: &Amounts, problems: &mut Vec<String>) {
    let kind = "PersistentVolumeClaim";
    for (name, bound) in &amounts(&limit["min"]) {
        let says = format!("minimum {name} usage per {kind} is {bound}");
        match requests.get(name) {
            None => problems.push(format!("{says}.  No request is specified")),
            Some(request) if request < bound => problems.push(format!("{says}, but request is {request}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(&limit["max"]) {
        let says = format!("maximum {name} usage per {kind} is {bound}");
        match requests.get(name) {
            None => problems.push(format!("{says}.  No request is specified")),
            Some(request) if request > bound => problems.push(format!("{says}, but request is {request}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_given_and_noted() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "200m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}]}});
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "2Gi"}}}]}});
        fill(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"memory": "2Gi", "cpu": "200m"}, "requests": {"cpu": "100m"}})
        );
        let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
        assert_eq!(pod["metadata"]["annotations"][NOTE], note);
    }

    #[test]
    fn bounds_are_worded_as_kubernetes_words_them() {
        let says = |limit: Value, requests: Value, limits: Value, expect: &[&str]| {
            let mut problems = Vec::new();
            check(&limit, "Container", &amounts(&requests), &amounts(&limits), &mut problems);
            assert_eq!(problems, expect);
        };
        let min = json!({"min": {"cpu": "50m"}});
        says(
            min.clone(),
            json!({"cpu": "20m"}),
            json!({}),
            &["minimum cpu usage per Container is 50m, but request is 20m"],
        );
        says(min.clone(), json!({}), json!({}), &["minimum cpu usage per Container is 50m.  No request is specified"]);
        says(min, json!({"cpu": "50m"}), json!({}), &[]);
        let max = json!({"max": {"memory": "1Gi"}});
        says(
            max.clone(),
            json!({}),
            json!({"memory": "2Gi"}),
            &["maximum memory usage per Container is 1Gi, but limit is 2Gi"],
        );
        says(max, json!({}), json!({}), &["maximum memory usage per Container is 1Gi.  No limit is specified"]);
        let ratio = json!({"maxLimitRequestRatio": {"cpu": "2"}});
        says(
            ratio,
            json!({"cpu": "100m"}),
            json!({"cpu": "300m"}),
            &["cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"],
        );
    }
}
