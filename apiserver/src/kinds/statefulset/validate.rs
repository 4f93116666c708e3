//! Decides whether a StatefulSet is valid and what of it may change.

use crate::kinds::persistentvolumeclaim::rules as claim_rules;
use crate::kinds::pod::validate::{at_least, if_set_one_of, name};
use crate::kinds::pod::workload;
use crate::kinds::value::{at, i64_at, items, object_mut, remove, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::{Value, json};

const MUTABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const MUTABLE_FIELDS: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const RETENTION: &str = "spec.persistentVolumeClaimRetentionPolicy";
const ROLLING: &str = "spec.updateStrategy.rollingUpdate";

pub fn spec(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    match str_at(spec, "podManagementPolicy") {
        "" => errors.required("spec.podManagementPolicy"),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid("spec.podManagementPolicy", other, "must be 'OrderedReady' or 'Parallel'"),
    }
    strategy(spec, errors);
    for moment in ["whenDeleted", "whenScaled"] {
        if_set_one_of(&spec["persistentVolumeClaimRetentionPolicy"], moment, RETENTION, &["Retain", "Delete"], errors);
    }
    workload::replicated(spec, errors);
    at_least(&spec["ordinals"], "start", 0, "spec.ordinals", errors);
    if old.is_none() {
        name(spec, "serviceName", names::dns1123_label, "spec", errors);
    }
    workload::selector(spec, "statefulset", errors);
    template(spec, errors);
    if old.is_none_or(|old| old["volumeClaimTemplates"] != spec["volumeClaimTemplates"]) {
        for (position, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            claim_rules::template(claim, &format!("spec.volumeClaimTemplates[{position}]"), errors);
        }
    }
}

fn strategy(spec: &Value, errors: &mut FieldErrors) {
    let strategy = &spec["updateStrategy"];
    match str_at(strategy, "type") {
        "" => errors.required("spec.updateStrategy"),
        "OnDelete" => {
            if let Some(rolling) = at(strategy, "rollingUpdate") {
                errors.invalid(ROLLING, rolling.clone(), "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            at_least(rolling, "partition", 0, ROLLING, errors);
            if at(rolling, "maxUnavailable").is_some() {
                workload::int_or_percent(rolling, "maxUnavailable", ROLLING, errors);
                if workload::amount(&rolling["maxUnavailable"]) == 0 {
                    let value = rolling["maxUnavailable"].clone();
                    errors.invalid(format!("{ROLLING}.maxUnavailable"), value, "cannot be 0");
                }
                workload::at_most_all(rolling, "maxUnavailable", ROLLING, errors);
            }
        }
        _ => errors.invalid("spec.updateStrategy", strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// The template as its pods will be: with one volume for each claim.
fn template(spec: &Value, errors: &mut FieldErrors) {
    let mut template = spec["template"].clone();
    let claims = items(spec, "volumeClaimTemplates");
    if !claims.is_empty() {
        let named = |volume: &&Value| !claims.iter().any(|claim| claim["metadata"]["name"] == volume["name"]);
        let mut volumes: Vec<Value> = items(&template["spec"], "volumes").iter().filter(named).cloned().collect();
        for claim in claims {
            let name = str_at(claim, "metadata.name");
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
        object_mut(&mut template["spec"]).insert("volumes".to_owned(), volumes.into());
    }
    workload::template(&template, "StatefulSet", errors);
}

pub fn update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        MUTABLE_FIELDS.iter().for_each(|field| drop(remove(&mut spec, field)));
        spec
    };
    if fixed(new) != fixed(old) {
        errors.forbidden("spec", MUTABLE);
    }
}

pub fn status(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    const COUNTS: &[&str] = &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    workload::counts(new, COUNTS, errors);
    workload::at_most_replicas(
        &new["status"],
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        errors,
    );
    let count = |object: &Value, field: &str| i64_at(&object["status"], field).unwrap_or(0);
    let available = count(new, "availableReplicas");
    if available > count(new, "readyReplicas") {
        errors.invalid("status.availableReplicas", available, "cannot be greater than status.readyReplicas");
    }
    if old.is_some_and(|old| count(old, "collisionCount") > count(new, "collisionCount")) {
        errors.invalid("status.collisionCount", count(new, "collisionCount"), "cannot be decremented");
    }
}
