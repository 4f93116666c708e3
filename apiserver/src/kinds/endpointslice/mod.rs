//! What an EndpointSlice means to the API: addresses of one family that never changes, and ports that are told apart.

use super::endpoints::first_few;
use super::network;
use super::value::{at, default, i64_at, items, items_mut, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

const FAMILIES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const MAX_ENDPOINTS: usize = 1_000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;

pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn defaults(&self, object: &mut Value) {
        for port in items_mut(object, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let family = str_at(new, "addressType");
        match (family, old) {
            ("", _) => errors.required("addressType"),
            (f, _) if !FAMILIES.contains(&f) => errors.not_supported("addressType", f, FAMILIES),
            (f, Some(old)) if str_at(old, "addressType") != f => errors.immutable("addressType", f),
            _ => {}
        }
        let list = items(new, "endpoints");
        if list.len() > MAX_ENDPOINTS {
            errors.too_many("endpoints", list.len(), MAX_ENDPOINTS);
        }
        for (i, endpoint) in list.iter().enumerate().take(MAX_ENDPOINTS) {
            check_endpoint(endpoint, family, &format!("endpoints[{i}]"), errors);
        }
        check_ports(new, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("AddressType", "The family of its addresses."),
            Column::text("Ports", "Its ports."),
            Column::text("Endpoints", "Its addresses."),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let port = |port: &Value| match (i64_at(port, "port"), str_at(port, "name")) {
            (Some(number), _) => number.to_string(),
            (None, "") => "*".to_owned(),
            (None, name) => name.to_owned(),
        };
        let ports: Vec<String> = items(object, "ports").iter().map(port).collect();
        let addresses = items(object, "endpoints").iter().flat_map(|endpoint| items(endpoint, "addresses"));
        let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
        vec![
            columns::name(object),
            object["addressType"].clone(),
            first_few(&ports, "<unset>").into(),
            first_few(&addresses, "<unset>").into(),
            columns::age(object, now),
        ]
    }
}

fn check_endpoint(endpoint: &Value, family: &str, path: &str, errors: &mut FieldErrors) {
    let addresses = items(endpoint, "addresses");
    if addresses.is_empty() {
        errors.required_because(format!("{path}.addresses"), "must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.too_many(format!("{path}.addresses"), addresses.len(), MAX_ADDRESSES);
    }
    for (j, address) in addresses.iter().enumerate().take(MAX_ADDRESSES) {
        check_address(address.as_str().unwrap_or(""), family, &format!("{path}.addresses[{j}]"), errors);
    }
    if let Some(node) = at(endpoint, "nodeName").and_then(Value::as_str)
        && let Err(why) = names::dns1123_subdomain(node)
    {
        errors.invalid(format!("{path}.nodeName"), node, why);
    }
    if let Some(host) = at(endpoint, "hostname").and_then(Value::as_str)
        && let Err(why) = names::dns1123_label(host)
    {
        errors.invalid(format!("{path}.hostname"), host, why);
    }
}

fn check_address(address: &str, family: &str, path: &str, errors: &mut FieldErrors) {
    let in_family = address.parse::<std::net::IpAddr>().map(|ip| ip.is_ipv4());
    match (family, in_family) {
        ("FQDN", _) => {
            if let Err(why) = names::dns1123_subdomain(address.trim_end_matches('.')) {
                errors.invalid(path, address, why);
            }
        }
        ("IPv4", Ok(false)) => errors.invalid(path, address, "must be an IPv4 address"),
        ("IPv6", Ok(true)) => errors.invalid(path, address, "must be an IPv6 address"),
        _ => network::endpoint_ip(address, path, errors),
    }
}

fn check_ports(slice: &Value, errors: &mut FieldErrors) {
    let ports = items(slice, "ports");
    if ports.len() > MAX_PORTS {
        return errors.too_many("ports", ports.len(), MAX_PORTS);
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = format!("ports[{i}]");
        let name = str_at(port, "name");
        if !name.is_empty()
            && let Err(why) = names::dns1123_label(name)
        {
            errors.invalid(format!("{path}.name"), name, why);
        }
        if !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), name);
        }
        network::protocol(port, &path, errors);
        if at(port, "port").is_some() {
            network::port(port, "port", &path, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn check(slice: Value, expect: &str) {
        assert_eq!(errors(&EndpointSlice, &defaulted(&EndpointSlice, &slice), None), expect);
    }

    #[test]
    fn wrong_fields_are_named() {
        check(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}), "[]");
        check(json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}), "[]");
        check(json!({}), "addressType: Required value");
        check(
            json!({"addressType": "IP"}),
            "addressType: Unsupported value: \"IP\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"",
        );
        check(
            json!({"addressType": "IPv4", "endpoints": [{"addresses": []}]}),
            "endpoints[0].addresses: Required value: must contain at least 1 address",
        );
        check(
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}]}),
            "endpoints[0].addresses[0]: Invalid value: \"::1\": must be an IPv4 address",
        );
        check(
            json!({"addressType": "IPv4", "ports": [{"name": "a"}, {"name": "a"}]}),
            "ports[1].name: Duplicate value: \"a\"",
        );
    }

    #[test]
    fn the_family_stays() {
        let (old, new) = (json!({"addressType": "IPv4"}), json!({"addressType": "IPv6"}));
        let expect = "addressType: Invalid value: \"IPv6\": field is immutable";
        assert_eq!(errors(&EndpointSlice, &new, Some(&old)), expect);
    }

    #[test]
    fn a_row() {
        let slice = json!({
            "addressType": "IPv4", "ports": [{"port": 80}, {"name": "all"}, {"name": ""}],
            "endpoints": (1..5).map(|i| json!({"addresses": [format!("10.0.0.{i}")]})).collect::<Value>(),
        });
        let expect = json!(["x", "IPv4", "80,all,*", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...", "5s"]);
        assert_eq!(row(&EndpointSlice, &slice), expect);
        assert_eq!(row(&EndpointSlice, &json!({"addressType": "IPv4"})), json!(["x", "IPv4", "<unset>", "<unset>", "5s"]));
    }
}
