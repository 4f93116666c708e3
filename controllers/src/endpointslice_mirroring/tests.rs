//! Hand-written Endpoints are published as slices of the same content, and of no other.

use std::collections::BTreeSet;

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::{LEADER, MANAGER, Observed, SKIP};
use crate::objects::EndpointSlice;
use crate::plan::Plan;
use crate::sim::World;

fn world(subsets: Value) -> World {
    let mut world = World::new();
    let service = json!({"metadata": {"name": "db", "namespace": "ns"}, "spec": {"ports": [{"port": 5432}]}});
    world.create(&kinds::SERVICE, service).unwrap();
    let metadata = json!({"name": "db", "namespace": "ns", "labels": {"team": "a"},
        "annotations": {"why": "outside", "kubectl.kubernetes.io/last-applied-configuration": "{}"}});
    world.create(&kinds::ENDPOINTS, json!({"metadata": metadata, "subsets": subsets})).unwrap();
    world
}

fn subset(addresses: &[&str], not_ready: &[&str], port: u16) -> Value {
    let list = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
    json!({"addresses": list(addresses), "notReadyAddresses": list(not_ready),
        "ports": [{"name": "sql", "port": port, "protocol": "TCP"}]})
}

fn look(world: &World) -> Plan {
    let (endpoints, service) =
        (world.get(&kinds::ENDPOINTS, "ns", "db"), world.get::<crate::objects::Service>(&kinds::SERVICE, "ns", "db"));
    let mut slices = world.list(&kinds::ENDPOINT_SLICE);
    slices.retain(|slice| super::mirrored(slice).is_some());
    reconcile(&Observed { endpoints, service, slices })
}

/// A slice's address type, its port, and every address with whether it is ready.
type Shown = (String, i32, Vec<(String, bool)>);

/// What is published after one look.
fn published(world: &mut World) -> Vec<Shown> {
    world.apply(&look(world)).unwrap();
    assert!(look(world).is_settled(), "{:?}", look(world));
    let of = |slice: &EndpointSlice| {
        let endpoint = |e: &crate::objects::Endpoint| (e.addresses[0].clone(), e.conditions.ready);
        let port = slice.ports.first().and_then(|p| p.port).unwrap_or(0);
        (slice.address_type.clone(), port, slice.endpoints.iter().map(endpoint).collect())
    };
    let mut all: Vec<_> = world.list::<EndpointSlice>(&kinds::ENDPOINT_SLICE).iter().map(|slice| of(slice)).collect();
    all.sort();
    all
}

