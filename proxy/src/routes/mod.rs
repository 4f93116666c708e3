//! Routes to the pods of other machines: a machine's pod range lies behind that machine's address.
//!
//! It decides which ranges go where. It changes only routes that carry its protocol number, and sets none for a range that
//! already has a route of another: an administrator's, or a routing daemon's. A machine that is not on one
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
use tokio::time::Instant;
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
    let mut agent = Agent::new(Table::new(program));
    if cancel.run_until_cancelled(nodes.synced()).await.is_none() {
        return;
    }
    let mut resync = Instant::now() + RESYNC;
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
            () = tokio::time::sleep_until(resync) => {
                agent.look_again();
                resync = Instant::now() + RESYNC;
            }
        }
    }
}

/// The kernel's routes.
trait Kernel {
    /// Those of this loop.
    async fn read(&mut self) -> Result<Routes, String>;
    /// A route of another protocol for exactly this range, in words.
    async fn other(&mut self, range: &str) -> Result<Option<String>, String>;
    async fn replace(&mut self, range: &str, via: Ipv4Addr) -> Result<(), String>;
    async fn delete(&mut self, range: &str) -> Result<(), String>;
}

struct Agent<K> {
    table: K,
    /// What the kernel holds; `None` when it has to be read.
    known: Option<Routes>,
    /// What was not set, and waits for the resync.
    refused: Routes,
    /// What was not set and said to be so.
    said: BTreeSet<String>,
}

impl<K: Kernel> Agent<K> {
    fn new(table: K) -> Self {
        Agent { table, known: None, refused: Routes::new(), said: BTreeSet::new() }
    }

    /// Trusts nothing that was known, and tries again what was refused.
    fn look_again(&mut self) {
        self.known = None;
        self.refused.clear();
    }

    async fn bring(&mut self, nodes: &[Arc<Node>], own: &str) {
        let new = wanted(nodes.iter().map(AsRef::as_ref), own);
        let mut known = match self.known.take() {
            Some(known) => known,
            None => match self.table.read().await {
                Ok(found) => found,
                Err(error) => return tracing::error!(error, "reading routes failed; it is tried again"),
            },
        };
        let old = known.clone();
        let (set, forget) = diff(&old, &new);
        for range in forget {
            // What could not be deleted stays known, and is tried again at the next change.
            if self.table.delete(range).await.is_ok() {
                known.remove(range);
            }
        }
        for (range, via) in set {
            if self.refused.get(range) == Some(&via) {
                continue;
            }
            match self.set(range, via).await {
                Ok(()) => drop(known.insert(range.to_owned(), via)),
                Err(why) => self.refuse(range, via, &why),
            }
        }
        self.known = Some(known);
    }

    async fn set(&mut self, range: &str, via: Ipv4Addr) -> Result<(), String> {
        if let Some(other) = self.table.other(range).await? {
            return Err(format!("there is a route of {other}, which is left alone"));
        }
        self.table.replace(range, via).await?;
        self.said.remove(&format!("{range} {via}"));
        self.refused.remove(range);
        Ok(())
    }

    fn refuse(&mut self, range: &str, via: Ipv4Addr, why: &str) {
        self.refused.insert(range.to_owned(), via);
        if self.said.insert(format!("{range} {via}")) {
            tracing::warn!(range, %via, why, "no route of its own to these pods: the network has to carry them");
        }
    }
}

#[cfg(test)]
mod tests;
