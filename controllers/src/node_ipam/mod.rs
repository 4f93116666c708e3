//! Gives every machine its range of pod addresses (`spec.podCIDR`).

mod cidr;
mod core;
mod given;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use cidr::{Cidr, Ranges};
use given::Given;
use parking_lot::Mutex;

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::Node;
use crate::plan::Plan;

/// The loop's edge.
pub struct NodeIpam {
    given: Mutex<Given>,
}

impl Controller for NodeIpam {
    type Observed = types::Observed;
    const NAME: &'static str = "node-ipam";
    const COMPONENT: &'static str = "cidrAllocator";
    const WORKERS: usize = 1;

    fn new(_env: &Arc<Env>) -> Self {
        NodeIpam { given: Mutex::default() }
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.nodes, |old, new| {
            let range = |node: &Node| node.spec.pod_cidr.clone();
            let matters = match (old, new) {
                (None, Some(node)) => node.spec.pod_cidr.is_none(),
                // A machine that waits for a range, and reports meanwhile, waits no less.
                (Some(old), Some(new)) => range(old) != range(new),
                (_, None) => true,
            };
            if matters { vec![Key::all()] } else { Vec::new() }
        });
    }

    fn keys(_env: &Env) -> Vec<Key> {
        vec![Key::all()]
    }

    async fn observe(&self, env: &Env, _: &Key, _: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        let nodes = env.informers.nodes.list();
        let mut given = self.given.lock();
        given.settle(&nodes);
        Ok(Some(types::Observed { nodes, ranges: env.config.ranges, given: given.clone() }))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn sends(&self, plan: &Plan) {
        self.given.lock().note(plan);
    }
}