#[test]
fn a_slice_has_the_form_that_clients_know() {
    let mut subset = subset(&["192.0.2.1"], &[], 5432);
    subset["addresses"][0]["nodeName"] = json!("n1");
    subset["addresses"][0]["hostname"] = json!("zero");
    let mut world = world(json!([subset]));
    world.apply(&look(&world)).unwrap();
    let slice = world.list::<Value>(&kinds::ENDPOINT_SLICE)[0].clone();
    let (meta, endpoints) = (&slice["metadata"], world.raw(&kinds::ENDPOINTS, "ns", "db").unwrap());
    assert_eq!(
        meta["labels"],
        json!({"team": "a", "kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": MANAGER})
    );
    assert_eq!(meta["annotations"], json!({"why": "outside"}));
    assert_eq!(
        meta["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": endpoints["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!((&slice["addressType"], meta["generateName"].as_str()), (&json!("IPv4"), Some("db-")));
    assert_eq!(slice["ports"], json!([{"name": "sql", "protocol": "TCP", "port": 5432}]));
    let conditions = json!({"ready": true, "serving": true, "terminating": false});
    assert_eq!(
        slice["endpoints"],
        json!([{"addresses": ["192.0.2.1"], "conditions": conditions, "nodeName": "n1", "hostname": "zero"}])
    );
}

#[test]
fn families_and_ports_have_slices_of_their_own() {
    let at = |ip: &str, ready: bool| (ip.to_owned(), ready);
    let mut world = world(json!([
        subset(&["192.0.2.1", "2001:db8::1"], &["192.0.2.2"], 5432),
        subset(&["192.0.2.1"], &[], 5433),
        subset(&["192.0.2.3", "192.0.2.1"], &[], 5432),
    ]));
    let four = "IPv4".to_owned();
    let main = (four.clone(), 5432, vec![at("192.0.2.1", true), at("192.0.2.2", false), at("192.0.2.3", true)]);
    let other = (four, 5433, vec![at("192.0.2.1", true)]);
    let six = ("IPv6".to_owned(), 5432, vec![at("2001:db8::1", true)]);
    assert_eq!(published(&mut world), [main.clone(), other, six]);
    world.edit(&kinds::ENDPOINTS, "ns", "db", |e| {
        e["subsets"] = json!([subset(&["192.0.2.1"], &["192.0.2.2"], 5432), subset(&["192.0.2.3"], &[], 5432)]);
        e["metadata"]["labels"] = json!({"team": "b"});
    });
    assert_eq!(look(&world).writes().count(), 3, "one relabelled, two deleted");
    assert_eq!(published(&mut world), [main]);
    assert_eq!(world.list::<EndpointSlice>(&kinds::ENDPOINT_SLICE)[0].metadata.labels["team"], "b");
}

#[test]
fn what_is_not_to_be_mirrored_has_no_slices() {
    let check = |change: &dyn Fn(&mut World), expect: usize| {
        let mut world = world(json!([subset(&["192.0.2.1"], &[], 5432)]));
        assert_eq!(published(&mut world).len(), 1);
        change(&mut world);
        assert_eq!(published(&mut world).len(), expect);
    };
    let endpoints =
        |world: &mut World, change: &dyn Fn(&mut Value)| world.edit(&kinds::ENDPOINTS, "ns", "db", |e| change(e));
    check(&|_| {}, 1);
    check(&|w| endpoints(w, &|e| e["metadata"]["labels"][SKIP] = json!("true")), 0);
    check(&|w| endpoints(w, &|e| e["metadata"]["labels"][SKIP] = json!("false")), 1);
    check(&|w| endpoints(w, &|e| e["metadata"]["annotations"][LEADER] = json!("{}")), 0);
    check(&|w| endpoints(w, &|e| e["subsets"] = json!([])), 0);
    check(&|w| w.delete(&kinds::ENDPOINTS, "ns", "db", None), 0);
    check(&|w| w.delete(&kinds::SERVICE, "ns", "db", None), 0);
    check(&|w| w.edit(&kinds::SERVICE, "ns", "db", |s| s["spec"]["selector"] = json!({"app": "db"})), 0);
    check(&|w| w.edit(&kinds::SERVICE, "ns", "db", |s| s["spec"]["selector"] = json!({})), 1);
}

#[test]
fn somebody_elses_slices_stay() {
    let mut world = world(json!([]));
    let labels = json!({"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "me"});
    let slice = json!({"metadata": {"name": "mine", "labels": labels}, "addressType": "IPv4", "endpoints": []});
    world.create(&kinds::ENDPOINT_SLICE, slice).unwrap();
    assert!(look(&world).is_settled());
}

#[test]
fn at_most_a_thousand_addresses_are_mirrored() {
    let ips: Vec<String> = (0..1100).map(|n| format!("10.0.{}.{}", n / 250, n % 250 + 1)).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let mut world = world(json!([subset(&ips[..990], &ips[990..], 5432)]));
    let slices = published(&mut world);
    let ready = slices[0].2.iter().filter(|(_, ready)| *ready).count();
    assert_eq!((slices.len(), slices[0].2.len(), ready), (1, 1000, 990), "those that are not ready are left out first");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_address_is_published_once_and_then_nothing_is_written(
        steps in prop::collection::vec(prop::collection::vec((0..20_u8, 0..3_u16, any::<bool>()), 0..12), 1..6),
    ) {
        let mut world = world(json!([]));
        for step in steps {
            let subsets: Vec<Value> = step.iter().map(|(ip, port, ready)| {
                let ip = format!("192.0.2.{ip}");
                let (yes, no): (&[&str], &[&str]) = if *ready { (&[&ip], &[]) } else { (&[], &[&ip]) };
                subset(yes, no, 5432 + port)
            }).collect();
            world.edit(&kinds::ENDPOINTS, "ns", "db", |e| e["subsets"] = json!(subsets));
            let mut seen = BTreeSet::new();
            for (_, port, addresses) in published(&mut world) {
                for (ip, _) in addresses {
                    prop_assert!(seen.insert((ip, port)), "twice");
                }
            }
            let expect = step.iter().map(|(ip, port, _)| (format!("192.0.2.{ip}"), i32::from(5432 + port))).collect();
            prop_assert_eq!(seen, expect);
        }
    }
}
