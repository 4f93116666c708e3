//! Environment, DNS, hosts and security as tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::Pod;
use crate::api::objects::{ConfigMap, Secret};
use crate::runtime::ImageSeen;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u1"}, "spec": spec})).unwrap()
}

fn machine() -> Machine {
    Machine {
        cluster_dns: vec!["10.96.0.10".into()],
        cluster_domain: "cluster.local".into(),
        resolver: dns::Resolver::parse("# c\nnameserver 1.1.1.1\nsearch corp.example\noptions timeout:1\n"),
        node_name: "m1".into(),
        host_ips: vec!["192.168.0.5".into()],
        memory_capacity: 1 << 30,
        cpu_capacity_milli: 2000,
        ..Machine::default()
    }
}

#[test]
fn references_expand_what_is_already_set() {
    let vars = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())]);
    let check = |text: &str, expect: &str| assert_eq!(env::expand(text, &vars), expect);
    check("x$(A)y", "x1y");
    check("$(B)", "$(A)");
    check("$$(A)", "$(A)");
    check("$(NO) $A $", "$(NO) $A $");
    check("$(A", "$(A");
    check("100$$", "100$");
}

fn environment(container: serde_json::Value) -> Result<Vec<(String, String)>, String> {
    let pod = pod(json!({ "containers": [container] }));
    let map: ConfigMap = serde_json::from_value(json!({"data": {"color": "red", "a=b": "no"}})).unwrap();
    let secret: Secret = serde_json::from_value(json!({"data": {"pw": "c2VjcmV0"}})).unwrap();
    let sources = env::Sources {
        config_maps: [("cm".to_owned(), Arc::new(map))].into(),
        secrets: [("sec".to_owned(), Arc::new(secret))].into(),
    };
    let services = BTreeMap::from([("DB_SERVICE_HOST".to_owned(), "10.96.0.7".to_owned())]);
    env::build(&pod, &pod.spec.containers[0], &machine(), &["10.1.1.1".into()], &sources, &services)
}

#[test]
fn the_environment_has_its_sources_in_order() {
    let container = json!({"name": "c", "resources": {"requests": {"memory": "100Mi"}},
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "sec"}}, {"secretRef": {"name": "no", "optional": true}}],
    "env": [
        {"name": "URL", "value": "http://$(DB_SERVICE_HOST)/$(P_color)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "GONE", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "zz", "optional": true}}},
        {"name": "P_color", "value": "blue"},
    ]});
    let expect = [
        ("DB_SERVICE_HOST", "10.96.0.7"),
        ("P_color", "blue"),
        ("pw", "secret"),
        ("URL", "http://10.96.0.7/red"),
        ("IP", "10.1.1.1"),
        ("MEM", "100"),
        ("CPU", "2"),
    ];
    assert_eq!(environment(container).unwrap(), expect.map(|(k, v)| (k.to_owned(), v.to_owned())));
}

#[test]
fn missing_sources_are_named() {
    let check = |var: serde_json::Value, expect: &str| {
        let got = environment(json!({"name": "c", "env": [{"name": "X", "valueFrom": var}]}));
        assert_eq!(got.unwrap_err(), expect);
    };
    check(json!({"configMapKeyRef": {"name": "no", "key": "k"}}), "configmap \"no\" not found");
    check(json!({"configMapKeyRef": {"name": "cm", "key": "k"}}), "couldn't find key k in ConfigMap ns/cm");
    check(json!({"secretKeyRef": {"name": "sec", "key": "k"}}), "couldn't find key k in Secret ns/sec");
    check(json!({"fieldRef": {"fieldPath": "spec.x"}}), "unsupported fieldPath: spec.x");
}

#[test]
fn dns_follows_the_policy() {
    let check = |spec: serde_json::Value, servers: &[&str], searches: &[&str], options: &[&str]| {
        let got = dns::config(&pod(spec.clone()), &machine());
        assert_eq!(
            (got.servers, got.searches, got.options),
            (
                servers.iter().map(|s| (*s).to_owned()).collect(),
                searches.iter().map(|s| (*s).to_owned()).collect(),
                options.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>(),
            ),
            "{spec}"
        );
    };
    let cluster = ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"];
    check(json!({}), &["10.96.0.10"], &cluster, &["ndots:5"]);
    check(json!({"hostNetwork": true}), &["1.1.1.1"], &["corp.example"], &["timeout:1"]);
    check(
        json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}),
        &["10.96.0.10"],
        &cluster,
        &["ndots:5"],
    );
    check(json!({"dnsPolicy": "Default"}), &["1.1.1.1"], &["corp.example"], &["timeout:1"]);
    let own = json!({"nameservers": ["9.9.9.9"], "searches": ["x.y"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
    check(json!({"dnsPolicy": "None", "dnsConfig": own}), &["9.9.9.9"], &["x.y"], &["ndots:2", "edns0"]);
    check(
        json!({"dnsPolicy": "Default", "dnsConfig": own}),
        &["1.1.1.1", "9.9.9.9"],
        &["corp.example", "x.y"],
        &["timeout:1", "ndots:2", "edns0"],
    );
}

#[test]
fn host_names_and_files() {
    let p = pod(
        json!({"hostname": "db-0", "subdomain": "db", "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]}),
    );
    assert_eq!(hosts::kernel_name(&p, &machine()), "db-0");
    let text = hosts::text(&p, &machine(), &["10.1.1.1".into()], "machine\n");
    assert!(text.contains("\n10.1.1.1\tdb-0.db.ns.svc.cluster.local\tdb-0\n"), "{text}");
    assert!(text.ends_with("# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"), "{text}");
    assert!(hosts::text(&pod(json!({"hostNetwork": true})), &machine(), &[], "machine\n").ends_with("machine\n"));
}

#[test]
fn security_takes_the_container_over_the_pod_and_refuses_root() {
    let config = |spec: serde_json::Value, image: ImageSeen| {
        let pod = pod(spec);
        let inputs = container::Inputs {
            pod: &pod,
            container: &pod.spec.containers[0],
            attempt: 2,
            image: &image,
            env: vec![("WHO".into(), "you".into())],
            mounts: vec![],
            message_file: String::new(),
            target_id: None,
        };
        container::config(inputs, &machine())
    };
    let spec = json!({
        "securityContext": {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 9},
        "containers": [{"name": "c", "image": "i", "command": ["hi", "$(WHO)"], "securityContext": {
            "runAsUser": 5, "readOnlyRootFilesystem": true, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}}]
    });
    let got = config(spec, ImageSeen::default()).unwrap();
    assert_eq!((got.command.join(" ").as_str(), got.log_path.as_str()), ("hi you", "c/2.log"));
    let s = got.linux.unwrap().security_context.unwrap();
    assert_eq!((s.run_as_user.unwrap().value, s.run_as_group.unwrap().value), (5, 8));
    assert_eq!((s.readonly_rootfs, s.privileged, s.supplemental_groups), (true, false, vec![9]));
    assert_eq!(s.capabilities.unwrap().drop_capabilities, ["ALL"]);

    let non_root = json!({"securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]});
    let image = |uid: Option<i64>, username: &str| ImageSeen { uid, username: username.into(), ..ImageSeen::default() };
    assert!(config(non_root.clone(), image(Some(10), "")).is_ok());
    for refused in [image(None, ""), image(Some(0), ""), image(None, "app")] {
        assert!(config(non_root.clone(), refused.clone()).is_err(), "{refused:?}");
    }
}
