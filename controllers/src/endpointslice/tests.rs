//! Slices hold every endpoint once, settle, and change as little as possible.

use std::collections::{BTreeMap, BTreeSet};

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::{CHANGED, Machine, Observed};
use crate::objects::{EndpointSlice, Pod, Service};
use crate::plan::Plan;
use crate::sim::World;

fn service() -> Value {
    json!({"metadata": {"name": "web", "namespace": "ns", "labels": {"team": "a"}}, "spec": {"clusterIP": "10.96.0.9",
        "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

fn pod(world: &mut World, n: usize) -> String {
    let body = json!({"metadata": {"name": format!("p{n:04}"), "labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "c", "ports": [{"name": "web", "containerPort": 9000 + (n % 2)}]}]}});
    world.create(&kinds::POD, body).unwrap()
}

fn observe(world: &World) -> Observed {
    Observed {
        service: world.get(&kinds::SERVICE, "ns", "web").unwrap(),
        pods: world.list(&kinds::POD),
        slices: world.list(&kinds::ENDPOINT_SLICE),
        ..Observed::default()
    }
}

fn look(world: &World) -> Plan {
    reconcile(&observe(world), world.now)
}

fn world(pods: usize) -> World {
    let mut world = World::new();
    world.create(&kinds::SERVICE, service()).unwrap();
    for n in 0..pods {
        pod(&mut world, n);
    }
    world.agents(|_| false);
    world
}

fn slices(world: &World) -> Vec<EndpointSlice> {
    world.list::<EndpointSlice>(&kinds::ENDPOINT_SLICE).iter().map(|s| (**s).clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_endpoint_is_published_once(
        start in 0..250_usize,
        named in any::<bool>(),
        steps in prop::collection::vec((0..300_usize, 0..4_u8), 1..15),
    ) {
        let mut world = world(start);
        if named {
            world.edit(&kinds::SERVICE, "ns", "web", |s| s["spec"]["ports"][0]["targetPort"] = json!("web"));
        }
        for (n, what) in steps {
            let name = format!("p{n:04}");
            match what {
                0 if world.raw(&kinds::POD, "ns", &name).is_none() => drop(pod(&mut world, n)),
                1 => world.edit(&kinds::POD, "ns", &name, |p| p["gone"] = json!(true)),
                2 => world.end("Succeeded", |p| p["metadata"]["name"] == json!(name)),
                _ => world.delete(&kinds::POD, "ns", &name, None),
            }
            world.agents(|p| p["metadata"]["name"].as_str().unwrap().ends_with('7'));
            world.apply(&look(&world)).unwrap();
            prop_assert!(look(&world).is_settled());
            let mut seen = BTreeSet::new();
            for slice in slices(&world) {
                prop_assert!(slice.endpoints.len() <= 100);
                for endpoint in slice.endpoints {
                    prop_assert!(seen.insert(endpoint.target_ref.unwrap().uid), "twice");
                }
            }
            let pods = world.list::<Pod>(&kinds::POD);
            let expect: BTreeSet<String> =
                pods.iter().filter(|p| super::is_endpoint(p)).map(|p| p.metadata.uid.to_string()).collect();
            prop_assert_eq!(seen, expect);
        }
    }
}

#[test]
fn a_slice_has_the_form_that_clients_know() {
    let mut world = world(1);
    world.apply(&look(&world)).unwrap();
    let slice = world.list::<Value>(&kinds::ENDPOINT_SLICE)[0].clone();
    let meta = &slice["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"team": "a", "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(meta["annotations"][CHANGED], "2026-01-01T00:00:00.000000Z");
    assert_eq!(meta["ownerReferences"][0]["kind"], "Service");
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "http", "protocol": "TCP", "port": 8080}]));
    let endpoint = &slice["endpoints"][0];
    assert_eq!(endpoint["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
    assert_eq!((&endpoint["nodeName"], &endpoint["targetRef"]["name"]), (&json!("n1"), &json!("p0000")));
}

#[test]
fn conditions_follow_the_pod_and_its_machine() {
    let check = |edit: &dyn Fn(&mut World), silent: bool, expect: (bool, bool, bool)| {
        let mut world = world(1);
        edit(&mut world);
        let mut observed = observe(&world);
        observed.machines = BTreeMap::from([("n1".into(), Machine { unreachable: silent, zone: Some("z".into()) })]);
        world.apply(&reconcile(&observed, world.now)).unwrap();
        let slices = slices(&world);
        let endpoint = &slices[0].endpoints[0];
        let c = endpoint.conditions;
        assert_eq!((c.ready, c.serving, c.terminating), expect);
        assert_eq!(endpoint.zone.as_deref(), Some("z"));
    };
    let unready = |world: &mut World| {
        world.agents(|_| true);
    };
    let publish = |world: &mut World| {
        world.edit(&kinds::SERVICE, "ns", "web", |s| s["spec"]["publishNotReadyAddresses"] = json!(true));
    };
    check(&|_| {}, false, (true, true, false));
    check(&|_| {}, true, (false, false, false));
    check(&unready, false, (false, false, false));
    check(&|w| w.delete(&kinds::POD, "ns", "p0000", None), false, (false, true, true));
    check(
        &|w| {
            publish(w);
            w.agents(|_| true);
        },
        false,
        (true, false, false),
    );
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let mut world = world(0);
    world.apply(&look(&world)).unwrap();
    assert_eq!(slices(&world).len(), 1);
    pod(&mut world, 1);
    world.agents(|_| false);
    world.apply(&look(&world)).unwrap();
    assert_eq!((slices(&world).len(), slices(&world)[0].endpoints.len()), (1, 1));
    world.delete(&kinds::POD, "ns", "p0001", None);
    world.agents(|_| false);
    world.apply(&look(&world)).unwrap();
    assert_eq!((slices(&world).len(), slices(&world)[0].endpoints.len()), (1, 0));
}

#[test]
fn one_change_writes_one_slice() {
    let mut world = world(250);
    world.apply(&look(&world)).unwrap();
    assert_eq!(slices(&world).len(), 3);
    world.pass(5);
    world.agents(|p| p["metadata"]["name"] == "p0150");
    let plan = look(&world);
    assert_eq!(plan.writes().count(), 1, "{plan:?}");
    world.apply(&plan).unwrap();
    let stamps: BTreeSet<String> = slices(&world).iter().map(|s| s.metadata.annotations[CHANGED].clone()).collect();
    assert!(stamps.contains("2026-01-01T00:00:05.000000Z"), "{stamps:?}");
}

#[test]
fn writes_keep_their_pace_and_are_not_forgotten() {
    let mut world = world(1);
    world.apply(&look(&world)).unwrap();
    world.agents(|_| true);
    let plan = reconcile(&Observed { wrote_ago_ms: Some(300), ..observe(&world) }, world.now);
    assert!(plan.is_settled());
    assert_eq!(plan.requeue.unwrap().as_millis(), 700);
}

#[test]
fn services_without_a_selector_are_left_alone() {
    let mut world = world(1);
    world.edit(&kinds::SERVICE, "ns", "web", |s| s["spec"]["selector"] = Value::Null);
    assert!(look(&world).is_settled());
}

#[test]
fn a_headless_service_is_labelled_and_names_its_pods() {
    let mut world = world(1);
    world.edit(&kinds::SERVICE, "ns", "web", |s| {
        s["spec"]["clusterIP"] = json!("None");
        s["spec"]["ports"] = json!([]);
    });
    world.edit(&kinds::POD, "ns", "p0000", |p| {
        p["spec"]["hostname"] = json!("zero");
        p["spec"]["subdomain"] = json!("web");
    });
    world.apply(&look(&world)).unwrap();
    let slice = &slices(&world)[0];
    assert!(slice.metadata.labels.contains_key("service.kubernetes.io/headless"));
    assert_eq!(slice.endpoints[0].hostname.as_deref(), Some("zero"));
    assert!(look(&world).is_settled());
}

#[test]
fn a_named_port_may_be_a_sidecars() {
    let check = |spec: Value, expect: &[i32]| {
        let mut service: Service = serde_json::from_value(service()).unwrap();
        service.spec.ports[0].target_port = Some(json!("proxy"));
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let found: Vec<i32> = super::ports(&service, &pod).iter().filter_map(|p| p.port).collect();
        assert_eq!(found, expect, "{spec}");
    };
    let container = |port: u16, policy: Value| json!({"name": "c", "restartPolicy": policy, "ports": [{"name": "proxy", "containerPort": port}]});
    let none = Value::Null;
    check(json!({"initContainers": [container(15_001, json!("Always"))]}), &[15_001]);
    check(json!({"initContainers": [container(15_001, none.clone())]}), &[]);
    let both = json!({"containers": [container(80, none)], "initContainers": [container(15_001, json!("Always"))]});
    check(both, &[80]);
}
