//! Decides what a pod's and a pod template's absent fields mean, as Kubernetes 1.35 fills them in. Idempotent: filling in
//! twice changes nothing, so that templates can be compared.

use crate::kinds::value::{child, default, items_mut, str_at};
use serde_json::{Value, json};

/// A pod: everything a template gets, and what Kubernetes gives to pods only.
pub fn pod(pod: &mut Value) {
    let spec = child(pod, "spec");
    for list in ["containers", "initContainers"] {
        items_mut(spec, list).iter_mut().for_each(|container| requests_from_limits(&mut container["resources"]));
    }
    if spec.get("resources").is_some() {
        requests_from_limits(&mut spec["resources"]);
    }
    default(spec, "enableServiceLinks", true);
    self::spec(spec);
}

/// The spec of a template.
pub fn template(object: &mut Value) {
    let template = child(child(object, "spec"), "template");
    spec(child(template, "spec"));
}

/// What both have in common.
pub fn spec(spec: &mut Value) {
    default(spec, "restartPolicy", "Always");
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    alias(spec, "serviceAccountName", "serviceAccount");
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items_mut(spec, list) {
            self::container(container);
            if host_network {
                items_mut(container, "ports").iter_mut().for_each(|port| {
                    let container_port = port["containerPort"].clone();
                    default(port, "hostPort", container_port);
                });
            }
        }
    }
    items_mut(spec, "volumes").iter_mut().for_each(volume);
}

/// `old` is the former name of `new`; each takes the other's value, and the newer one wins.
fn alias(spec: &mut Value, new: &str, old: &str) {
    if let Some(value) = [new, old].iter().find_map(|key| spec.get(*key).filter(|v| !v.is_null())).cloned() {
        spec[new] = value.clone();
        spec[old] = value;
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    for (name, limit) in limits {
        default(child(resources, "requests"), &name, limit);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(str_at(container, "image"));
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    for port in items_mut(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(field, "apiVersion", "v1");
        }
        if let Some(resource) = variable.pointer_mut("/valueFrom/resourceFieldRef") {
            default(resource, "divisor", "0");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            self::probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            handler_defaults(handler);
        }
    }
}

/// Without a digest, `latest` (also when unsaid) may mean something new each time.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or(image);
    let moving = !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if moving { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    handler_defaults(probe);
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        default(grpc, "service", "");
    }
}

fn handler_defaults(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|members| members.iter().any(|(k, v)| k != "name" && !v.is_null()));
    if !has_source {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            default(source, "defaultMode", 0o644);
        }
    }
    downward_items(&mut volume["downwardAPI"]);
    for source in volume.get_mut("projected").map_or(&mut [][..], |projected| items_mut(projected, "sources")) {
        downward_items(&mut source["downwardAPI"]);
        if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
            default(token, "expirationSeconds", 3600);
        }
        remove_null(source, "downwardAPI");
    }
    remove_null(volume, "downwardAPI");
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        default(path, "type", "");
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default(claim, "volumeMode", "Filesystem");
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(str_at(image, "reference"));
        default(image, "pullPolicy", policy);
    }
}

fn downward_items(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(field) = item.get_mut("fieldRef").filter(|field| field.is_object()) {
            default(field, "apiVersion", "v1");
        }
        if let Some(resource) = item.get_mut("resourceFieldRef").filter(|resource| resource.is_object()) {
            default(resource, "divisor", "0");
        }
    }
}

fn remove_null(object: &mut Value, key: &str) {
    if object.get(key).is_some_and(Value::is_null) {
        crate::kinds::value::remove(object, key);
    }
}
