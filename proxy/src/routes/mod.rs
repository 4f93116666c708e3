//! Routes to the pods of other machines: a machine's pod range lies behind that machine's address.
//!
//! It decides which ranges go where. It changes only routes that carry its protocol number. A machine that is not on one
//! link with this one is left to the network between them, as Kubernetes leaves every machine to it.

mod kernel;

use crate::model::{null_as_default, slim_meta};
use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_client::{Client, Informer, InformerOptions};
use kernel::Table;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Marks the routes as this loop's own (`ip route … proto`); below 192, above those that Debian's rt_protos names.
pub const PROTOCOL: &str = "144";

/// Machines that join together are routed to together.
const GATHER: Duration = Duration::from_millis(20);
const RESYNC: Duration = Duration::from_secs(60);

/// Of a Node: where it is, and the range of its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    #[serde(rename = "podCIDR", deserialize_with = "null_as_default")]
    pub pod_cidr: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<NodeAddress>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    pub r#type: String,
    pub address: String,
}

impl Object for Node {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Node {
    fn internal_ip(&self) -> Option<Ipv4Addr> {
        self.status.addresses.iter().filter(|entry| entry.r#type == "InternalIP").find_map(|e| e.address.parse().ok())
    }
}

/// Range → the machine's address. The text is as the kernel prints it.
pub type Routes = BTreeMap<String, Ipv4Addr>;

/// What this machine needs. Machines without a range or an address yet are left out, as are those that share this
/// machine's address (several machines in one network namespace).
pub fn wanted<'a>(nodes: impl IntoIterator<Item = &'a Node> + Clone, own: &str) -> Routes {
    let own_ip = nodes.clone().into_iter().find(|node| node.metadata.name == own).and_then(Node::internal_ip);
    let others = nodes.into_iter().filter(|node| node.metadata.name != own);
    let route = |node: &Node| Some((canonical(&node.spec.pod_cidr)?, node.internal_ip()?));
    others.filter_map(route).filter(|(_, via)| Some(*via) != own_ip).collect()
}

/// `10.244.3.0/24`; a range of one address loses its `/32`, as `ip` prints it.
fn canonical(range: &str) -> Option<String> {
    let (base, length) = range.split_once('/')?;
    let (base, length): (Ipv4Addr, u32) = (base.parse().ok()?, length.parse().ok()?);
    let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
    let base = Ipv4Addr::from(u32::from(base) & mask);
    Some(if length == 32 { base.to_string() } else { format!("{base}/{length}") })
}

/// Steps from `old` to `new`: what to set, and which ranges to forget.
fn diff<'a>(old: &'a Routes, new: &'a Routes) -> (Vec<(&'a str, Ipv4Addr)>, Vec<&'a str>) {
    let set =
        new.iter().filter(|(range, via)| old.get(*range) != Some(*via)).map(|(range, via)| (range.as_str(), *via));
    let forget = old.keys().filter(|range| !new.contains_key(*range)).map(String::as_str);
    (set.collect(), forget.collect())
}

/// Runs until cancelled. The routes stay, so that pods reach each other without a control plane.
pub async fn run(node: String, program: PathBuf, client: Client, cancel: CancellationToken) {
    let nodes: Informer<Node> = Informer::start(client, &kinds::NODE, InformerOptions::all(), cancel.clone());
    let mut changes = nodes.subscribe();
    let mut agent = Agent { table: Table::new(program), known: None, refused: BTreeSet::new() };
    if cancel.run_until_cancelled(nodes.synced()).await.is_none() {
        return;
    }
    loop {
        agent.bring(&nodes.list(), &node).await;
        tokio::select! {
            () = cancel.cancelled() => return,
            change = changes.recv() => {
                if change.is_none() {
                    return;
                }
                tokio::time::sleep(GATHER).await;
                while changes.try_recv().is_some() {}
            }
            () = tokio::time::sleep(RESYNC) => agent.known = None,
        }
    }
}

struct Agent {
    table: Table,
    /// What the kernel holds; `None` when it has to be read.
    known: Option<Routes>,
    /// What the kernel refused, so that it is said once.
    refused: BTreeSet<String>,
}

impl Agent {
    async fn bring(&mut self, nodes: &[Arc<Node>], own: &str) {
        let new = wanted(nodes.iter().map(AsRef::as_ref), own);
        let old = match self.known.take() {
            Some(known) => known,
            None => match self.table.read().await {
                Ok(found) => found,
                Err(error) => return tracing::error!(error, "reading routes failed; it is tried again"),
            },
        };
        let (set, forget) = diff(&old, &new);
        let mut failed = false;
        for range in forget {
            failed |= self.table.delete(range).await.is_err();
        }
        for (range, via) in set {
            if let Err(error) = self.table.replace(range, via).await {
                failed = true;
                if self.refused.insert(format!("{range} {via}")) {
                    tracing::warn!(range, %via, error, "no route of its own to these pods: the network has to carry them");
                }
            }
        }
        // A failure is looked at again at the next change or resync.
        self.known = (!failed).then_some(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, range: &str, ip: &str) -> Node {
        let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": ip}]);
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"podCIDR": range}, "status": {"addresses": addresses}
        }))
        .unwrap()
    }

    #[test]
    fn others_ranges_go_through_their_machines() {
        let nodes = [
            node("a", "10.244.0.0/24", "192.0.2.1"),
            node("b", "10.244.1.0/24", "192.0.2.2"),
            node("new", "", "192.0.2.3"),
            node("lost", "10.244.9.0/24", "not an address"),
            node("twin", "10.244.8.0/24", "192.0.2.1"),
        ];
        let expect = Routes::from([("10.244.1.0/24".to_owned(), Ipv4Addr::new(192, 0, 2, 2))]);
        assert_eq!(wanted(&nodes, "a"), expect);
        assert_eq!(wanted(&nodes, "b").len(), 2, "a and its twin");
    }

    #[test]
    fn ranges_are_written_as_the_kernel_prints_them() {
        for (given, expect) in [
            ("10.244.1.7/24", Some("10.244.1.0/24")),
            ("10.0.0.1/32", Some("10.0.0.1")),
            ("10.0.0.0/33", None),
            ("fd00::/64", None),
            ("", None),
        ] {
            assert_eq!(canonical(given).as_deref(), expect, "{given}");
        }
    }

    #[test]
    fn only_differences_are_steps() {
        let route = |range: &str, last: u8| (range.to_owned(), Ipv4Addr::new(192, 0, 2, last));
        let old = Routes::from([route("a", 1), route("b", 2), route("c", 3)]);
        let new = Routes::from([route("a", 1), route("b", 9), route("d", 4)]);
        let (set, forget) = diff(&old, &new);
        assert_eq!(set, [("b", Ipv4Addr::new(192, 0, 2, 9)), ("d", Ipv4Addr::new(192, 0, 2, 4))]);
        assert_eq!(forget, ["c"]);
        let (set, forget) = diff(&new, &new);
        assert!(set.is_empty() && forget.is_empty(), "settled");
    }
}
