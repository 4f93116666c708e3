//! Object metadata on the write path: the same rules for every kind. Decides names, identity, times, generation, finalizers and
//! what of metadata a client may set; never anything about spec or status.

use super::call::Call;
use crate::http::Outcome;
use crate::kinds::value::{at, items, object_mut, remove, str_at};
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::names;
use gantry_apimachinery::status::{FieldErrors, Status};
use serde_json::{Value, json};

/// Annotations of one object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Finalizers that need no domain in their names.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Only kinds of one's own may have finalizers without a domain.
fn is_built_in(kind: &Kind) -> bool {
    kinds::by_resource(kind.group, kind.version, kind.plural).is_some()
}

/// Namespace of the body against that of the path.
pub fn settle_namespace(object: &mut Value, call: &Call) -> Outcome<()> {
    let metadata = &mut object["metadata"];
    object_mut(metadata);
    let given = str_at(metadata, "namespace");
    if !call.kind().namespaced {
        if !given.is_empty() {
            remove(metadata, "namespace");
        }
        return Ok(());
    }
    if !given.is_empty() && given != call.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request (namespace: {given:?}, request: {:?})",
            call.namespace
        ))
        .into());
    }
    metadata["namespace"] = call.namespace.into();
    Ok(())
}

/// Identity of a new object. `name` is final here.
pub fn prepare_create(object: &mut Value, name: &str, call: &Call) -> Outcome<()> {
    let metadata = &mut object["metadata"];
    if !str_at(metadata, "resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created").into());
    }
    for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        remove(metadata, field);
    }
    if !call.options.apply {
        remove(metadata, "managedFields");
    }
    metadata["name"] = name.into();
    metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
    metadata["creationTimestamp"] = call.now.to_string().into();
    if call.served.has_generation {
        metadata["generation"] = 1.into();
    } else {
        remove(metadata, "generation");
    }
    Ok(())
}

/// What an update may not touch is taken from the old object; identity that differs is refused by the caller before.
pub fn prepare_update(new: &mut Value, old: &Value) {
    const KEPT: [&str; 8] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ];
    let metadata = &mut new["metadata"];
    object_mut(metadata);
    for field in KEPT {
        match old["metadata"].get(field) {
            Some(value) => metadata[field] = value.clone(),
            None => {
                remove(metadata, field);
            }
        }
    }
    remove(metadata, "resourceVersion");
    remove(metadata, "selfLink");
}

pub fn bump_generation(new: &mut Value) {
    let generation = new["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
    new["metadata"]["generation"] = generation.into();
}

/// Labels, annotations, finalizers, owners: one error per wrong field.
pub fn validate(new: &Value, old: Option<&Value>, kind: &Kind, errors: &mut FieldErrors) {
    let metadata = &new["metadata"];
    let name = str_at(metadata, "name");
    if old.is_none() {
        validate_name(name, kind, errors);
    }
    validate_labels(metadata, errors);
    validate_annotations(metadata, errors);
    for (at, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        let text = finalizer.as_str().unwrap_or("");
        if let Err(why) = names::qualified_name(text) {
            errors.invalid(format!("metadata.finalizers[{at}]"), text, why);
        } else if !text.contains('/') && !STANDARD_FINALIZERS.contains(&text) && is_built_in(kind) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(format!("metadata.finalizers[{at}]"), text, why);
        }
    }
    let collects = |name: &str| items(metadata, "finalizers").iter().any(|finalizer| finalizer == name);
    if collects("orphan") && collects("foregroundDeletion") {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid("metadata.finalizers", metadata["finalizers"].clone(), text);
    }
    if let Some(old) = old
        && at(old, "metadata.deletionTimestamp").is_some()
    {
        let before = items(old, "metadata.finalizers");
        let added: Vec<&str> =
            items(metadata, "finalizers").iter().filter(|f| !before.contains(f)).filter_map(Value::as_str).collect();
        if !added.is_empty() {
            errors.forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
                ),
            );
        }
    }
    validate_owners(metadata, errors);
}

fn validate_name(name: &str, kind: &Kind, errors: &mut FieldErrors) {
    let checked = match (kind.group, kind.plural) {
        ("", "namespaces") => names::dns1123_label(name),
        ("", "services") => names::dns1035_label(name),
        ("networking.k8s.io", "ipaddresses") => names::canonical_ip(name),
        // An APIService's name is its version and group, and the core group is empty; its strategy says more.
        ("rbac.authorization.k8s.io", _) | ("apiregistration.k8s.io", "apiservices") => names::path_segment(name),
        _ => names::dns1123_subdomain(name),
    };
    if let Err(why) = checked {
        errors.invalid("metadata.name", name, why);
    }
}

fn validate_labels(metadata: &Value, errors: &mut FieldErrors) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if let Err(why) = names::qualified_name(key) {
            errors.invalid("metadata.labels", key.as_str(), why);
        }
        let value = value.as_str().unwrap_or("");
        if let Err(why) = names::label_value(value) {
            errors.invalid("metadata.labels", value, why);
        }
    }
}

fn validate_annotations(metadata: &Value, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            errors.invalid("metadata.annotations", key.as_str(), why);
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long("metadata.annotations", MAX_ANNOTATIONS);
    }
}

fn validate_owners(metadata: &Value, errors: &mut FieldErrors) {
    let owners = items(metadata, "ownerReferences");
    let mut controllers = 0;
    for owner in owners {
        // Without the owner's index, as Kubernetes names these fields.
        for field in ["apiVersion", "kind", "name", "uid"] {
            if str_at(owner, field).is_empty() {
                let what = if field == "apiVersion" { "version " } else { "" };
                errors.invalid(format!("metadata.ownerReferences.{field}"), "", format!("{what}must not be empty"));
            }
        }
        if str_at(owner, "apiVersion") == "v1" && str_at(owner, "kind") == "Event" {
            let text = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid("metadata.ownerReferences", owner.clone(), text);
        }
        controllers += usize::from(owner["controller"] == json!(true));
    }
    if controllers > 1 {
        let text = "Only one reference can have Controller set to true";
        errors.invalid("metadata.ownerReferences", Value::from(owners.to_vec()), text);
    }
}

/// Removes what makes objects larger and says nothing: empty maps of labels, annotations, owners and finalizers.
pub fn tidy(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, value| match key.as_str() {
            "labels" | "annotations" => value.as_object().is_some_and(|map| !map.is_empty()),
            "finalizers" | "ownerReferences" | "managedFields" => value.as_array().is_some_and(|list| !list.is_empty()),
            "generateName" => value.as_str().is_some_and(|text| !text.is_empty()),
            _ => !value.is_null(),
        });
    }
}
