//! Decides which Services are well formed and what of one may change. Whether an address or port is free is decided in the
//! transaction that takes it.

use crate::kinds::network;
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use std::collections::BTreeSet;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: &[&str] = &["ClientIP", "None"];
const TRAFFIC: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameNode", "PreferSameZone"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const MAX_AFFINITY_S: i64 = 86_400;

pub fn spec(spec: &Value, errors: &mut FieldErrors) {
    let kind = str_at(spec, "type");
    if !TYPES.contains(&kind) {
        errors.not_supported("spec.type", kind, TYPES);
    }
    let headless = str_at(spec, "clusterIP") == "None";
    if items(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required("spec.ports");
    }
    ports(spec, kind, errors);
    selector(spec, errors);
    affinity(spec, errors);
    match kind {
        "ExternalName" => external_name(spec, errors),
        _ => addresses(spec, kind, headless, errors),
    }
    families(spec, errors);
    traffic(spec, kind, errors);
}

fn ports(spec: &Value, kind: &str, errors: &mut FieldErrors) {
    let list = items(spec, "ports");
    let (mut by_name, mut by_port, mut by_node_port) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (i, port) in list.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        let name = str_at(port, "name");
        if name.is_empty() && list.len() > 1 {
            errors.required(format!("{path}.name"));
        } else if !name.is_empty() {
            if let Err(why) = names::dns1123_label(name) {
                errors.invalid(format!("{path}.name"), name, why);
            }
            if !by_name.insert(name) {
                errors.duplicate(format!("{path}.name"), name);
            }
        }
        network::port(port, "port", &path, errors);
        network::protocol(port, &path, errors);
        network::port_or_name(&port["targetPort"], &format!("{path}.targetPort"), errors);
        let protocol = str_at(port, "protocol");
        if !by_port.insert((protocol, i64_at(port, "port"))) {
            errors.duplicate(path.clone(), port.clone());
        }
        if let Some(node_port) = i64_at(port, "nodePort").filter(|n| *n != 0) {
            if !matches!(kind, "NodePort" | "LoadBalancer") {
                errors.forbidden(format!("{path}.nodePort"), format!("may not be used when `type` is '{kind}'"));
            } else if !by_node_port.insert((protocol, node_port)) {
                errors.duplicate(format!("{path}.nodePort"), node_port);
            }
        }
        if let Some(protocol) = at(port, "appProtocol").and_then(Value::as_str)
            && let Err(why) = names::qualified_name(protocol)
        {
            errors.invalid(format!("{path}.appProtocol"), protocol, why);
        }
    }
}

fn selector(spec: &Value, errors: &mut FieldErrors) {
    for (key, value) in spec["selector"].as_object().into_iter().flatten() {
        if let Err(why) = names::qualified_name(key) {
            errors.invalid("spec.selector", key.as_str(), why);
        }
        let value = value.as_str().unwrap_or("");
        if let Err(why) = names::label_value(value) {
            errors.invalid("spec.selector", value, why);
        }
    }
}

fn affinity(spec: &Value, errors: &mut FieldErrors) {
    let affinity = str_at(spec, "sessionAffinity");
    if !AFFINITIES.contains(&affinity) {
        errors.not_supported("spec.sessionAffinity", affinity, AFFINITIES);
    }
    if affinity == "ClientIP" {
        let seconds = i64_at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds").unwrap_or(0);
        if seconds <= 0 || seconds > MAX_AFFINITY_S {
            let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            errors.invalid(path, seconds, format!("must be greater than 0 and less than {MAX_AFFINITY_S}"));
        }
    }
}

fn external_name(spec: &Value, errors: &mut FieldErrors) {
    if !items(spec, "clusterIPs").is_empty() {
        errors.forbidden("spec.clusterIPs", "may not be set for ExternalName services");
    }
    for field in ["ipFamilies", "ipFamilyPolicy"] {
        if at(spec, field).is_some() {
            errors.forbidden(format!("spec.{field}"), "may not be set for ExternalName services");
        }
    }
    let name = str_at(spec, "externalName").trim_end_matches('.');
    if name.is_empty() {
        errors.required("spec.externalName");
    } else if let Err(why) = names::dns1123_subdomain(name) {
        errors.invalid("spec.externalName", name, why);
    }
}

