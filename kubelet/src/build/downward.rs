//! What a pod may read of itself: fields of its object and of its containers' resources. Pure.

use std::collections::BTreeMap;

use gantry_apimachinery::quantity::Quantity;

use crate::api::pod::ResourceFieldRef;
use crate::api::{Container, Pod};

use super::Machine;

/// `key="value"` lines, sorted, values quoted as Go quotes them.
fn map_text(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(k, v)| format!("{k}={v:?}")).collect::<Vec<_>>().join("\n")
}

/// The value of a field path, or what is wrong with it. `ips` are the pod's, once it has some.
pub fn field(pod: &Pod, m: &Machine, ips: &[String], path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    let subscript = |prefix: &str| path.strip_prefix(prefix).and_then(|p| p.strip_suffix("']"));
    if let Some(key) = subscript("metadata.labels['") {
        return Ok(meta.labels.get(key).cloned().unwrap_or_default());
    }
    if let Some(key) = subscript("metadata.annotations['") {
        return Ok(meta.annotations.get(key).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.to_string(),
        "metadata.labels" => map_text(&meta.labels),
        "metadata.annotations" => map_text(&meta.annotations),
        "spec.nodeName" => m.node_name.clone(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => m.host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => m.host_ips.join(","),
        "status.podIP" => ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => ips.join(","),
        other => return Err(format!("unsupported fieldPath: {other}")),
    })
}

/// A container's request or limit in units of the divisor, rounded up; an absent limit is the machine's capacity.
pub fn resource(pod: &Pod, own: &Container, m: &Machine, r: &ResourceFieldRef) -> Result<String, String> {
    let container = match r.container_name.as_deref().filter(|n| !n.is_empty()) {
        Some(name) => pod.container(name).ok_or_else(|| format!("container {name} not found"))?,
        None => own,
    };
    let (list, name) = match r.resource.split_once('.') {
        Some(("limits", name)) => (&container.resources.limits, name),
        Some(("requests", name)) => (&container.resources.requests, name),
        _ => return Err(format!("unsupported container resource: {}", r.resource)),
    };
    let is_limit = r.resource.starts_with("limits.");
    let own_value = list.get(name).or_else(|| container.resources.limits.get(name));
    let milli = match (name, own_value) {
        ("cpu", Some(q)) => i128::from(q.milli()),
        (_, Some(q)) => i128::from(q.value()) * 1000,
        ("cpu", None) if is_limit => i128::from(m.cpu_capacity_milli),
        ("memory", None) if is_limit => i128::from(m.memory_capacity) * 1000,
        (_, None) => 0,
    };
    let divisor = r.divisor.as_ref().filter(|d| !d.is_zero()).map_or(1000, |d| i128::from(divisor_milli(d)));
    let divisor = divisor.max(1);
    Ok(((milli + divisor - 1) / divisor).to_string())
}

fn divisor_milli(d: &Quantity) -> i64 {
    d.milli()
}
