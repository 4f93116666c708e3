//! What a Service means to the API: its defaults, what its type allows, and what stays once given. Which address and ports it
//! gets is decided in its transaction (`effects::service`).

mod printing;
mod validate;

use super::value::{at, child, default, items_mut, object_mut, remove, str_at};
use super::{Column, Ctx, Selectable, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

/// Kubernetes' default for session affinity by client address.
const AFFINITY_TIMEOUT_S: i64 = 10_800;

pub struct Service;

impl Strategy for Service {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "sessionAffinity", "None");
        match str_at(spec, "sessionAffinity") {
            "None" => {
                remove(spec, "sessionAffinityConfig");
            }
            "ClientIP" => default(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", AFFINITY_TIMEOUT_S),
            _ => {}
        }
        default(spec, "type", "ClusterIP");
        for port in items_mut(spec, "ports") {
            default(port, "protocol", "TCP");
            let same = port["port"].clone();
            if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == 0 || port["targetPort"] == "" {
                object_mut(port).insert("targetPort".to_owned(), same);
            }
        }
        let kind = str_at(spec, "type").to_owned();
        if is_reached_from_outside(spec) {
            default(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default(spec, "allocateLoadBalancerNodePorts", true);
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"loadBalancer": {}});
        sync_cluster_ips(&mut object["spec"], None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Ctx) {
        if ctx.is_status() {
            return;
        }
        drop_what_the_type_left(&mut new["spec"], &old["spec"]);
        sync_cluster_ips(&mut new["spec"], Some(&old["spec"]));
        if str_at(old, "spec.type") == "LoadBalancer" && str_at(new, "spec.type") != "LoadBalancer" {
            child(new, "status")["loadBalancer"] = json!({});
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return validate::status(new, errors);
        }
        validate::spec(&new["spec"], errors);
        if let Some(old) = old {
            validate::unchanged(&new["spec"], &old["spec"], errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if str_at(new, "spec.clusterIP") == "None" && str_at(new, "spec.sessionAffinity") == "ClientIP" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
        for field in ["trafficDistribution", "loadBalancerSourceRanges"] {
            if at(&new["spec"], field).is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
                warnings.push(format!("spec.{field}: {}", super::pod::unheeded::NOT_ACTED_UPON));
            }
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        printing::COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        printing::row(object, now)
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::path("spec.clusterIP"), Selectable::path("spec.type")];
        FIELDS
    }
}

/// Whether traffic from outside the cluster comes to it by a node port, a load balancer or an external address.
fn is_reached_from_outside(spec: &Value) -> bool {
    match str_at(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => at(spec, "externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty()),
        _ => false,
    }
}

/// `clusterIP` and the first of `clusterIPs` are one thing under two names: whichever the client gave or changed counts.
fn sync_cluster_ips(spec: &mut Value, old: Option<&Value>) {
    let (one, list) = (str_at(spec, "clusterIP").to_owned(), at(spec, "clusterIPs").cloned());
    match (one.as_str(), &list, old) {
        ("", None, _) => {}
        (_, None, _) => spec["clusterIPs"] = json!([one]),
        ("", Some(list), _) => {
            // A client that empties the old field alone means both.
            if old.is_some_and(|old| old["clusterIPs"] == *list && !str_at(old, "clusterIP").is_empty()) {
                remove(spec, "clusterIPs");
            } else if let Some(first) = list.get(0) {
                spec["clusterIP"] = first.clone();
            }
        }
        (_, Some(list), Some(old)) if old["clusterIPs"] == *list && str_at(old, "clusterIP") != one => {
            spec["clusterIPs"] = json!([one]);
        }
        _ => {}
    }
}

/// A change of type drops what only the old type had, when the client merely sent it along.
fn drop_what_the_type_left(spec: &mut Value, old: &Value) {
    let (kind, was) = (str_at(spec, "type").to_owned(), str_at(old, "type"));
    if kind == was {
        return;
    }
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if has_node_ports(was) && !has_node_ports(&kind) {
        let before: Vec<Value> = super::value::items(old, "ports").iter().map(|p| p["nodePort"].clone()).collect();
        for port in items_mut(spec, "ports") {
            if before.contains(&port["nodePort"]) {
                remove(port, "nodePort");
            }
        }
    }
    let mut left = vec![];
    if !is_reached_from_outside(spec) {
        left.push("externalTrafficPolicy");
    }
    if !has_node_ports(&kind) {
        left.push("healthCheckNodePort");
    }
    if kind != "LoadBalancer" {
        left.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if kind == "ExternalName" {
        left.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    for field in left {
        if spec.get(field) == old.get(field) {
            remove(spec, field);
        }
    }
}

#[cfg(test)]
mod tests;
