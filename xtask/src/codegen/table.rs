//! Decides the text of the schema table (its format is described in `apimachinery/src/schema/table.rs`): one line per
//! type, one per field, sorted, so that a review of a new Kubernetes version is a readable diff.

use super::proto::{Field, Messages};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Definition names whose JSON form no schema can express; the engine knows them by a word.
const WORDS: [(&str, &str); 10] = [
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "intstr"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "microtime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "fields"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "raw"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "any"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "props|list"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "props|bool"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", "props|strings"),
];

/// Defaults that the published schemas leave out although a list map's keys need them.
const DEFAULTS: [(&str, &str, &str); 2] =
    [("core.v1.ContainerPort", "protocol", "TCP"), ("core.v1.ServicePort", "protocol", "TCP")];

/// Optional scalars that are pointers in Go, so that protobuf's zero says something: a field, and the types that it is
/// one in (by the end of their names; "" for all). The published schemas do not say.
const ZERO_MATTERS: [(&str, &str); 72] = [
    ("activeDeadlineSeconds", ""),
    ("allocateLoadBalancerNodePorts", ""),
    ("allowPrivilegeEscalation", ""),
    ("allowVolumeExpansion", ""),
    ("apiGroup", "ObjectReference"),
    ("attachRequired", ""),
    ("automountServiceAccountToken", ""),
    ("backoffLimit", ""),
    ("backoffLimitPerIndex", ""),
    ("blockOwnerDeletion", ""),
    ("collisionCount", ""),
    ("completions", "Spec"),
    ("controller", "OwnerReference"),
    ("defaultMode", ""),
    ("deletionGracePeriodSeconds", ""),
    ("enableServiceLinks", ""),
    ("expirationSeconds", ""),
    ("failedJobsHistoryLimit", ""),
    ("force", ""),
    ("fsGroup", ""),
    ("gracePeriodSeconds", ""),
    ("hostProcess", ""),
    ("hostUsers", ""),
    ("immutable", ""),
    ("leaseDurationSeconds", ""),
    ("leaseTransitions", ""),
    ("lendablePercent", ""),
    ("manualSelector", ""),
    ("maxFailedIndexes", ""),
    ("minReplicas", ""),
    ("mode", ""),
    ("nominalConcurrencyShares", ""),
    ("optional", ""),
    ("orphanDependents", ""),
    ("parallelism", "Spec"),
    ("partition", "RollingUpdateStatefulSetStrategy"),
    ("podInfoOnMount", ""),
    ("port", "EndpointPort"),
    ("port", "ServiceReference"),
    ("priority", "PodSpec"),
    ("privileged", ""),
    ("progressDeadlineSeconds", ""),
    ("readOnlyRootFilesystem", ""),
    ("ready", "EndpointConditions"),
    ("ready", "JobStatus"),
    ("replicas", "Spec"),
    ("requiresRepublish", ""),
    ("revisionHistoryLimit", ""),
    ("runAsGroup", ""),
    ("runAsNonRoot", ""),
    ("runAsUser", ""),
    ("seLinuxMount", ""),
    ("sendInitialEvents", ""),
    ("service", "GRPCAction"),
    ("serving", ""),
    ("setHostnameAsFQDN", ""),
    ("shareProcessNamespace", ""),
    ("stabilizationWindowSeconds", ""),
    ("started", ""),
    ("startingDeadlineSeconds", ""),
    ("storageCapacity", ""),
    ("storageClassName", ""),
    ("successfulJobsHistoryLimit", ""),
    ("suspend", ""),
    ("terminating", ""),
    ("terminatingReplicas", ""),
    ("terminationGracePeriodSeconds", ""),
    ("timeoutSeconds", "ClientIPConfig"),
    ("timeoutSeconds", "Webhook"),
    ("tolerationSeconds", ""),
    ("ttlSecondsAfterFinished", ""),
    ("type", "HostPathVolumeSource"),
];

/// Bodies that every group repeats under its own name; one entry is enough to find them.
const MANY_KINDS: usize = 3;

/// The prefixes that a table's reference may start with.
const SHORT: [(&str, &str); 2] = [("io.k8s.apimachinery.pkg.apis.", ""), ("io.k8s.api.", "")];

type Notes = Vec<String>;

pub fn write(definitions: &Value, messages: &Messages) -> Result<(String, Notes)> {
    let definitions = definitions["$defs"].as_object().context("no $defs")?;
    let mut out = String::from("# Kubernetes 1.35. Written by `cargo xtask codegen`; do not edit.\n");
    let mut notes = Notes::new();
    let sorted: BTreeMap<&String, &Value> = definitions.iter().collect();
    for (name, definition) in sorted {
        if WORDS.iter().any(|(n, _)| n == name) {
            continue;
        }
        write_type(&mut out, name, definition, messages, &mut notes)?;
    }
    Ok((out, notes))
}

