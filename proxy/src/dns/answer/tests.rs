//! A table of questions over one small cluster.

use super::*;
use crate::discovery::Discovery;
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn zone() -> Zone {
    let service = |name: &str, spec: Json| {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})).unwrap(),
        )
    };
    let slice = json!({
        "metadata": {"name": "db-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4", "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.244.0.7"], "hostname": "db-0"},
            {"addresses": ["10.244.0.8"]},
            {"addresses": ["10.244.0.9"], "hostname": "db-2", "conditions": {"ready": false}},
        ],
    });
    let copy = Discovery {
        services: vec![
            service("web", json!({"clusterIP": "10.96.3.4", "ports": [{"name": "http", "port": 80}]})),
            service("db", json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]})),
            service("alias", json!({"type": "ExternalName", "externalName": "web.shop.svc.cluster.local"})),
            service("away", json!({"type": "ExternalName", "externalName": "example.test."})),
            service("loop", json!({"type": "ExternalName", "externalName": "loop.shop.svc.cluster.local"})),
        ],
        slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
    };
    Zone::build("cluster.local", &copy, &["10.96.0.0/16", "10.244.0.0/16"], 1)
}

fn check(name: &str, wanted: RecordType, expect: &str) {
    let got = answer(&zone(), name, wanted);
    let shown = |data: &Data| match data {
        Data::A(ip) => ip.to_string(),
        Data::Aaaa(ip) => ip.to_string(),
        Data::Srv { port, target } => format!("{port} {}", target.split('.').next().unwrap()),
        Data::Cname(target) => format!("={target}"),
        Data::Ptr(target) => target.clone(),
        Data::Txt(text) => text.clone(),
    };
    let records: Vec<String> = got.records.iter().map(|(_, data)| shown(data)).collect();
    let mut text = format!("{:?} {}", got.outcome, records.join(", "));
    if got.outcome == Outcome::Forward {
        text = format!("{text} ask {}", got.remaining);
    }
    assert_eq!(text.trim(), expect, "{name} {wanted}");
}

#[test]
fn services() {
    check("web.shop.svc.cluster.local", RecordType::A, "Found 10.96.3.4");
    check("web.shop.svc.cluster.local", RecordType::AAAA, "Found");
    check("web.shop.svc.cluster.local", RecordType::MX, "Found");
    check("_http._tcp.web.shop.svc.cluster.local", RecordType::SRV, "Found 80 web");
    check("_tcp.web.shop.svc.cluster.local", RecordType::A, "Found");
    check("shop.svc.cluster.local", RecordType::A, "Found");
    check("svc.cluster.local", RecordType::A, "Found");
    check("cluster.local", RecordType::A, "Found");
    check("none.shop.svc.cluster.local", RecordType::A, "NoSuchName");
    check("web.other.svc.cluster.local", RecordType::A, "NoSuchName");
    check("web.shop.svc.cluster.local.shop.svc.cluster.local", RecordType::A, "NoSuchName");
    check("dns-version.cluster.local", RecordType::TXT, "Found 1.1.0");
}

#[test]
fn headless_services_name_their_endpoints() {
    check("db.shop.svc.cluster.local", RecordType::A, "Found 10.244.0.7, 10.244.0.8");
    check("db-0.db.shop.svc.cluster.local", RecordType::A, "Found 10.244.0.7");
    check("10-244-0-8.db.shop.svc.cluster.local", RecordType::A, "Found 10.244.0.8");
    check("db-2.db.shop.svc.cluster.local", RecordType::A, "NoSuchName");
    check("_sql._tcp.db.shop.svc.cluster.local", RecordType::SRV, "Found 5432 10-244-0-8, 5432 db-0");
    let srv = answer(&zone(), "_sql._tcp.db.shop.svc.cluster.local", RecordType::SRV);
    assert_eq!(srv.additional.len(), 2);
}

#[test]
fn external_names_are_aliases() {
    check("alias.shop.svc.cluster.local", RecordType::A, "Found =web.shop.svc.cluster.local, 10.96.3.4");
    check("alias.shop.svc.cluster.local", RecordType::CNAME, "Found =web.shop.svc.cluster.local");
    check("away.shop.svc.cluster.local", RecordType::A, "Forward =example.test ask example.test");
    let endless = answer(&zone(), "loop.shop.svc.cluster.local", RecordType::A);
    assert_eq!(endless.records.len(), MAX_ALIASES);
}

#[test]
fn pods_and_reverse_names() {
    check("10-244-0-9.shop.pod.cluster.local", RecordType::A, "Found 10.244.0.9");
    check("10-244-0-9.shop.pod.cluster.local", RecordType::AAAA, "Found");
    check("x.shop.pod.cluster.local", RecordType::A, "NoSuchName");
    check("4.3.96.10.in-addr.arpa", RecordType::PTR, "Found web.shop.svc.cluster.local");
    check("7.0.244.10.in-addr.arpa", RecordType::PTR, "Found db-0.db.shop.svc.cluster.local");
    check("99.9.96.10.in-addr.arpa", RecordType::PTR, "NoSuchName");
    check("1.1.1.1.in-addr.arpa", RecordType::PTR, "Forward  ask 1.1.1.1.in-addr.arpa");
}

#[test]
fn other_names_are_somebody_elses() {
    check("example.test", RecordType::A, "Forward  ask example.test");
    check("notcluster.local", RecordType::A, "Forward  ask notcluster.local");
}
