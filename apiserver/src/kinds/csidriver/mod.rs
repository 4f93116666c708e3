//! What a CSIDriver means to the API: its defaults, its rules, what stays, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::persistentvolume::rules::driver_name;
use super::pod::validate::one_of;
use super::value::{at, bool_at, child, default, i64_at, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct CsiDriver;

const MIN_TOKEN_S: i64 = 600;
const MAX_TOKEN_S: i64 = 1 << 32;
const MIN_UPDATE_S: i64 = 10;
const MODES: &[&str] = &["Ephemeral", "Persistent"];

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column { kind: "boolean", ..Column::text("AttachRequired", "Whether volumes are attached before they are mounted.") },
    Column { kind: "boolean", ..Column::text("PodInfoOnMount", "Whether the driver is told of the pod.") },
    Column { kind: "boolean", ..Column::text("StorageCapacity", "Whether the driver tells how much room there is.") },
    Column::text("TokenRequests", "The audiences of the tokens that the driver gets.") ,
    Column { kind: "boolean", ..Column::text("RequiresRepublish", "Whether volumes are published again and again.") },
    Column::text("Modes", "The lives that its volumes may have."),
    Column::AGE,
];

impl Strategy for CsiDriver {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "attachRequired", true);
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            default(spec, field, false);
        }
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if items(spec, "volumeLifecycleModes").is_empty() {
            spec["volumeLifecycleModes"] = json!(["Persistent"]);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        driver_name(str_at(new, "metadata.name"), "metadata.name", errors);
        let spec = &new["spec"];
        one_of(spec, "fsGroupPolicy", "spec", &["File", "None", "ReadWriteOnceWithFSType"], errors);
        tokens(spec, errors);
        for mode in items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
            if !MODES.contains(&mode) {
                errors.not_supported("spec.volumeLifecycleModes", mode, MODES);
            }
        }
        const PERIOD: &str = "nodeAllocatableUpdatePeriodSeconds";
        if let Some(seconds) = i64_at(spec, PERIOD).filter(|seconds| *seconds < MIN_UPDATE_S) {
            let why = format!("must be greater than or equal to {MIN_UPDATE_S} seconds");
            errors.invalid(format!("spec.{PERIOD}"), seconds, why);
        }
        let Some(old) = old else { return };
        // The first path is misspelt in Kubernetes too; clients see it.
        for (field, path) in [("attachRequired", "spec.attachedRequired"), ("volumeLifecycleModes", "spec.volumeLifecycleModes")] {
            if spec[field] != old["spec"][field] {
                errors.immutable(path, spec[field].clone());
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let spec = &object["spec"];
        let joined = |list: Vec<&str>| list.join(",");
        let tokens: Vec<&str> = items(spec, "tokenRequests").iter().map(|token| str_at(token, "audience")).collect();
        let modes = items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
        vec![
            columns::name(object),
            at(spec, "attachRequired").is_none_or(|required| required == true).into(),
            bool_at(spec, "podInfoOnMount").into(),
            bool_at(spec, "storageCapacity").into(),
            if tokens.is_empty() { "<unset>".to_owned() } else { joined(tokens) }.into(),
            bool_at(spec, "requiresRepublish").into(),
            joined(modes).into(),
            columns::age(object, now),
        ]
    }
}

fn tokens(spec: &Value, errors: &mut FieldErrors) {
    let mut audiences = vec![];
    for (position, token) in items(spec, "tokenRequests").iter().enumerate() {
        let path = format!("spec.tokenRequests[{position}]");
        let audience = str_at(token, "audience");
        if audiences.contains(&audience) {
            errors.duplicate(format!("{path}.audience"), audience);
        }
        audiences.push(audience);
        let Some(seconds) = i64_at(token, "expirationSeconds") else { continue };
        if seconds < MIN_TOKEN_S {
            errors.invalid(format!("{path}.expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > MAX_TOKEN_S {
            let why = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(format!("{path}.expirationSeconds"), seconds, why);
        }
    }
    const SECRET: &str = "serviceAccountTokenInSecrets";
    if at(spec, SECRET).is_some() && audiences.is_empty() {
        let why = "serviceAccountTokenInSecrets can only be set when tokenRequests is specified";
        errors.invalid(format!("spec.{SECRET}"), spec[SECRET].clone(), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};

    fn driver(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"metadata": {"name": "d.example.com"}, "spec": {}});
        change(&mut object["spec"]);
        defaulted(&CsiDriver, &object)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&CsiDriver, &driver(change), None), expect);
        check(&|_| {}, "[]");
        check(
            &|spec| spec["fsGroupPolicy"] = json!("Some"),
            "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
        );
        check(
            &|spec| spec["tokenRequests"] = json!([{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}]),
            "[spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes, \
             spec.tokenRequests[1].audience: Duplicate value: \"a\"]",
        );
        check(
            &|spec| spec["volumeLifecycleModes"] = json!(["Forever"]),
            "spec.volumeLifecycleModes: Unsupported value: \"Forever\": supported values: \"Ephemeral\", \"Persistent\"",
        );
        let new = driver(|spec| spec["attachRequired"] = json!(false));
        let expect = "spec.attachedRequired: Invalid value: false: field is immutable";
        assert_eq!(errors(&CsiDriver, &new, Some(&driver(|_| {}))), expect);
    }

    #[test]
    fn the_row_is_kubectls() {
        assert_eq!(row(&CsiDriver, &driver(|_| {})), json!(["x", true, false, false, "<unset>", false, "Persistent", "5s"]));
    }
}
