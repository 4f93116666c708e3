//! Decides whether the spec of a claim is valid, wherever it stands, and what of it may change.

use crate::kinds::pod::validate::{if_set_one_of, name, required};
use crate::kinds::quantities::{self, read};
use crate::kinds::selectors;
use crate::kinds::value::{at, items, object_mut, remove, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

pub const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const MUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const SIZE: &str = "/resources/requests/storage";
/// What older clients name the class with.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The modes are known ones, and the one for a single pod stands alone.
pub fn access_modes(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let modes = items(spec, "accessModes");
    let path = format!("{path}.accessModes");
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(path.as_str(), mode, ACCESS_MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// A claim inside another object.
pub fn template(claim: &Value, path: &str, errors: &mut FieldErrors) {
    spec(&claim["spec"], &format!("{path}.spec"), errors);
}

pub fn spec(spec: &Value, path: &str, errors: &mut FieldErrors) {
    if items(spec, "accessModes").is_empty() {
        errors.required_because(format!("{path}.accessModes"), "at least 1 access mode is required");
    }
    selectors::label_selector(&spec["selector"], &format!("{path}.selector"), errors);
    access_modes(spec, path, errors);
    let size = format!("{path}.resources[storage]");
    match spec.pointer(SIZE) {
        None | Some(Value::Null) => errors.required(size),
        Some(value) => {
            quantities::not_negative(value, &size, errors);
            quantities::positive(value, &size, errors);
        }
    }
    name(spec, "storageClassName", names::dns1123_subdomain, path, errors);
    if_set_one_of(spec, "volumeMode", path, &["Block", "Filesystem"], errors);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = at(spec, field) {
            data_source(source, &format!("{path}.{field}"), errors);
        }
    }
    if let (Some(source), Some(reference)) = (at(spec, "dataSource"), at(spec, "dataSourceRef"))
        && ["apiGroup", "kind", "name"].iter().any(|field| str_at(source, field) != str_at(reference, field))
    {
        errors.invalid(path, source.clone(), "must match dataSourceRef");
    }
    name(spec, "volumeAttributesClassName", names::dns1123_subdomain, path, errors);
}

fn data_source(source: &Value, path: &str, errors: &mut FieldErrors) {
    required(source, "name", path, errors);
    required(source, "kind", path, errors);
    let (group, kind) = (str_at(source, "apiGroup"), str_at(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    name(source, "apiGroup", names::dns1123_subdomain, path, errors);
}

/// What a claim's update may change: a volume is found for it, a class is named late, and a bound one may grow.
pub fn update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let (mut left, mut right) = (new["spec"].clone(), old["spec"].clone());
    let bound = new["status"]["phase"] == "Bound";
    let mut free = vec![];
    if str_at(old, "spec.volumeName").is_empty() {
        free.push("volumeName");
    }
    if at(old, "spec.storageClassName").is_none() && old["metadata"]["annotations"].get(CLASS_ANNOTATION).is_none() {
        free.push("storageClassName");
    }
    if bound {
        free.push("volumeAttributesClassName");
    }
    for spec in [&mut left, &mut right] {
        free.iter().for_each(|field| drop(remove(spec, field)));
        if bound && let Some(requests) = spec.pointer_mut("/resources/requests") {
            object_mut(requests).remove("storage");
        }
    }
    if left != right {
        errors.forbidden("spec", MUTABLE);
    }
    let size = |spec: &Value| spec.pointer(SIZE).and_then(read);
    let held = at(old, "status.capacity").and_then(|capacity| read(&capacity["storage"]));
    if let (Some(now), Some(before)) = (size(&new["spec"]), size(&old["spec"]))
        && now < before
        && held.is_some_and(|held| now <= held)
    {
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        errors.immutable("spec.volumeMode", new["spec"]["volumeMode"].clone());
    }
    let class = |claim: &Value| str_at(claim, "spec.volumeAttributesClassName").is_empty();
    if class(new) && !class(old) {
        let why = "update from non-nil value to an empty string is forbidden";
        errors.forbidden("spec.volumeAttributesClassName", why);
    }
}

/// The class that a claim or a volume names; empty without one.
pub fn class(object: &Value) -> &str {
    let annotated = object["metadata"]["annotations"].get(CLASS_ANNOTATION).and_then(Value::as_str);
    annotated.unwrap_or_else(|| str_at(object, "spec.storageClassName"))
}

/// `RWO,ROX`: access modes as `kubectl get` shows them.
pub fn short_modes(modes: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = modes.as_array().map_or(&[][..], Vec::as_slice);
    let short = SHORT.iter().filter(|(mode, _)| given.iter().any(|given| given == mode)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}
