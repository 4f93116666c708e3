//! Decides what a volume's absent fields mean, whether its spec is valid, and what of it may change.

use crate::kinds::persistentvolumeclaim::rules as claim_rules;
use crate::kinds::pod::scheduling::node_selector;
use crate::kinds::pod::validate::{if_set_one_of, name, required};
use crate::kinds::quantities;
use crate::kinds::value::{at, default, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::{Value, json};

/// Every source that the API has, with the fields that it means nothing without.
const SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("local", &["path"]),
    ("nfs", &["server", "path"]),
    ("csi", &["driver", "volumeHandle"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("fc", &[]),
    ("rbd", &["image"]),
    ("cephfs", &[]),
    ("glusterfs", &["endpoints", "path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("flocker", &[]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("quobyte", &["registry", "volume"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];
const CSI_SECRETS: [&str; 5] = [
    "controllerPublishSecretRef",
    "nodeStageSecretRef",
    "nodePublishSecretRef",
    "controllerExpandSecretRef",
    "nodeExpandSecretRef",
];

/// Idempotent; also for the spec inside a VolumeAttachment.
pub fn defaults(spec: &mut Value) {
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default(spec, "volumeMode", "Filesystem");
    let known = [
        ("hostPath", json!({"type": ""})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        ("azureDisk", json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false})),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
    ];
    for (source, fields) in known {
        let Some(source) = spec.get_mut(source).filter(|source| source.is_object()) else { continue };
        for (field, value) in fields.as_object().into_iter().flatten() {
            default(source, field, value.clone());
        }
    }
}

pub fn spec(spec: &Value, path: &str, errors: &mut FieldErrors) {
    if items(spec, "accessModes").is_empty() {
        errors.required(format!("{path}.accessModes"));
    }
    claim_rules::access_modes(spec, path, errors);
    capacity(spec, path, errors);
    if_set_one_of(spec, "persistentVolumeReclaimPolicy", path, &["Delete", "Recycle", "Retain"], errors);
    if let Some(affinity) = at(spec, "nodeAffinity") {
        let path = format!("{path}.nodeAffinity.required");
        match at(affinity, "required") {
            Some(selector) => node_selector(selector, &path, errors),
            None => errors.required_because(path, "must specify required node constraints"),
        }
    }
    source(spec, path, errors);
    let root = str_at(spec, "hostPath.path") == "/";
    if root && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let why = "may not be 'recycle' for a hostPath volume";
        errors.forbidden(format!("{path}.persistentVolumeReclaimPolicy"), why);
    }
    name(spec, "storageClassName", names::dns1123_subdomain, path, errors);
    if_set_one_of(spec, "volumeMode", path, &["Block", "Filesystem"], errors);
    if let Some(class) = at(spec, "volumeAttributesClassName") {
        if class == "" {
            let why = "an empty string is disallowed";
            errors.required_because(format!("{path}.volumeAttributesClassName"), why);
        }
        name(spec, "volumeAttributesClassName", names::dns1123_subdomain, path, errors);
        if at(spec, "csi").is_none() {
            let why = "has to be specified when using volumeAttributesClassName";
            errors.required_because(format!("{path}.csi"), why);
        }
    }
}

fn capacity(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let path = format!("{path}.capacity");
    let amounts = spec["capacity"].as_object().filter(|amounts| !amounts.is_empty());
    let Some(amounts) = amounts else { return errors.required(path) };
    if amounts.len() != 1 || !amounts.contains_key("storage") {
        errors.not_supported(path.as_str(), spec["capacity"].clone(), &["storage"]);
    }
    for (name, value) in amounts {
        let path = format!("{path}[{name}]");
        quantities::not_negative(value, &path, errors);
        quantities::positive(value, &path, errors);
    }
}

fn source(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let set: Vec<&(&str, &[&str])> = SOURCES.iter().filter(|(source, _)| at(spec, source).is_some()).collect();
    let Some(((kind, fields), more)) = set.split_first() else {
        return errors.required_because(path, "must specify a volume type");
    };
    for (other, _) in more {
        errors.forbidden(format!("{path}.{other}"), "may not specify more than 1 volume type");
    }
    let (source, path) = (&spec[*kind], format!("{path}.{kind}"));
    for field in *fields {
        required(source, field, &path, errors);
    }
    match *kind {
        "hostPath" | "local" if str_at(source, "path").split('/').any(|part| part == "..") => {
            errors.invalid(format!("{path}.path"), str_at(source, "path"), "must not contain '..'");
        }
        "nfs" if !str_at(source, "path").is_empty() && !str_at(source, "path").starts_with('/') => {
            errors.invalid(format!("{path}.path"), str_at(source, "path"), "must be an absolute path");
        }
        "csi" => csi(source, &path, errors),
        _ => {}
    }
    if *kind == "local" && at(spec, "nodeAffinity").is_none() {
        errors.required_because("metadata.annotations", "Local volume requires node affinity");
    }
}

fn csi(source: &Value, path: &str, errors: &mut FieldErrors) {
    driver_name(str_at(source, "driver"), &format!("{path}.driver"), errors);
    for secret in CSI_SECRETS {
        if let Some(reference) = at(source, secret) {
            let path = format!("{path}.{secret}");
            required(reference, "name", &path, errors);
            required(reference, "namespace", &path, errors);
        }
    }
}

/// A CSI driver's name; an empty one is for the caller to judge.
pub fn driver_name(driver: &str, path: &str, errors: &mut FieldErrors) {
    const MAX: usize = 63;
    if driver.len() > MAX {
        errors.too_long(path, MAX);
    }
    if let Some(Err(why)) = (!driver.is_empty()).then(|| names::dns1123_subdomain(&driver.to_lowercase())) {
        errors.invalid(path, driver, why);
    }
}

/// Where the data is stays; secrets that only an expansion needs may come later.
pub fn update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let place = |spec: &Value| -> Vec<Value> {
        let mut all: Vec<Value> = SOURCES.iter().map(|(source, _)| spec[*source].clone()).collect();
        for csi in all.iter_mut().filter(|source| source.get("volumeHandle").is_some()) {
            for (secret, before) in ["controllerExpandSecretRef", "nodeExpandSecretRef"].map(|s| (s, &old["csi"][s])) {
                if before.is_null() {
                    crate::kinds::value::remove(csi, secret);
                }
            }
        }
        all
    };
    if place(new) != place(old) {
        errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    for field in ["volumeMode", "nodeAffinity"] {
        let late = field == "nodeAffinity" && old[field].is_null();
        if new[field] != old[field] && !late {
            errors.immutable(format!("spec.{field}"), new[field].clone());
        }
    }
}
