//! Decides whether a pod's volumes are valid: names, one source each, and paths that stay inside.

use super::validate::{between, exactly_one, required, unique};
use crate::kinds::value::{at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

/// Every source that the API has.
pub const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "configMap",
    "secret",
    "downwardAPI",
    "projected",
    "persistentVolumeClaim",
    "ephemeral",
    "image",
    "csi",
    "nfs",
    "iscsi",
    "fc",
    "cephfs",
    "rbd",
    "glusterfs",
    "gitRepo",
    "flexVolume",
    "flocker",
    "cinder",
    "quobyte",
    "scaleIO",
    "storageos",
    "portworxVolume",
    "photonPersistentDisk",
    "vsphereVolume",
    "azureDisk",
    "azureFile",
    "awsElasticBlockStore",
    "gcePersistentDisk",
];
const PROJECTED: &[&str] =
    &["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
const HOST_PATH_TYPES: &[&str] =
    &["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const MODE_WHY: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MIN_TOKEN_SECONDS: i64 = 600;

/// Returns the names that mounts may use.
pub fn validate<'a>(spec: &'a Value, path: &str, errors: &mut FieldErrors) -> Vec<&'a str> {
    let mut seen = vec![];
    for (position, volume) in items(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{position}]");
        let name = str_at(volume, "name");
        if required(volume, "name", &path, errors)
            && let Err(why) = names::dns1123_label(name)
        {
            errors.invalid(format!("{path}.name"), name, why);
        }
        unique(&mut seen, name, &format!("{path}.name"), errors);
        exactly_one(volume, SOURCES, &path, "volume type", errors);
        source(volume, &path, errors);
    }
    seen
}

fn source(volume: &Value, path: &str, errors: &mut FieldErrors) {
    for (kind, name) in [("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")] {
        if let Some(source) = at(volume, kind) {
            required(source, name, &format!("{path}.{kind}"), errors);
        }
    }
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = at(volume, kind) {
            let path = format!("{path}.{kind}");
            mode(source, "defaultMode", &path, errors);
            entries(source, kind, &path, errors);
        }
    }
    for (position, source) in items(volume, "projected.sources").iter().enumerate() {
        projected(source, &format!("{path}.projected.sources[{position}]"), errors);
    }
    if let Some(host) = at(volume, "hostPath") {
        let path = format!("{path}.hostPath");
        if required(host, "path", &path, errors) && str_at(host, "path").split('/').any(|part| part == "..") {
            errors.invalid(format!("{path}.path"), str_at(host, "path"), "must not contain '..'");
        }
        super::validate::if_set_one_of(host, "type", &path, HOST_PATH_TYPES, errors);
    }
    let limit = str_at(volume, "emptyDir.sizeLimit");
    if limit.starts_with('-') {
        errors.forbidden(format!("{path}.emptyDir.sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn projected(source: &Value, path: &str, errors: &mut FieldErrors) {
    exactly_one(source, PROJECTED, path, "volume type", errors);
    for kind in ["secret", "configMap"] {
        if let Some(source) = at(source, kind) {
            required(source, "name", &format!("{path}.{kind}"), errors);
            entries(source, kind, &format!("{path}.{kind}"), errors);
        }
    }
    if let Some(source) = at(source, "downwardAPI") {
        entries(source, "downwardAPI", &format!("{path}.downwardAPI"), errors);
    }
    if let Some(token) = at(source, "serviceAccountToken") {
        let path = format!("{path}.serviceAccountToken");
        required(token, "path", &path, errors);
        if let Some(seconds) = token["expirationSeconds"].as_i64().filter(|seconds| *seconds < MIN_TOKEN_SECONDS) {
            let why = "may not specify a duration less than 10 minutes";
            errors.invalid(format!("{path}.expirationSeconds"), seconds, why);
        }
    }
}

/// The files that a source's items become.
fn entries(source: &Value, kind: &str, path: &str, errors: &mut FieldErrors) {
    for (position, item) in items(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{position}]");
        if kind != "downwardAPI" {
            required(item, "key", &path, errors);
        } else if at(item, "fieldRef").is_none() == at(item, "resourceFieldRef").is_none() {
            errors.required_because(path.as_str(), "one of fieldRef and resourceFieldRef is required");
        }
        if required(item, "path", &path, errors) {
            inner_path(str_at(item, "path"), &format!("{path}.path"), errors);
        }
        mode(item, "mode", &path, errors);
    }
}

fn mode(object: &Value, field: &str, path: &str, errors: &mut FieldErrors) {
    let mut wrong = FieldErrors::new();
    between(object, field, 0, 0o777, path, &mut wrong);
    if !wrong.is_empty() {
        errors.invalid(format!("{path}.{field}"), object[field].clone(), MODE_WHY);
    }
}

/// A path below a volume; the empty one is the volume itself.
pub fn inner_path(value: &str, path: &str, errors: &mut FieldErrors) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}
