//! What a ResourceQuota means to the API: which resources and scopes it may name, and what `kubectl get` shows. Who is held to it
//! is admission's.

mod scopes;

use super::columns::{self, Column};
use super::quantities::{self, NOT_WHOLE};
use super::value::at;
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct ResourceQuota;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    Column::AGE,
];
/// What is counted in whole objects.
const COUNTED: [&str; 10] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
    "resourceclaims",
];
const MEASURED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

impl Strategy for ResourceQuota {
    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            for field in ["hard", "used"] {
                amounts(&new["status"][field], &format!("status.{field}"), errors);
            }
            return;
        }
        let spec = &new["spec"];
        amounts(&spec["hard"], "spec.hard", errors);
        scopes::validate(spec, errors);
        if let Some(old) = old {
            scopes::stay(spec, &old["spec"], errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let (mut requests, mut limits) = (vec![], vec![]);
        // What is wished for counts for nothing until somebody counts.
        for (name, value) in at(object, "status.hard").and_then(Value::as_object).into_iter().flatten() {
            let used = at(object, "status.used").and_then(|used| used.get(name)).and_then(Value::as_str).unwrap_or("0");
            let text = format!("{name}: {used}/{}", value.as_str().unwrap_or_default());
            if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
        }
        vec![
            columns::name(object),
            requests.join(", ").into(),
            limits.join(", ").into(),
            columns::age(object, now),
        ]
    }
}

/// A resource that quotas know without a domain.
fn is_known(name: &str) -> bool {
    let huge = name.strip_prefix("requests.").unwrap_or(name);
    COUNTED.contains(&name) || MEASURED.contains(&name) || quantities::is_huge_pages(huge)
}

fn amounts(map: &Value, path: &str, errors: &mut FieldErrors) {
    for (name, value, amount) in quantities::entries(map) {
        let path = format!("{path}[{name}]");
        quantities::resource_name(name, &path, is_known, errors);
        quantities::not_negative(value, &path, errors);
        let whole = COUNTED.contains(&name) || name.starts_with("count/") || quantities::is_extended(name);
        if whole && !amount.is_integer() {
            errors.invalid(path, value.clone(), NOT_WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, errors_of, row};

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| assert_eq!(errors(&ResourceQuota, &json!({"spec": spec}), None), expect);
        check(
            json!({"hard": {"pods": "10", "requests.cpu": "1500m", "count/deployments.apps": "3", "requests.nvidia.com/gpu": "2",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "hugepages-2Mi": "4Mi"}}),
            "[]",
        );
        check(
            json!({"hard": {"bananas": "1"}}),
            "spec.hard[bananas]: Invalid value: \"bananas\": must be a standard resource type or fully qualified",
        );
        check(json!({"hard": {"pods": "-1"}}), "spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0");
        check(json!({"hard": {"pods": "500m"}}), "spec.hard[pods]: Invalid value: \"500m\": must be an integer");
        let status = json!({"status": {"used": {"pods": "-1"}}});
        let expect = "status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0";
        assert_eq!(errors_of(&ResourceQuota, &status, Some(&status), Some("status")), expect);
    }

    #[test]
    fn the_row_parts_requests_and_limits() {
        let object = json!({"spec": {}, "status": {"hard": {"limits.cpu": "4", "pods": "10", "requests.cpu": "2"}, "used": {"pods": "3"}}});
        assert_eq!(row(&ResourceQuota, &object), json!(["x", "pods: 3/10, requests.cpu: 0/2", "limits.cpu: 0/4", "5s"]));
    }
}
