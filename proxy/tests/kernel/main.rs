//! The rulesets in a real kernel, with real connections, in network namespaces of the test's own.
//! Needs root, nftables, iproute2 and util-linux.

#![expect(clippy::unwrap_used, reason = "clippy sees the helpers of an integration test as ordinary code")]

mod net;

use gantry_proxy::compile::compile;
use gantry_proxy::conntrack;
use gantry_proxy::model::{EndpointSlice, Service};
use gantry_proxy::nft::{Layout, Table};
use gantry_proxy::ruleset::{Ruleset, diff, stale_flows};
use net::Net;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::IpAddr;

const VIP: &str = "10.96.1.1:80";
const NODE_PORT: &str = "192.0.2.9:30080";

/// A node with two pods behind veth links, as the `ptp` plugin connects them.
struct Node {
    node: Net,
    pods: [Net; 2],
    table: Table,
    held: Ruleset,
    /// Its name; the pods are endpoints of `m1`.
    name: &'static str,
}

impl Node {
    async fn new() -> Self {
        let (node, pods) = (Net::new(), [Net::new(), Net::new()]);
        node.ip("address add 192.0.2.9/32 dev lo");
        node.ip("link add name dns type bridge");
        node.ip("address add 10.96.0.10/16 dev dns");
        node.ip("link set dev dns up");
        for (n, pod) in pods.iter().enumerate() {
            let (host, ip) = (format!("veth{n}"), format!("10.244.0.{}", n + 5));
            node.ip(&format!("link add name {host} type veth peer name eth0 netns {}", pod.pid()));
            node.ip(&format!("address add 10.244.0.1/32 dev {host}"));
            node.ip(&format!("link set dev {host} up"));
            node.ip(&format!("route add {ip}/32 dev {host}"));
            pod.ip(&format!("address add {ip}/24 dev eth0"));
            pod.ip("link set dev eth0 up");
            pod.ip("route delete 10.244.0.0/24 dev eth0");
            pod.ip("route add 10.244.0.1/32 dev eth0");
            pod.ip("route add default via 10.244.0.1");
        }
        let forwarding = node.command("sysctl").args(["-qw", "net.ipv4.ip_forward=1"]).status().unwrap();
        assert!(forwarding.success());
        pods[0].serve("10.244.0.5:8080", "a");
        pods[1].serve("10.244.0.6:8080", "b");
        pods[0].serve_datagrams("10.244.0.5:8080", "a");
        pods[1].serve_datagrams("10.244.0.6:8080", "b");
        let layout = Layout {
            table: "gantry".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            cluster_cidr: "10.244.0.0/16".to_owned(),
            masquerade_egress: true,
        };
        let table = Table::new(node.wrapper("nft"), layout);
        assert_eq!(table.read().await.unwrap(), None);
        table.rebuild(&Ruleset::default()).await.unwrap();
        Self { node, pods, table, held: Ruleset::default(), name: "m1" }
    }

    /// Applies the difference, and reads back that the kernel holds the wanted state.
    async fn become_(&mut self, spec: Json, endpoints: &[u8]) {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "a"}, "spec": spec})).unwrap();
        let endpoints: Vec<Json> =
            endpoints.iter().map(|n| json!({"addresses": [format!("10.244.0.{n}")], "nodeName": "m1"})).collect();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "a", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"port": 8080, "protocol": "TCP"}, {"port": 8080, "protocol": "UDP"}],
        }))
        .unwrap();
        let wanted = compile(&[service], &[slice], self.name);
        self.table.apply(&diff(&self.held, &wanted)).await.unwrap();
        conntrack::forget(&self.node.wrapper("conntrack"), &stale_flows(&self.held, &wanted)).await;
        let read = self.table.read().await.unwrap().expect("the table is there");
        assert_eq!(read.elements, wanted.elements);
        let chains = |ruleset: &Ruleset| -> Vec<(String, BTreeSet<String>)> {
            let named = ruleset.sticky.iter();
            named.map(|(f, s)| (format!("{f:?}"), s.backends.iter().map(|b| format!("{b:?}")).collect())).collect()
        };
        assert_eq!(chains(&read), chains(&wanted));
        self.held = wanted;
    }
}

fn cluster_ip() -> Json {
    json!({"clusterIP": "10.96.1.1", "ports": [{"port": 80}]})
}

fn node_port(affinity: &str) -> Json {
    json!({"type": "NodePort", "clusterIP": "10.96.1.1", "sessionAffinity": affinity,
        "ports": [{"port": 80, "nodePort": 30080}]})
}

