//! From a pod's specification to the messages the runtime takes. Pure: everything looked up is an argument.

pub mod container;
pub mod dns;
pub mod downward;
pub mod env;
pub mod hosts;
pub mod sandbox;

#[cfg(test)]
mod tests;

use crate::config::Config;

/// What the messages need to know of the machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub config_cgroup_root: String,
    pub memory_capacity: i64,
    pub cpu_capacity_milli: i64,
    /// The machine's own resolver: (servers, searches, options).
    pub resolver: dns::Resolver,
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    pub host_ips: Vec<String>,
    pub node_name: String,
    /// The cluster's identity, written on every sandbox.
    pub cluster: String,
}

impl Machine {
    pub fn new(config: &Config) -> Self {
        Self {
            config_cgroup_root: config.cgroup_root.clone(),
            cluster_dns: config.cluster_dns.iter().map(ToString::to_string).collect(),
            cluster_domain: config.cluster_domain.clone(),
            host_ips: config.node_ips.iter().map(ToString::to_string).collect(),
            node_name: config.node_name.clone(),
            ..Self::default()
        }
    }
}
