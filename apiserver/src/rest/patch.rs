//! Patch: JSON, merge, strategic and server-side apply over the one read-change-write path. Decides which patch a content type is
//! and what a patch that does not fit answers.

use super::call::Call;
use super::create::create;
use super::decode::check_kind;
use super::ownership;
use super::report::report;
use super::stored::Written;
use super::update::update;
use crate::http::Outcome;
use crate::http::negotiate::{self, Input};
use crate::kinds::value::object_mut;
use bytes::Bytes;
use gantry_apimachinery::patch::{json, merge, strategic};
use gantry_apimachinery::schema::Type;
use gantry_apimachinery::schema::decode;
use gantry_apimachinery::schema::decode::Decoded;
use gantry_apimachinery::status::{Reason, Status};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A decoded patch, ready to be applied to any version of the object.
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    pub fn read(input: Input, body: &Bytes) -> Outcome<Self> {
        let value = || decode::untyped(body).map_err(|error| Box::new(Status::bad_request(error.to_string())));
        Ok(match input {
            Input::JsonPatch => Self::Json(value()?),
            Input::MergePatch => Self::Merge(value()?),
            Input::StrategicPatch => Self::Strategic(value()?),
            _ => return Err(negotiate::not_taken(true, false).into()),
        })
    }

    /// Whether it is a strategic patch of nothing but the status; where it names a uid, of the object with this one.
    pub fn says_status_alone(&self, uid: &str) -> bool {
        let Self::Strategic(Value::Object(patch)) = self else { return false };
        patch.get("status").is_some_and(Value::is_object)
            && patch.iter().all(|(part, said)| match (part.as_str(), said) {
                ("status", _) => true,
                ("metadata", Value::Object(said)) => said.iter().all(|(field, said)| field == "uid" && said == uid),
                _ => false,
            })
    }

    /// The patched object. `ty` is the object's type.
    pub fn apply(&self, mut new: Value, ty: Type<'_>) -> Outcome<Value> {
        match self {
            Self::Json(operations) => json::apply(&mut new, operations).map_err(|error| {
                let reason = match error {
                    json::JsonPatchError::DoesNotApply { .. } | json::JsonPatchError::TooDeep { .. } => Reason::Invalid,
                    json::JsonPatchError::TooManyOperations(_) => Reason::RequestEntityTooLarge,
                    _ => Reason::BadRequest,
                };
                Status::failure(reason, error.to_string(), None)
            })?,
            Self::Merge(patch) if !patch.is_object() => {
                return Err(Status::bad_request("a merge patch is an object").into());
            }
            Self::Merge(patch) => merge::apply(&mut new, patch),
            Self::Strategic(patch) => {
                new = strategic::patched(new, patch, ty).map_err(|error| Status::bad_request(error.to_string()))?;
            }
        }
        if !new.is_object() {
            return Err(Status::bad_request("the patch left no object").into());
        }
        Ok(new)
    }
}

pub async fn patch(call: &Call<'_>, input: Input, body: &Bytes) -> Outcome<Written> {
    if input == Input::ApplyYaml {
        return apply(call, body).await;
    }
    if call.options.force {
        return Err(Status::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        )
        .into());
    }
    let patch = Patch::read(input, body)?;
    if matches!(patch, Patch::Strategic(_)) && call.served.as_custom().is_some() {
        return Err(negotiate::not_taken(true, true).into());
    }
    if let Some(written) = report(call, &patch).await {
        return Ok(written);
    }
    update(call, &|old| {
        let seen = match call.served.conversion {
            None => Cow::Borrowed(old),
            Some(_) => Cow::Owned(call.served.to_wire(old.clone())),
        };
        let new = patch.apply(seen.clone().into_owned(), call.wire_type())?;
        typed(call, new, &seen)
    })
    .await
}

/// The schema's checks on what a patch made of `old`. A patch may not change what kind the object is, nor leave that out.
pub(super) fn typed(call: &Call<'_>, mut new: Value, old: &Value) -> Outcome<Value> {
    let kind = call.kind();
    check_kind(&mut new, kind.group, kind.version, kind.kind)?;
    call.warnings.lock().clear();
    let decoded = match call.served.as_custom() {
        Some(version) => version.pruned(Decoded { object: new, unknown: Vec::new(), duplicate: Vec::new() }),
        None => {
            // What the patch left alone was checked when it was written.
            let kept = take_unchanged(&mut new, old);
            let decoded = decode::from_value(new, call.wire_type());
            let mut decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
            object_mut(&mut decoded.object).extend(kept);
            decoded
        }
    };
    Ok(call.served.from_wire(call.settle(decoded)?))
}

/// The top-level parts that are in both.
fn take_unchanged(new: &mut Value, old: &Value) -> Map<String, Value> {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return Map::new() };
    let same = old.iter().filter(|(name, was)| new.get(*name) == Some(*was)).map(|(name, _)| name.clone());
    let same: Vec<String> = same.collect();
    same.into_iter().filter_map(|name| new.remove_entry(&name)).collect()
}

/// Server-side apply: creates the object when it is not there.
async fn apply(call: &Call<'_>, body: &Bytes) -> Outcome<Written> {
    let applied = call.decode_applied(body)?;
    if applied["metadata"].get("managedFields").is_some_and(|fields| fields.as_array().is_some_and(|f| !f.is_empty())) {
        return Err(Status::bad_request("metadata.managedFields must be nil").into());
    }
    let outcome = update(call, &|old| ownership::apply(call, Some(old), &applied)).await;
    match outcome {
        Err(status) if status.code() == 404 && call.subresource.is_none() => {
            let uid = applied["metadata"]["uid"].as_str().unwrap_or("");
            if !uid.is_empty() {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Status::conflict_because(&call.kind().resource(), call.name, &why).into());
            }
            match create(call, ownership::apply(call, None, &applied)?).await {
                // Someone made it meanwhile: apply to theirs.
                Err(status) if status.reason == Reason::AlreadyExists => {
                    update(call, &|old| ownership::apply(call, Some(old), &applied)).await
                }
                outcome => outcome,
            }
        }
        outcome => outcome,
    }
}
