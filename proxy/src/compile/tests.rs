//! Tables of what a Service becomes, and laws of `diff` over random ones.

use super::*;
use crate::ruleset::{Op, StaleFlow, diff, stale_flows};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

const NODE: &str = "m1";

fn service(spec: Json) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})).unwrap()
}

fn slice(endpoints: Json) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"name": "web-x", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints,
    }))
    .unwrap()
}

/// `expect` has one line per element, as `shown` writes them.
fn check(spec: Json, endpoints: Json, expect: &[&str]) {
    let ruleset = compile(&[service(spec)], &[slice(endpoints)], NODE);
    ruleset.validate().unwrap();
    let mut got: Vec<String> = ruleset.elements.iter().map(|(key, value)| shown(*key, *value)).collect();
    got.extend(ruleset.sticky.values().map(|s| format!("sticky {} s over {}", s.timeout_s, s.backends.len())));
    assert_eq!(got, expect);
}

fn shown(key: Key, value: Value) -> String {
    let frontend = |frontend: Frontend| {
        let inside = if frontend.is_inside() { "inside " } else { "" };
        match frontend {
            Frontend::Address { ip, protocol, port, .. } => format!("{inside}{ip}:{port}/{protocol}"),
            Frontend::NodePort { protocol, port, .. } => format!("{inside}*:{port}/{protocol}"),
        }
    };
    let key = match key {
        Key::Service(f) => frontend(f),
        Key::Slot(f, slot) => format!("{}#{slot}", frontend(f)),
        Key::Hairpin(ip) => format!("hairpin {ip}"),
    };
    let value = match value {
        Value::Spread(s) => format!("{}{}", s.endpoints, if s.masquerade { " masquerade" } else { "" }),
        Value::Backend(b) => format!("{}:{}", b.ip, b.port),
        other => format!("{other:?}").to_lowercase(),
    };
    format!("{key} -> {value}")
}

#[test]
fn a_cluster_ip_has_a_slot_per_ready_endpoint() {
    check(
        json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80}]}),
        json!([
            {"addresses": ["10.244.0.6"], "nodeName": "m1"},
            {"addresses": ["10.244.1.5"], "nodeName": "m2", "conditions": {"ready": true}},
            {"addresses": ["10.244.1.7"], "nodeName": "m2", "conditions": {"ready": false}},
        ]),
        &[
            "10.96.1.1:80/tcp -> 2",
            "10.96.1.1:80/tcp#0 -> 10.244.0.6:8080",
            "10.96.1.1:80/tcp#1 -> 10.244.1.5:8080",
            "hairpin 10.244.0.6 -> present",
        ],
    );
}

#[test]
fn without_ready_endpoints_draining_ones_serve_and_without_any_it_refuses() {
    let spec = json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80}]});
    let draining = json!({"ready": false, "serving": true, "terminating": true});
    check(
        spec.clone(),
        json!([{"addresses": ["10.244.1.5"], "conditions": draining}]),
        &["10.96.1.1:80/tcp -> 1", "10.96.1.1:80/tcp#0 -> 10.244.1.5:8080"],
    );
    let stopped = json!({"ready": false, "serving": false, "terminating": true});
    check(spec.clone(), json!([{"addresses": ["10.244.1.5"], "conditions": stopped}]), &["10.96.1.1:80/tcp -> refuse"]);
    check(spec, json!([]), &["10.96.1.1:80/tcp -> refuse"]);
}

#[test]
fn node_ports_masquerade_unless_the_policy_is_local() {
    let spec = |policy: &str| {
        json!({"type": "NodePort", "clusterIP": "10.96.1.1", "externalTrafficPolicy": policy,
            "ports": [{"port": 80, "nodePort": 30080}]})
    };
    let remote = json!([{"addresses": ["10.244.1.5"], "nodeName": "m2"}]);
    check(
        spec("Cluster"),
        remote.clone(),
        &[
            "10.96.1.1:80/tcp -> 1",
            "*:30080/tcp -> 1 masquerade",
            "10.96.1.1:80/tcp#0 -> 10.244.1.5:8080",
            "*:30080/tcp#0 -> 10.244.1.5:8080",
        ],
    );
    check(
        spec("Local"),
        remote,
        &[
            "10.96.1.1:80/tcp -> 1",
            "*:30080/tcp -> drop",
            "inside *:30080/tcp -> 1",
            "10.96.1.1:80/tcp#0 -> 10.244.1.5:8080",
            "inside *:30080/tcp#0 -> 10.244.1.5:8080",
        ],
    );
    check(spec("Local"), json!([]), &["10.96.1.1:80/tcp -> refuse", "*:30080/tcp -> refuse"]);
}

