//! The legacy object groups addresses by ports, keeps within its size, and settles.

use gantry_apimachinery::kinds;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::Observed;
use crate::plan::Plan;
use crate::sim::World;

fn world(pods: usize) -> World {
    let mut world = World::new();
    world
        .create(
            &kinds::SERVICE,
            json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": {"selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}}),
        )
        .unwrap();
    for n in 0..pods {
        let port = 9000 + n % 2;
        world
            .create(
                &kinds::POD,
                json!({"metadata": {"name": format!("p{n}"), "labels": {"app": "web"}}, "spec": {"containers":
                [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]}}),
            )
            .unwrap();
    }
    world.agents(|p| p["metadata"]["name"] == "p1");
    world
}

fn look(world: &World) -> Plan {
    let service = world.get(&kinds::SERVICE, "ns", "web").unwrap();
    let endpoints = world.get(&kinds::ENDPOINTS, "ns", "web");
    reconcile(&Observed { service, pods: world.list(&kinds::POD), endpoints }, world.now)
}

fn settled(world: &mut World) -> Value {
    world.apply(&look(world)).unwrap();
    assert!(look(world).is_settled());
    world.raw(&kinds::ENDPOINTS, "ns", "web").unwrap().clone()
}

#[test]
fn addresses_are_grouped_by_their_ports() {
    let mut world = world(3);
    let subsets = settled(&mut world)["subsets"].clone();
    assert_eq!(subsets.as_array().unwrap().len(), 2);
    assert_eq!(subsets[0]["ports"], json!([{"name": "http", "protocol": "TCP", "port": 9000}]));
    assert_eq!(
        (subsets[0]["addresses"].as_array().unwrap().len(), &subsets[0]["notReadyAddresses"]),
        (2, &Value::Null)
    );
    assert_eq!(subsets[1]["notReadyAddresses"][0]["targetRef"]["name"], "p1");
    world.agents(|_| false);
    assert_eq!(settled(&mut world)["subsets"][1]["addresses"][0]["targetRef"]["name"], "p1");
    world.delete(&kinds::POD, "ns", "p1", None);
    assert_eq!(settled(&mut world)["subsets"].as_array().unwrap().len(), 1, "a pod that is going is not shown");
}

#[test]
fn too_many_addresses_are_cut_and_said() {
    let mut world = world(1001);
    let object = settled(&mut world);
    assert_eq!(object["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"], "truncated");
    let count = |field: &str| -> usize {
        object["subsets"].as_array().unwrap().iter().filter_map(|s| s[field].as_array()).map(Vec::len).sum()
    };
    assert_eq!((count("addresses"), count("notReadyAddresses")), (1000, 0), "the one that is not ready is left out");
    world.delete(&kinds::POD, "ns", "p0", None);
    world.agents(|_| false);
    let annotations = settled(&mut world)["metadata"]["annotations"].clone();
    assert!(annotations.get("endpoints.kubernetes.io/over-capacity").is_none());
}

#[test]
fn a_service_without_a_selector_keeps_its_object() {
    let mut world = world(1);
    world.edit(&kinds::SERVICE, "ns", "web", |s| s["spec"]["selector"] = json!({}));
    assert!(look(&world).is_settled());
}
