//! Gives every machine its range of pod addresses (`spec.podCIDR`).

mod cidr;
mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use cidr::{Cidr, Ranges};

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::plan::Plan;

/// The loop's edge.
pub struct NodeIpam;

impl Controller for NodeIpam {
    type Observed = types::Observed;
    const NAME: &'static str = "node-ipam";
    const COMPONENT: &'static str = "cidrAllocator";
    const WORKERS: usize = 1;

    fn new(_env: &Arc<Env>) -> Self {
        NodeIpam
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.nodes, |_, new| match new {
            Some(node) if node.spec.pod_cidr.is_none() => vec![Key::all()],
            Some(_) => Vec::new(),
            None => vec![Key::all()],
        });
    }

    fn keys(_env: &Env) -> Vec<Key> {
        vec![Key::all()]
    }

    async fn observe(&self, env: &Env, _: &Key, _: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        Ok(Some(types::Observed { nodes: env.informers.nodes.list(), ranges: env.config.ranges }))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}