fn write_type(out: &mut String, name: &str, def: &Value, messages: &Messages, notes: &mut Notes) -> Result<()> {
    write!(out, "T {}", short(name))?;
    let kinds = def["x-kubernetes-group-version-kind"].as_array().map_or(&[][..], Vec::as_slice);
    let kinds = if kinds.len() > MANY_KINDS { &kinds[..1] } else { kinds };
    for gvk in kinds {
        let part = |key| gvk[key].as_str().unwrap_or_default();
        write!(out, " kind={}/{}/{}", part("group"), part("version"), part("kind"))?;
    }
    if def["x-kubernetes-map-type"] == "atomic" {
        out.push_str(" atomic");
    }
    out.push('\n');
    let fields: BTreeMap<&String, &Value> = def["properties"].as_object().into_iter().flatten().collect();
    let properties: Vec<String> = fields.keys().map(|f| proto_name(f)).collect();
    let numbers = numbers(name, &properties, messages);
    if numbers.is_none() {
        notes.push(format!("{name}: no protobuf message"));
    }
    let required: Vec<&str> = def["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (field, schema) in fields {
        write!(out, " {field} {}", type_of(schema)?)?;
        if required.contains(&field.as_str()) {
            out.push_str(" !");
        } else if ZERO_MATTERS.iter().any(|(f, owner)| f == field && name.ends_with(owner)) {
            out.push_str(" *");
        }
        write_rules(out, schema)?;
        for (_, _, default) in DEFAULTS.iter().filter(|(t, f, _)| *t == short(name) && f == field) {
            write!(out, " default={default}")?;
        }
        match numbers.as_ref().and_then(|n| n.get(&proto_name(field))) {
            Some(path) => write!(out, " #{path}")?,
            None if field == "apiVersion" || field == "kind" => {}
            None if numbers.is_some() => notes.push(format!("{name}.{field}: no field number")),
            None => {}
        }
        out.push('\n');
    }
    Ok(())
}

fn write_rules(out: &mut String, schema: &Value) -> Result<()> {
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => write!(out, " map={}", keys.join(","))?,
        Some(kind) => write!(out, " {kind}")?,
        None => {}
    }
    if schema["x-kubernetes-map-type"] == "atomic" {
        out.push_str(" atomic");
    }
    if let Some(strategy) = schema["x-kubernetes-patch-strategy"].as_str() {
        write!(out, " patch={strategy}")?;
    }
    if let Some(key) = schema["x-kubernetes-patch-merge-key"].as_str() {
        write!(out, " key={key}")?;
    }
    Ok(())
}

fn type_of(schema: &Value) -> Result<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(match WORDS.iter().find(|(n, _)| *n == name) {
            Some((_, word)) => (*word).to_string(),
            None => format!("@{}", short(name)),
        });
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    Ok(match (kind.context("neither type nor $ref")?, schema["format"].as_str()) {
        ("string", Some("byte")) => "bytes".into(),
        ("string", None) => "string".into(),
        ("boolean", None) => "bool".into(),
        ("integer", Some(format)) => format.into(),
        ("number", Some("double")) => "double".into(),
        ("array", None) => format!("[]{}", type_of(&schema["items"])?),
        ("object", None) => format!("{{}}{}", type_of(&schema["additionalProperties"])?),
        (kind, format) => anyhow::bail!("unknown type {kind} {format:?}"),
    })
}

/// Proto field name in lower case → number, or `outer.inner` for a field of an inlined struct: a message field that
/// the JSON form does not have is such a struct.
fn numbers(name: &str, properties: &[String], messages: &Messages) -> Option<BTreeMap<String, String>> {
    let mut numbers = BTreeMap::new();
    collect_numbers(messages.get(&message_name(name))?, "", properties, messages, &mut numbers);
    Some(numbers)
}

fn collect_numbers(
    message: &[Field],
    prefix: &str,
    properties: &[String],
    messages: &Messages,
    numbers: &mut BTreeMap<String, String>,
) {
    for Field { name, ty, number } in message {
        let (name, path) = (name.to_lowercase(), format!("{prefix}{number}"));
        if properties.contains(&name) {
            numbers.insert(name, path);
        } else if let Some(inner) = messages.get(ty) {
            collect_numbers(inner, &format!("{path}."), properties, messages, numbers);
        }
    }
}

/// Proto names differ from JSON's by `$` and dashes, and now and then by case.
fn proto_name(field: &str) -> String {
    field.replace(['$', '-'], "").to_lowercase()
}

fn message_name(definition: &str) -> String {
    definition
        .trim_start_matches("io.k8s.")
        .replace("apiextensions-apiserver.", "apiextensions_apiserver.")
        .replace("kube-aggregator.", "kube_aggregator.")
}

fn short(name: &str) -> String {
    for (long, short) in SHORT {
        if let Some(rest) = name.strip_prefix(long) {
            return format!("{short}{rest}");
        }
    }
    name.to_string()
}
