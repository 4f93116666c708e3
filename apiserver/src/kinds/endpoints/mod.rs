//! What an Endpoints object means to the API: addresses that traffic may go to, on ports that are told apart. The kind lives on
//! for old clients; EndpointSlices are what the proxies read.

use super::network;
use super::value::{default, i64_at, items, items_mut, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

/// As many as `kubectl get` names before it counts the rest.
const SHOWN: usize = 3;

pub struct Endpoints;

impl Strategy for Endpoints {
    fn defaults(&self, object: &mut Value) {
        for subset in items_mut(object, "subsets") {
            for port in items_mut(subset, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        for (i, subset) in items(new, "subsets").iter().enumerate() {
            let path = format!("subsets[{i}]");
            let lists = ["addresses", "notReadyAddresses"];
            if lists.iter().all(|list| items(subset, list).is_empty()) {
                errors.required_because(path.clone(), "must specify `addresses` or `notReadyAddresses`");
            }
            for list in lists {
                for (j, address) in items(subset, list).iter().enumerate() {
                    let path = format!("{path}.{list}[{j}]");
                    network::endpoint_ip(str_at(address, "ip"), &format!("{path}.ip"), errors);
                    let host = str_at(address, "hostname");
                    if !host.is_empty()
                        && let Err(why) = names::dns1123_label(host)
                    {
                        errors.invalid(format!("{path}.hostname"), host, why);
                    }
                }
            }
            ports(subset, &path, errors);
        }
    }

    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()]
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("Endpoints", "Ready addresses and ports."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), endpoints(object).into(), columns::age(object, now)]
    }
}

fn ports(subset: &Value, path: &str, errors: &mut FieldErrors) {
    let list = items(subset, "ports");
    for (j, port) in list.iter().enumerate() {
        let path = format!("{path}.ports[{j}]");
        let name = str_at(port, "name");
        if name.is_empty() && list.len() > 1 {
            errors.required(format!("{path}.name"));
        } else if !name.is_empty()
            && let Err(why) = names::dns1123_label(name)
        {
            errors.invalid(format!("{path}.name"), name, why);
        }
        network::port(port, "port", &path, errors);
        network::protocol(port, &path, errors);
    }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(object, "subsets") {
        let ips = items(subset, "addresses").iter().map(|address| str_at(address, "ip"));
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(ips.map(str::to_owned));
            continue;
        }
        let ips: Vec<&str> = ips.collect();
        for port in ports {
            let number = i64_at(port, "port").unwrap_or(0);
            let join = |ip: &&str| if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") };
            all.extend(ips.iter().map(join));
        }
    }
    first_few(&all, "<none>")
}

/// `a,b,c + 2 more...`
pub fn first_few(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        n if n <= SHOWN => all.join(","),
        n => format!("{} + {} more...", all[..SHOWN].join(","), n - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn ips(n: usize) -> Value {
        (1..=n).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect()
    }

    #[test]
    fn wrong_fields_are_named() {
        let check = |subset: Value, expect: &str| {
            let object = defaulted(&Endpoints, &json!({"subsets": [subset]}));
            assert_eq!(errors(&Endpoints, &object, None), expect);
        };
        check(json!({"addresses": ips(1), "ports": [{"port": 80}]}), "[]");
        check(json!({"ports": [{"port": 80}]}), "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`");
        check(
            json!({"addresses": ips(1), "ports": [{"port": 80}, {"port": 0, "name": "b"}]}),
            "[subsets[0].ports[0].name: Required value, subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive]",
        );
    }

    #[test]
    fn a_row_names_three_and_counts_the_rest() {
        let check = |subsets: Value, expect: &str| {
            assert_eq!(row(&Endpoints, &json!({"subsets": subsets})), json!(["x", expect, "5s"]));
        };
        check(json!([]), "<none>");
        check(json!([{"addresses": ips(1), "ports": [{"port": 80}]}]), "10.0.0.1:80");
        check(json!([{"addresses": ips(2)}]), "10.0.0.1,10.0.0.2");
        check(
            json!([{"addresses": ips(5), "ports": [{"port": 80}]}]),
            "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...",
        );
    }
}
