//! Decides what `kubectl get services` shows.

use crate::kinds::columns::{self, Column};
use crate::kinds::value::{i64_at, items, str_at};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Type", "How the service is reached."),
    Column::text("Cluster-IP", "Its address inside the cluster."),
    Column::text("External-IP", "Its addresses outside the cluster."),
    Column::text("Port(s)", "Its ports."),
    Column::AGE,
    Column::text("Selector", "Which pods stand behind it.").wide(),
];

pub fn row(service: &Value, now: Timestamp) -> Vec<Value> {
    let address = match items(service, "spec.clusterIPs").first().and_then(Value::as_str) {
        Some(ip) => ip,
        None if !str_at(service, "spec.clusterIP").is_empty() => str_at(service, "spec.clusterIP"),
        None => "<none>",
    };
    vec![
        columns::name(service),
        service["spec"]["type"].clone(),
        address.into(),
        outside(service).into(),
        ports(service).into(),
        columns::age(service, now),
        columns::labels(&service["spec"]["selector"]),
    ]
}

fn outside(service: &Value) -> String {
    let mut shown: Vec<&str> = items(service, "spec.externalIPs").iter().filter_map(Value::as_str).collect();
    match str_at(service, "spec.type") {
        "ExternalName" => return str_at(service, "spec.externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = items(service, "status.loadBalancer.ingress").iter();
            let given: Vec<&str> = ingress
                .map(|i| if str_at(i, "ip").is_empty() { str_at(i, "hostname") } else { str_at(i, "ip") })
                .filter(|text| !text.is_empty())
                .collect();
            shown.splice(0..0, given);
            if shown.is_empty() {
                return "<pending>".to_owned();
            }
        }
        _ => {}
    }
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

fn ports(service: &Value) -> String {
    let show = |port: &Value| {
        let (number, protocol) = (i64_at(port, "port").unwrap_or(0), str_at(port, "protocol"));
        match i64_at(port, "nodePort").unwrap_or(0) {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    let shown: Vec<String> = items(service, "spec.ports").iter().map(show).collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}
