//! Tests of a Service's defaults, validation, changes and rows.

use super::Service;
use crate::kinds::Strategy;
use crate::kinds::testing::{created, defaulted, errors, row, updated};
use serde_json::{Value, json};

/// A valid Service with these fields of its spec on top.
fn with(spec: Value) -> Value {
    let mut service = json!({"spec": {"ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    created(&Service, &service)
}

#[test]
fn defaults_are_kubernetes_own() {
    let expect = json!({"spec": {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 81, "protocol": "UDP", "targetPort": "web"}],
    }});
    let given = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "protocol": "UDP", "targetPort": "web"}]}});
    assert_eq!(defaulted(&Service, &given), expect);
    let balanced = defaulted(&Service, &json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}));
    let expect = json!({
        "type": "LoadBalancer", "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
    });
    assert_eq!(balanced["spec"], expect);
}

#[test]
fn well_formed_services_pass() {
    for spec in [
        json!({}),
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}),
        json!({"clusterIP": "None", "ports": []}),
        json!({"type": "ExternalName", "externalName": "a.example.", "ports": []}),
        json!({"ports": [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}]}),
        json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}),
        json!({"externalIPs": ["10.1.1.1"], "externalTrafficPolicy": "Local"}),
    ] {
        assert_eq!(errors(&Service, &with(spec.clone()), None), "[]", "{spec}");
    }
}

#[test]
fn each_wrong_field_is_named() {
    let check = |spec: Value, expect: &str| assert_eq!(errors(&Service, &with(spec), None), expect);
    check(json!({"ports": []}), "spec.ports: Required value");
    check(
        json!({"type": "Local"}),
        "[spec.type: Unsupported value: \"Local\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\", spec.internalTrafficPolicy: Required value]",
    );
    check(
        json!({"ports": [{"port": 0, "targetPort": 1}]}),
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    );
    check(
        json!({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}),
        "spec.ports[0].name: Required value",
    );
    check(
        json!({"ports": [{"port": 1, "name": "b"}, {"port": 2, "name": "b"}]}),
        "spec.ports[1].name: Duplicate value: \"b\"",
    );
    check(
        json!({"ports": [{"port": 1, "nodePort": 30000}]}),
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    );
    check(json!({"clusterIP": "1.2.3"}), "spec.clusterIPs[0]: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    check(
        json!({"clusterIP": "None", "type": "NodePort"}),
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    );
    check(json!({"type": "ExternalName"}), "spec.externalName: Required value");
    check(json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster");
    check(
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
    );
}

fn stored(spec: Value) -> Value {
    let mut service = with(spec);
    service["spec"]["clusterIP"] = json!("10.96.0.7");
    service["spec"]["clusterIPs"] = json!(["10.96.0.7"]);
    service
}

#[test]
fn the_address_stays() {
    let old = stored(json!({}));
    let check = |change: Value, expect: &str| {
        let mut new = old.clone();
        for (key, value) in change.as_object().unwrap() {
            new["spec"][key] = value.clone();
        }
        assert_eq!(errors(&Service, &updated(&Service, &new, &old, None), Some(&old)), expect, "{change}");
    };
    check(json!({}), "[]");
    check(json!({"clusterIP": "10.96.0.8"}), "spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set");
    check(json!({"clusterIP": null, "clusterIPs": null}), "[]");
    check(json!({"clusterIP": ""}), "[]");
    check(json!({"type": "ExternalName", "externalName": "a.b"}), "[]");
}

#[test]
fn a_change_of_type_drops_what_was_left_over() {
    let old = stored(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}));
    let mut new = old.clone();
    new["spec"]["type"] = json!("ClusterIP");
    let new = updated(&Service, &new, &old, None);
    assert_eq!(new["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(new["spec"].get("externalTrafficPolicy"), None);
    assert_eq!(errors(&Service, &new, Some(&old)), "[]");
}

#[test]
fn rows_read_as_kubectls() {
    let check = |mut service: Value, status: Value, expect: Value| {
        service["status"] = status;
        assert_eq!(row(&Service, &service), expect);
    };
    check(
        stored(json!({"selector": {"app": "web"}})),
        json!({}),
        json!(["x", "ClusterIP", "10.96.0.7", "<none>", "80/TCP", "5s", "app=web"]),
    );
    let balanced = stored(json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]}));
    check(
        balanced.clone(),
        json!({}),
        json!(["x", "LoadBalancer", "10.96.0.7", "<pending>", "80:30080/TCP", "5s", "<none>"]),
    );
    check(
        balanced,
        json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
        json!(["x", "LoadBalancer", "10.96.0.7", "1.2.3.4", "80:30080/TCP", "5s", "<none>"]),
    );
    check(
        with(json!({"type": "ExternalName", "externalName": "a.b", "ports": []})),
        json!({}),
        json!(["x", "ExternalName", "<none>", "a.b", "<none>", "5s", "<none>"]),
    );
    assert!(Service.warnings(&with(json!({"loadBalancerSourceRanges": []})), None).is_empty());
    let weaker = with(json!({"trafficDistribution": "PreferClose", "loadBalancerSourceRanges": ["10.0.0.0/8"]}));
    let expect = ["trafficDistribution", "loadBalancerSourceRanges"];
    assert_eq!(Service.warnings(&weaker, None), expect.map(|f| format!("spec.{f}: stored, but not acted upon yet")));
}