#[test]
fn external_policy_local_is_for_clients_outside() {
    let spec = |affinity: &str| {
        json!({"clusterIP": "10.96.1.1", "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local",
            "sessionAffinity": affinity, "ports": [{"port": 80}]})
    };
    let both =
        json!([{"addresses": ["10.244.1.5"], "nodeName": "m2"}, {"addresses": ["10.244.0.5"], "nodeName": "m1"}]);
    check(
        spec("None"),
        both.clone(),
        &[
            "10.96.1.1:80/tcp -> 2",
            "192.0.2.1:80/tcp -> 1",
            "inside 192.0.2.1:80/tcp -> 2",
            "10.96.1.1:80/tcp#0 -> 10.244.0.5:8080",
            "10.96.1.1:80/tcp#1 -> 10.244.1.5:8080",
            "192.0.2.1:80/tcp#0 -> 10.244.0.5:8080",
            "inside 192.0.2.1:80/tcp#0 -> 10.244.0.5:8080",
            "inside 192.0.2.1:80/tcp#1 -> 10.244.1.5:8080",
            "hairpin 10.244.0.5 -> present",
        ],
    );
    check(
        spec("ClientIP"),
        both,
        &[
            "10.96.1.1:80/tcp -> sticky",
            "192.0.2.1:80/tcp -> sticky",
            "inside 192.0.2.1:80/tcp -> sticky",
            "hairpin 10.244.0.5 -> present",
            "sticky 10800 s over 2",
            "sticky 10800 s over 1",
            "sticky 10800 s over 2",
        ],
    );
}

#[test]
fn who_has_a_frontend_has_it_for_the_inside_too() {
    let named = |name: &str, policy: &str| {
        let mut service =
            service(json!({"clusterIP": "10.96.1.1", "externalIPs": ["192.0.2.1"], "ports": [{"port": 80}],
            "externalTrafficPolicy": policy}));
        service.metadata.name = name.into();
        service
    };
    let ruleset = compile(
        &[named("web", "Local"), named("first", "Cluster")],
        &[slice(json!([{"addresses": ["10.244.1.5"]}]))],
        NODE,
    );
    assert!(ruleset.elements.keys().all(|key| !matches!(key, Key::Service(f) if f.is_inside())), "{ruleset:?}");
}

#[test]
fn internal_traffic_policy_local_uses_only_this_node() {
    check(
        json!({"clusterIP": "10.96.1.1", "internalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
        json!([{"addresses": ["10.244.1.5"], "nodeName": "m2"}, {"addresses": ["10.244.0.5"], "nodeName": "m1"}]),
        &["10.96.1.1:80/tcp -> 1", "10.96.1.1:80/tcp#0 -> 10.244.0.5:8080", "hairpin 10.244.0.5 -> present"],
    );
}

#[test]
fn client_affinity_gets_a_chain() {
    check(
        json!({"clusterIP": "10.96.1.1", "sessionAffinity": "ClientIP", "ports": [{"port": 80}],
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}),
        json!([{"addresses": ["10.244.1.5"]}]),
        &["10.96.1.1:80/tcp -> sticky", "sticky 60 s over 1"],
    );
}

#[test]
fn what_has_no_virtual_address_has_no_rules() {
    let endpoints = json!([{"addresses": ["10.244.1.5"]}]);
    check(json!({"clusterIP": "None", "ports": [{"port": 80}]}), endpoints.clone(), &[]);
    check(json!({"type": "ExternalName", "externalName": "x.example"}), endpoints.clone(), &[]);
    check(json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80, "protocol": "SCTP"}]}), endpoints, &[]);
}

#[test]
fn external_addresses_lead_to_the_same_endpoints() {
    let mut service = service(json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}));
    service.status = serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}})).unwrap();
    let ruleset = compile(&[service], &[slice(json!([{"addresses": ["10.244.1.5"]}]))], NODE);
    let frontends = ruleset.elements.keys().filter(|key| matches!(key, Key::Service(_))).count();
    assert_eq!(frontends, 3);
}

#[test]
fn udp_flows_to_what_left_are_stale() {
    let service = service(json!({"clusterIP": "10.96.1.1", "ports": [{"port": 53, "protocol": "UDP"}]}));
    let with = |endpoints: Json| {
        let mut slice = slice(endpoints);
        slice.ports[0].protocol = "UDP".to_owned();
        compile(std::slice::from_ref(&service), &[slice], NODE)
    };
    let frontend =
        Frontend::Address { ip: Ipv4Addr::new(10, 96, 1, 1), protocol: Protocol::Udp, port: 53, inside: false };
    let (none, one) = (with(json!([])), with(json!([{"addresses": ["10.244.1.5"]}])));
    assert_eq!(stale_flows(&none, &one), [StaleFlow { frontend, backend: None }]);
    let backend = Some(Backend { ip: Ipv4Addr::new(10, 244, 1, 5), port: 8080 });
    assert_eq!(stale_flows(&one, &none), [StaleFlow { frontend, backend }]);
    assert_eq!(stale_flows(&one, &one), []);
}

#[test]
fn one_endpoint_more_changes_elements_only() {
    let spec = json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80}]});
    let with = |count: u8| {
        let endpoints: Vec<Json> = (1..=count).map(|n| json!({"addresses": [format!("10.244.1.{n}")]})).collect();
        compile(&[service(spec.clone())], &[slice(endpoints.into())], NODE)
    };
    let ops = diff(&with(2), &with(3));
    assert_eq!(ops.len(), 5, "{ops:?}");
    assert!(matches!(ops[0], Op::AddSpread(_)) && matches!(ops[4], Op::RemoveSpread(_)), "{ops:?}");
}