fn both() -> BTreeSet<String> {
    ["a".to_owned(), "b".to_owned()].into()
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_come_and_go() {
    let mut node = Node::new().await;
    node.become_(cluster_ip(), &[5, 6]).await;
    assert_eq!(node.node.ask_often(VIP, 40), both(), "from the node");
    assert_eq!(node.pods[0].ask_often(VIP, 40), both(), "from a pod, itself included");
    node.become_(cluster_ip(), &[6]).await;
    assert_eq!(node.node.ask_often(VIP, 10), ["b".to_owned()].into());
    node.become_(cluster_ip(), &[]).await;
    assert_eq!(node.node.ask(VIP), Err(ErrorKind::ConnectionRefused));
    assert_eq!(node.pods[1].ask(VIP), Err(ErrorKind::ConnectionRefused));
    node.become_(cluster_ip(), &[5]).await;
    assert_eq!(
        node.pods[1].ask(VIP).unwrap(),
        ("a".to_owned(), IpAddr::from([10, 244, 0, 6])),
        "the pod's own address"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reaches_itself_and_sees_the_node_as_its_client() {
    let mut node = Node::new().await;
    node.become_(cluster_ip(), &[5]).await;
    let (name, client) = node.pods[0].ask(VIP).unwrap();
    assert_eq!((name.as_str(), client), ("a", IpAddr::from([10, 244, 0, 1])));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_serves_is_refused_at_once() {
    let mut node = Node::new().await;
    node.become_(cluster_ip(), &[5]).await;
    for address in ["10.96.1.1:81", "10.96.77.77:80"] {
        assert_eq!(node.node.ask(address), Err(ErrorKind::ConnectionRefused), "{address} from the node");
        assert_eq!(node.pods[0].ask(address), Err(ErrorKind::ConnectionRefused), "{address} from a pod");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_ports_lead_to_endpoints() {
    let mut node = Node::new().await;
    node.become_(node_port("None"), &[5, 6]).await;
    assert_eq!(node.node.ask_often(NODE_PORT, 40), both());
    assert_eq!(node.pods[0].ask_often(NODE_PORT, 40), both());
    node.become_(node_port("None"), &[]).await;
    assert_eq!(node.pods[0].ask(NODE_PORT), Err(ErrorKind::ConnectionRefused));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_local_is_for_clients_outside() {
    let outside = Net::new();
    let mut node = Node::new().await;
    node.node.ip(&format!("link add name uplink type veth peer name eth0 netns {}", outside.pid()));
    node.node.ip("address add 198.51.100.1/24 dev uplink");
    node.node.ip("link set dev uplink up");
    outside.ip("address add 198.51.100.2/24 dev eth0");
    outside.ip("link set dev eth0 up");
    outside.ip("route add default via 198.51.100.1");
    let local = |affinity: &str| {
        let mut spec = node_port(affinity);
        spec["externalTrafficPolicy"] = json!("Local");
        spec
    };
    node.become_(local("None"), &[5, 6]).await;
    assert_eq!(outside.ask(NODE_PORT).unwrap().1, IpAddr::from([198, 51, 100, 2]), "the client's own address");
    // The endpoints are another machine's: nobody outside reaches them through this one.
    node.name = "m2";
    for affinity in ["None", "ClientIP"] {
        node.become_(local(affinity), &[5, 6]).await;
        assert!(outside.ask(NODE_PORT).is_err());
    }
    node.become_(local("None"), &[5, 6]).await;
    assert_eq!(node.node.ask_often(NODE_PORT, 40), both());
    node.become_(local("None"), &[5]).await;
    assert_eq!(node.pods[1].ask(NODE_PORT).unwrap().1, IpAddr::from([10, 244, 0, 6]), "the pod's own address");
    assert_eq!(node.node.ask(NODE_PORT).unwrap().1, IpAddr::from([10, 244, 0, 1]), "the node's, masqueraded");
    node.become_(local("None"), &[]).await;
    assert_eq!(outside.ask(NODE_PORT), Err(ErrorKind::ConnectionRefused));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_affinity_stay_until_their_endpoint_leaves() {
    let mut node = Node::new().await;
    node.become_(node_port("ClientIP"), &[5, 6]).await;
    for client in [&node.node, &node.pods[0], &node.pods[1]] {
        assert_eq!(client.ask_often(VIP, 20).len(), 1);
    }
    let first = node.pods[0].ask(VIP).unwrap().0;
    let (stays, leaves) = if first == "a" { (6, "a") } else { (5, "b") };
    node.become_(node_port("ClientIP"), &[stays]).await;
    let next = node.pods[0].ask_often(VIP, 10);
    assert!(next.len() == 1 && !next.contains(leaves), "{next:?}");
    node.become_(node_port("ClientIP"), &[5, 6]).await;
    assert_eq!(node.pods[0].ask_often(VIP, 10), next, "the client stays where it is");
    node.become_(cluster_ip(), &[5, 6]).await;
    assert_eq!(node.pods[0].ask_often(VIP, 40), both());
    node.become_(json!({"clusterIP": "None"}), &[]).await;
    assert_eq!(node.held, Ruleset::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_of_datagrams_moves_when_its_endpoint_leaves() {
    let mut node = Node::new().await;
    let udp = json!({"clusterIP": "10.96.1.1", "ports": [{"port": 53, "protocol": "UDP"}]});
    let socket = node.pods[1].datagram_socket();
    let ask = |socket: &std::net::UdpSocket| -> String {
        socket.send_to(b"?", "10.96.1.1:53").unwrap();
        let mut buffer = [0u8; 8];
        let length = socket.recv(&mut buffer).expect("somebody answers");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    node.become_(udp.clone(), &[5]).await;
    assert_eq!((ask(&socket), ask(&socket)), ("a".to_owned(), "a".to_owned()));
    node.become_(udp.clone(), &[6]).await;
    assert_eq!(ask(&socket), "b", "the same flow, another endpoint");
    node.become_(udp.clone(), &[5, 6]).await;
    assert_eq!(ask(&socket), "b", "a flow stays while its endpoint is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_layout_is_made_anew() {
    let node = Node::new().await;
    let other = Layout {
        table: "gantry".to_owned(),
        service_cidr: "10.97.0.0/16".to_owned(),
        cluster_cidr: "10.244.0.0/16".to_owned(),
        masquerade_egress: false,
    };
    let table = Table::new(node.node.wrapper("nft"), other);
    assert_eq!(table.read().await.unwrap(), None);
    table.rebuild(&node.held).await.unwrap();
    assert_eq!(table.read().await.unwrap(), Some(Ruleset::default()));
    assert_eq!(node.table.read().await.unwrap(), None);
}
