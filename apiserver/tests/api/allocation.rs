//! Cluster addresses and node ports: given once, honoured, freed.

use crate::harness::{Api, MERGE};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().unwrap() {
        body["spec"][key] = value.clone();
    }
    body
}

#[tokio::test]
async fn concurrent_creates_on_two_servers_never_share_an_address_or_a_port() {
    // 14 usable addresses, one of them the cluster's own; 12 ports.
    let api = Api::with(|config| {
        config.service_cidr = (Ipv4Addr::new(10, 9, 0, 0), 28);
        config.reserved_ips = vec![];
        config.node_ports = (31_000, 31_011);
    })
    .await;
    let twin = api.twin().await;
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let api = if n % 2 == 0 { api.clone() } else { twin.clone() };
            tokio::spawn(async move {
                api.post(SERVICES, &service(&format!("s{n}"), json!({"type": "NodePort"}))).await.ok()
            })
        })
        .collect();
    let (mut ips, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for task in tasks {
        let made = task.await.unwrap();
        let ip: Ipv4Addr = made["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
        assert_eq!(made["spec"]["clusterIPs"], json!([ip.to_string()]));
        assert!(ip.octets()[..3] == [10, 9, 0] && ip != Ipv4Addr::new(10, 9, 0, 1));
        assert!(ips.insert(ip), "{ip} twice");
        assert!(ports.insert(made["spec"]["ports"][0]["nodePort"].as_u64().unwrap()));
    }
    let full = api.post(SERVICES, &service("one-more", json!({"type": "NodePort"}))).await;
    assert_eq!(full.code, 500);
    assert!(full.failure().contains("range is full"), "{}", full.text);
    // What is deleted is given again.
    api.delete(&format!("{SERVICES}/s3"), &json!(null)).await.ok();
    api.get(SERVICES).await.ok();
    api.post(SERVICES, &service("again", json!({"type": "NodePort"}))).await.ok();
}

#[tokio::test]
async fn what_is_asked_for_is_honoured_or_refused() {
    let api = Api::new().await;
    let fixed = api.post(SERVICES, &service("a", json!({"clusterIP": "10.96.5.5"}))).await.ok();
    assert_eq!(fixed["spec"]["clusterIP"], "10.96.5.5");
    let taken = api.post(SERVICES, &service("b", json!({"clusterIP": "10.96.5.5"}))).await;
    assert_eq!(taken.code, 422);
    assert!(taken.failure().contains("provided IP is already allocated"), "{}", taken.text);
    assert_eq!(api.post(SERVICES, &service("b", json!({"clusterIP": "192.168.0.1"}))).await.code, 422);
    assert_eq!(api.get(&format!("{SERVICES}/b")).await.code, 404);
    let port = |name: &str, number: u64| {
        let ports = json!([{"port": 80, "nodePort": number}]);
        service(name, json!({"type": "NodePort", "ports": ports}))
    };
    api.post(SERVICES, &port("c", 30_080)).await.ok();
    let taken = api.post(SERVICES, &port("d", 30_080)).await;
    assert!(
        taken.failure().contains("spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        "{}",
        taken.text
    );
    let headless = api.post(SERVICES, &service("h", json!({"clusterIP": "None"}))).await.ok();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

#[tokio::test]
async fn changing_a_service_frees_what_it_no_longer_needs() {
    let api = Api::new().await;
    let path = format!("{SERVICES}/a");
    let made = api.post(SERVICES, &service("a", json!({"type": "NodePort"}))).await.ok();
    let (ip, port) = (made["spec"]["clusterIP"].clone(), made["spec"]["ports"][0]["nodePort"].clone());
    // A PUT that leaves them out keeps both.
    let kept = api.put(&path, &service("a", json!({"type": "NodePort"}))).await.ok();
    assert_eq!((&kept["spec"]["clusterIP"], &kept["spec"]["ports"][0]["nodePort"]), (&ip, &port));
    let plain = api.patch(MERGE, &path, &json!({"spec": {"type": "ClusterIP"}})).await.ok();
    assert_eq!((&plain["spec"]["clusterIP"], plain["spec"]["ports"][0].get("nodePort")), (&ip, None));
    let ports = json!([{"port": 80, "nodePort": port}]);
    api.post(SERVICES, &service("b", json!({"type": "NodePort", "ports": ports}))).await.ok();
    let external =
        json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null}});
    assert_eq!(api.patch(MERGE, &path, &external).await.ok()["spec"].get("clusterIP"), None);
    api.post(SERVICES, &service("c", json!({"clusterIP": ip}))).await.ok();
}

#[tokio::test]
async fn the_cluster_has_its_own_service_namespaces_and_classes() {
    let api = Api::with(|config| config.advertise = Some(("192.0.2.7".parse().unwrap(), 6443))).await;
    let kubernetes = api.get(&format!("{SERVICES}/kubernetes")).await.ok();
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.96.0.1");
    let slice = api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.ok();
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
    assert_eq!(
        api.get("/api/v1/namespaces/default/endpoints/kubernetes").await.ok()["subsets"][0]["ports"][0]["port"],
        6443
    );
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert_eq!(api.get(&format!("/api/v1/namespaces/{name}")).await.ok()["status"]["phase"], "Active");
    }
    let band = api.get("/apis/scheduling.k8s.io/v1/priorityclasses/batch").await.ok();
    assert_eq!((&band["value"], &band["metadata"]["labels"]["gantry.dev/band"]), (&json!(-1_000), &json!("batch")));
    let range = api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.ok();
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    api.twin().await;
    assert_eq!(api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.ok(), slice);
}
