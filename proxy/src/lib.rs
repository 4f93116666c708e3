//! The node proxy and node DNS: Services become rules in this node's kernel, and names become addresses.
//!
//! Both work from one copy of Services and EndpointSlices. Neither asks the control plane per request, and the kernel's
//! rules and the DNS go on without it. SCTP and IPv6 Services are not supported yet.

pub mod compile;
pub mod conntrack;
pub mod discovery;
pub mod dns;
pub mod model;
pub mod nft;
pub mod routes;
pub mod ruleset;

mod agent;

pub use agent::{Error, run};

use std::path::PathBuf;

/// What the proxy of one node is told.
#[derive(Clone, Debug)]
pub struct Config {
    pub node_name: String,
    /// The nftables table (family inet) that it owns.
    pub table: String,
    pub service_cidr: String,
    pub cluster_cidr: String,
    /// The last copy on disk, which node DNS reads.
    pub discovery: PathBuf,
    /// Pods reach the world outside the cluster under the node's address.
    pub masquerade_egress: bool,
    pub nft: PathBuf,
    pub conntrack: PathBuf,
    pub ip: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: String::new(),
            table: "gantry".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            cluster_cidr: "10.244.0.0/16".to_owned(),
            discovery: "/var/lib/gantry/node/discovery.json".into(),
            masquerade_egress: true,
            nft: "/usr/sbin/nft".into(),
            conntrack: "/usr/sbin/conntrack".into(),
            ip: "/usr/sbin/ip".into(),
        }
    }
}
