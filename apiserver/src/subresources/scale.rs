//! `autoscaling/v1 Scale` of workloads. Decides how a workload reads as a Scale and what a written Scale changes: replicas alone.

use crate::http::Outcome;
use crate::http::negotiate::Input;
use crate::kinds::value::{i64_at, str_at};
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

/// The Scale of an object that carries its resource version.
pub fn of(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let selector =
        Selector::from_json(object["spec"].get("selector")).map(|selector| selector.to_string()).unwrap_or_default();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": i64_at(object, "spec.replicas").unwrap_or(0)},
        "status": {"replicas": i64_at(object, "status.replicas").unwrap_or(0), "selector": selector},
    })
}

pub async fn get(call: &Call<'_>) -> Outcome<Value> {
    let stored = call.core.live(call.kind(), call.namespace, call.name).await?.ok_or_else(|| call.not_found())?;
    Ok(of(&stored.with_revision()))
}

pub async fn replace(call: &Call<'_>, input: Input, body: &Bytes) -> Outcome<Value> {
    let scale = call.settle(decode(input, body, "autoscaling", "v1", "Scale")?)?;
    answer(update(call, &|old| scaled(old, &scale)).await?)
}

pub async fn patch(call: &Call<'_>, input: Input, body: &Bytes) -> Outcome<Value> {
    // An applied Scale is a merge of its two fields: nothing else can be owned through this door.
    let patch = match input {
        Input::ApplyYaml => Patch::read(Input::MergePatch, body)?,
        input => Patch::read(input, body)?,
    };
    let ty = schema_type("autoscaling", "v1", "Scale");
    let transform = |old: &Value| {
        let patched = patch.apply(&of(old), ty)?;
        let checked = from_value(patched, ty).map_err(|error| Status::bad_request(error.to_string()))?;
        scaled(old, &checked.object)
    };
    answer(update(call, &transform).await?)
}

fn scaled(old: &Value, scale: &Value) -> Outcome<Value> {
    let replicas = i64_at(scale, "spec.replicas").unwrap_or(0);
    if replicas < 0 {
        let mut errors = FieldErrors::new();
        errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("Scale.autoscaling", str_at(old, "metadata.name"), &errors).into());
    }
    let mut new = old.clone();
    new["spec"]["replicas"] = replicas.into();
    let version = str_at(scale, "metadata.resourceVersion");
    if version.is_empty() {
        new["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
    } else {
        new["metadata"]["resourceVersion"] = version.into();
    }
    Ok(new)
}

fn answer(written: Written) -> Outcome<Value> {
    Ok(of(&Stored::read(written.bytes, written.revision)?.with_revision()))
}
