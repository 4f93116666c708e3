//! Decides whether an Ingress is valid: hosts, paths, and one backend each.

use crate::kinds::network::{host, ip, port};
use crate::kinds::pod::validate::{name, required};
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const FORBIDDEN_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const FORBIDDEN_ENDS: [&str; 2] = ["/..", "/."];

pub fn spec(spec: &Value, errors: &mut FieldErrors) {
    if items(spec, "rules").is_empty() && at(spec, "defaultBackend").is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.invalid("spec", spec["rules"].clone(), why);
    }
    if let Some(backend) = at(spec, "defaultBackend") {
        self::backend(backend, "spec.defaultBackend", errors);
    }
    for (position, rule) in items(spec, "rules").iter().enumerate() {
        self::rule(rule, &format!("spec.rules[{position}]"), errors);
    }
    for (position, tls) in items(spec, "tls").iter().enumerate() {
        let path = format!("spec.tls[{position}]");
        for name in items(tls, "hosts").iter().filter_map(Value::as_str) {
            host(name, &format!("{path}.hosts"), errors);
        }
        name(tls, "secretName", names::dns1123_subdomain, &path, errors);
    }
    name(spec, "ingressClassName", names::dns1123_subdomain, "spec", errors);
}

fn rule(rule: &Value, path: &str, errors: &mut FieldErrors) {
    let name = str_at(rule, "host");
    if name.parse::<std::net::IpAddr>().is_ok() {
        errors.invalid(format!("{path}.host"), name, "must be a DNS name, not an IP address");
    }
    if !name.is_empty() {
        host(name, &format!("{path}.host"), errors);
    }
    let Some(http) = at(rule, "http") else { return };
    if items(http, "paths").is_empty() {
        errors.required(format!("{path}.http.paths"));
    }
    for (position, one) in items(http, "paths").iter().enumerate() {
        let path = format!("{path}.http.paths[{position}]");
        self::path(one, &path, errors);
        backend(&one["backend"], &format!("{path}.backend"), errors);
    }
}

fn path(one: &Value, path: &str, errors: &mut FieldErrors) {
    let (text, field) = (str_at(one, "path"), format!("{path}.path"));
    match str_at(one, "pathType") {
        "" => errors.required_because(format!("{path}.pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.invalid(field.as_str(), text, "must be an absolute path");
            }
            for part in FORBIDDEN_PARTS.iter().filter(|part| text.contains(**part)) {
                errors.invalid(field.as_str(), text, format!("must not contain '{part}'"));
            }
            for end in FORBIDDEN_ENDS.iter().filter(|end| text.ends_with(**end)) {
                errors.invalid(field.as_str(), text, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !text.starts_with('/') => {
            errors.invalid(field, text, "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        other => errors.not_supported(format!("{path}.pathType"), other, PATH_TYPES),
    }
}

fn backend(backend: &Value, path: &str, errors: &mut FieldErrors) {
    match (at(backend, "service"), at(backend, "resource")) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => errors.required_because(path, "resource or service backend is required"),
        (None, Some(resource)) => {
            let path = format!("{path}.resource");
            name(resource, "apiGroup", names::dns1123_subdomain, &path, errors);
            for field in ["kind", "name"] {
                if required(resource, field, &path, errors) {
                    name(resource, field, names::path_segment, &path, errors);
                }
            }
        }
        (Some(service), None) => {
            if required(service, "name", &format!("{path}.service"), errors) {
                name(service, "name", names::dns1035_label, &format!("{path}.service"), errors);
            }
            self::service_port(&service["port"], path, errors);
        }
    }
}

fn service_port(wanted: &Value, path: &str, errors: &mut FieldErrors) {
    let (by_name, number) = (str_at(wanted, "name"), i64_at(wanted, "number").unwrap_or(0));
    match (by_name.is_empty(), number) {
        (true, 0) => errors.required_because(path, "port name or number is required"),
        (false, 0) => {
            if let Err(why) = names::port_name(by_name) {
                errors.invalid(format!("{path}.service.port.name"), by_name, why);
            }
        }
        (true, _) => port(wanted, "number", &format!("{path}.service.port"), errors),
        (false, _) => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

/// Where the outside reaches it.
pub fn status(ingress: &Value, errors: &mut FieldErrors) {
    for (position, point) in items(ingress, "status.loadBalancer.ingress").iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{position}]");
        if !str_at(point, "ip").is_empty() {
            ip(str_at(point, "ip"), &format!("{path}.ip"), errors);
        }
        let hostname = str_at(point, "hostname");
        if hostname.parse::<std::net::IpAddr>().is_ok() {
            errors.invalid(format!("{path}.hostname"), hostname, "must be a DNS name, not an IP address");
        } else {
            name(point, "hostname", names::dns1123_subdomain, &path, errors);
        }
    }
}