fn addresses(spec: &Value, kind: &str, headless: bool, errors: &mut FieldErrors) {
    let list = items(spec, "clusterIPs");
    let path = "spec.clusterIPs";
    if let Some(first) = list.first().and_then(Value::as_str)
        && first != str_at(spec, "clusterIP")
    {
        errors.invalid(format!("{path}[0]"), first, "must match `clusterIP` when specified");
    }
    if list.len() > 1 {
        errors.invalid(path, list.to_vec(), "this cluster is not configured for dual-stack services");
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        errors.invalid(format!("{path}[0]"), "None", format!("may not be set to 'None' for {kind} services"));
    }
    for (i, ip) in list.iter().enumerate().filter(|(_, ip)| *ip != "None") {
        network::ip(ip.as_str().unwrap_or(""), &format!("{path}[{i}]"), errors);
    }
    for (i, ip) in items(spec, "externalIPs").iter().enumerate() {
        network::endpoint_ip(ip.as_str().unwrap_or(""), &format!("spec.externalIPs[{i}]"), errors);
    }
}

/// Gantry's services are IPv4 only.
fn families(spec: &Value, errors: &mut FieldErrors) {
    match str_at(spec, "ipFamilyPolicy") {
        "" | "SingleStack" | "PreferDualStack" => {}
        "RequireDualStack" => {
            let why = "this cluster is not configured for dual-stack services";
            errors.invalid("spec.ipFamilyPolicy", "RequireDualStack", why);
        }
        other => errors.not_supported("spec.ipFamilyPolicy", other, FAMILY_POLICIES),
    }
    for (i, family) in items(spec, "ipFamilies").iter().enumerate() {
        let path = format!("spec.ipFamilies[{i}]");
        match family.as_str().unwrap_or("") {
            "IPv4" if i == 0 => {}
            "IPv4" => errors.duplicate(path, "IPv4"),
            "IPv6" => errors.invalid(path, "IPv6", "not configured on this cluster"),
            other => errors.not_supported(path, other, &["IPv4", "IPv6"]),
        }
    }
}

fn traffic(spec: &Value, kind: &str, errors: &mut FieldErrors) {
    let external = str_at(spec, "externalTrafficPolicy");
    let outside = super::is_reached_from_outside(spec);
    if !external.is_empty() {
        if !outside {
            let why = "may only be set for externally-accessible services";
            errors.invalid("spec.externalTrafficPolicy", external, why);
        } else if !TRAFFIC.contains(&external) {
            errors.not_supported("spec.externalTrafficPolicy", external, TRAFFIC);
        }
    }
    let internal = str_at(spec, "internalTrafficPolicy");
    if internal.is_empty() && kind != "ExternalName" {
        errors.required("spec.internalTrafficPolicy");
    } else if !internal.is_empty() && !TRAFFIC.contains(&internal) {
        errors.not_supported("spec.internalTrafficPolicy", internal, TRAFFIC);
    }
    let distribution = str_at(spec, "trafficDistribution");
    if !distribution.is_empty() && !DISTRIBUTIONS.contains(&distribution) {
        errors.not_supported("spec.trafficDistribution", distribution, DISTRIBUTIONS);
    }
    if kind != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if at(spec, field).is_some() {
                errors.forbidden(format!("spec.{field}"), "may only be used when `type` is 'LoadBalancer'");
            }
        }
    }
}

/// What stays once given.
pub fn unchanged(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let keeps_address = str_at(old, "type") != "ExternalName" && str_at(new, "type") != "ExternalName";
    let (given, held) = (str_at(new, "clusterIP"), str_at(old, "clusterIP"));
    if keeps_address && !given.is_empty() && !held.is_empty() && given != held {
        errors.invalid("spec.clusterIPs[0]", items(new, "clusterIPs").to_vec(), "may not change once set");
    }
    let both = str_at(old, "type") == "LoadBalancer" && str_at(new, "type") == "LoadBalancer";
    if both && at(new, "loadBalancerClass") != at(old, "loadBalancerClass") {
        errors.invalid("spec.loadBalancerClass", new["loadBalancerClass"].clone(), "may not change once set");
    }
}

pub fn status(new: &Value, errors: &mut FieldErrors) {
    for (i, ingress) in items(new, "status.loadBalancer.ingress").iter().enumerate() {
        if let Some(ip) = at(ingress, "ip").and_then(Value::as_str) {
            network::ip(ip, &format!("status.loadBalancer.ingress[{i}].ip"), errors);
        }
    }
}