/// What the kernel does with the steps, and what it refuses.
fn apply(ruleset: &mut Ruleset, chains: &mut BTreeSet<Spread>, op: &Op) -> Result<(), String> {
    match op {
        Op::AddSpread(spread) => chains.insert(*spread).then_some(()).ok_or("the chain is there")?,
        Op::RemoveSpread(spread) => {
            if ruleset.spreads().contains(spread) || !chains.remove(spread) {
                return Err(format!("{spread:?} is in use or absent"));
            }
        }
        Op::Add(key, value) => {
            match (key, value) {
                (_, Value::Spread(spread)) if !chains.contains(spread) => return Err(format!("no chain {spread:?}")),
                (Key::Service(f), Value::Sticky) if !ruleset.sticky.contains_key(f) => {
                    return Err("no chain".to_owned());
                }
                _ => {}
            }
            if ruleset.elements.insert(*key, *value).is_some() {
                return Err(format!("{key:?} is there"));
            }
        }
        Op::Delete(key, value) => {
            if ruleset.elements.remove(key) != Some(*value) {
                return Err(format!("{key:?} is not there"));
            }
        }
        Op::SetSticky { frontend, sticky, gone } => {
            let before = ruleset.sticky.insert(*frontend, sticky.clone());
            let left = before.map(|s| s.backends).unwrap_or_default();
            let expect: Vec<Backend> = left.into_iter().filter(|b| !sticky.backends.contains(b)).collect();
            if *gone != expect {
                return Err(format!("{gone:?} instead of {expect:?}"));
            }
        }
        Op::RemoveSticky { frontend, .. } => {
            if ruleset.elements.get(&Key::Service(*frontend)) == Some(&Value::Sticky) {
                return Err(format!("{frontend:?} is in use"));
            }
            ruleset.sticky.remove(frontend).map(|_| ()).ok_or("absent")?;
        }
    }
    Ok(())
}

prop_compose! {
    fn any_service(index: u8)(
        ports in proptest::collection::vec((1u16..4, any::<bool>(), proptest::option::of(30000u16..30004)), 0..3),
        sticky in any::<bool>(), local in any::<bool>(), kind in prop_oneof![Just("ClusterIP"), Just("NodePort"), Just("LoadBalancer")],
    ) -> Service {
        let ports: Vec<Json> = ports.iter().map(|(port, udp, node_port)| json!({
            "name": port.to_string(), "port": port, "protocol": if *udp { "UDP" } else { "TCP" }, "nodePort": node_port,
        })).collect();
        serde_json::from_value(json!({
            "metadata": {"name": format!("s{index}"), "namespace": "default"},
            "spec": {
                "clusterIP": format!("10.96.0.{index}"), "ports": ports,
                "type": kind,
                "sessionAffinity": if sticky { "ClientIP" } else { "None" },
                "externalTrafficPolicy": if local { "Local" } else { "Cluster" },
            },
        })).unwrap()
    }
}

prop_compose! {
    fn any_slice(index: u8)(
        endpoints in proptest::collection::vec((1u8..9, any::<bool>(), any::<bool>(), any::<bool>()), 0..6),
    ) -> EndpointSlice {
        let endpoints: Vec<Json> = endpoints.iter().map(|(ip, ready, draining, local)| json!({
            "addresses": [format!("10.244.0.{ip}")], "nodeName": if *local { "m1" } else { "m2" },
            "conditions": {"ready": ready, "serving": draining, "terminating": draining},
        })).collect();
        let ports: Vec<Json> = (1..4).flat_map(|port| ["TCP", "UDP"].map(|protocol| json!({
            "name": port.to_string(), "port": 8000 + port, "protocol": protocol,
        }))).collect();
        serde_json::from_value(json!({
            "metadata": {"name": format!("s{index}-a"), "namespace": "default",
                "labels": {"kubernetes.io/service-name": format!("s{index}")}},
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
        })).unwrap()
    }
}

fn any_ruleset() -> impl Strategy<Value = Ruleset> {
    let services = (any_service(1), any_service(2), any_service(3));
    let slices = (any_slice(1), any_slice(2), any_slice(3));
    (services, slices, 0usize..4).prop_map(|(services, slices, keep)| {
        let services = [services.0, services.1, services.2];
        let slices = [slices.0, slices.1, slices.2];
        compile(&services[..keep.min(3)], &slices, NODE)
    })
}

proptest! {
    #[test]
    fn a_difference_applied_to_the_old_gives_the_new(old in any_ruleset(), new in any_ruleset()) {
        prop_assert_eq!(old.validate(), Ok(()));
        let mut state = old.clone();
        let mut chains = old.spreads();
        for op in diff(&old, &new) {
            prop_assert_eq!(apply(&mut state, &mut chains, &op), Ok(()), "{:?}", op);
        }
        prop_assert_eq!(&state, &new);
        prop_assert_eq!(chains, new.spreads());
        prop_assert_eq!(diff(&new, &new), vec![]);
    }
}
