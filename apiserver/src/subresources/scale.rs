//! `autoscaling/v1 Scale` of workloads. Decides how a workload reads as a Scale and what a written Scale changes: replicas alone.

use crate::http::Outcome;
use crate::http::negotiate::Input;
use crate::kinds::value::{i64_at, object_mut, str_at};
use crate::rest::call::Call;
use crate::rest::decode::{decode, schema_type};
use crate::rest::patch::Patch;
use crate::rest::stored::{Stored, Written};
use crate::rest::update::update;
use bytes::Bytes;
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::schema::decode::from_value;
use gantry_apimachinery::status::{FieldErrors, Status};
use serde_json::{Value, json};

/// Where replicas stand, dotted.
struct Paths<'a> {
    spec: &'a str,
    status: &'a str,
    /// A field with the selector as text; `None` for a workload, whose selector is an object.
    selector: Option<&'a str>,
}

const WORKLOAD: Paths<'static> = Paths { spec: "spec.replicas", status: "status.replicas", selector: None };

impl<'a> Paths<'a> {
    fn of(call: &'a Call<'_>) -> Self {
        match call.served.as_custom().and_then(|version| version.scale.as_ref()) {
            Some(scale) => Self {
                spec: &scale.spec,
                status: &scale.status,
                selector: Some(scale.selector.as_deref().unwrap_or("")),
            },
            None => WORKLOAD,
        }
    }
}

/// The Scale of an object that carries its resource version.
fn of(object: &Value, paths: &Paths<'_>) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let selector = match paths.selector {
        Some(path) => str_at(object, path).to_owned(),
        None => selector(object).map(|selector| selector.to_string()).unwrap_or_default(),
    };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": i64_at(object, paths.spec).unwrap_or(0)},
        "status": {"replicas": i64_at(object, paths.status).unwrap_or(0), "selector": selector},
    })
}

/// A ReplicationController's selector is a map of labels, every other one a `LabelSelector`.
fn selector(object: &Value) -> Option<Selector> {
    let selector = object["spec"].get("selector");
    if object["kind"] == "ReplicationController" {
        let labels = selector?.as_object()?.iter();
        let text = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
        return Some(Selector::from_map(&labels.map(text).collect()));
    }
    Selector::from_json(selector).ok()
}

pub async fn get(call: &Call<'_>) -> Outcome<Value> {
    let stored = call.served.open(call.live().await?.ok_or_else(|| call.not_found())?).await?;
    Ok(of(&stored.with_revision(), &Paths::of(call)))
}

pub async fn replace(call: &Call<'_>, input: Input, body: &Bytes) -> Outcome<Value> {
    let scale = call.settle(decode(input, body, "autoscaling", "v1", "Scale")?)?;
    let paths = Paths::of(call);
    answer(call, update(call, &|old| scaled(old, &scale, &paths)).await?, &paths).await
}

pub async fn patch(call: &Call<'_>, input: Input, body: &Bytes) -> Outcome<Value> {
    // An applied Scale is a merge of its two fields: nothing else can be owned through this door.
    let patch = match input {
        Input::ApplyYaml => Patch::read(Input::MergePatch, body)?,
        input => Patch::read(input, body)?,
    };
    let ty = schema_type("autoscaling", "v1", "Scale");
    let paths = Paths::of(call);
    let transform = |old: &Value| {
        let patched = patch.apply(of(old, &paths), ty)?;
        let checked = from_value(patched, ty).map_err(|error| Status::bad_request(error.to_string()))?;
        scaled(old, &checked.object, &paths)
    };
    answer(call, update(call, &transform).await?, &paths).await
}

fn scaled(old: &Value, scale: &Value, paths: &Paths<'_>) -> Outcome<Value> {
    let replicas = i64_at(scale, "spec.replicas").unwrap_or(0);
    if replicas < 0 {
        let mut errors = FieldErrors::new();
        errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("Scale.autoscaling", str_at(old, "metadata.name"), &errors).into());
    }
    let mut new = old.clone();
    *place(&mut new, paths.spec) = replicas.into();
    let version = str_at(scale, "metadata.resourceVersion");
    if version.is_empty() {
        new["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
    } else {
        new["metadata"]["resourceVersion"] = version.into();
    }
    Ok(new)
}

/// The value at a dotted path, made when absent.
fn place<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(object, |at, step| object_mut(at).entry(step).or_insert(Value::Null))
}

async fn answer(call: &Call<'_>, written: Written, paths: &Paths<'_>) -> Outcome<Value> {
    let stored = call.served.open(Stored::read(written.bytes, written.revision)?).await?;
    Ok(of(&stored.with_revision(), paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_selectors_are_read() {
        let check = |kind: &str, selector: Value| {
            let scale =
                of(&json!({"kind": kind, "metadata": {}, "spec": {"selector": selector, "replicas": 2}}), &WORKLOAD);
            assert_eq!((&scale["status"]["selector"], &scale["spec"]["replicas"]), (&json!("a=b"), &json!(2)));
        };
        check("ReplicationController", json!({"a": "b"}));
        check("StatefulSet", json!({"matchLabels": {"a": "b"}}));
    }
}
