//! The ranges that were given out and are not seen on their machines yet. A write whose answer was lost may have been carried out,
//! may be carried out later, and does not show in the copy: until the machine's own state shows a range, or the machine is
//! gone, its range is nobody else's and it is offered no other. Decides nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::meta::Uid;

use super::cidr::Cidr;
use crate::objects::Node;
use crate::plan::{Plan, Verb};

/// By the machine's uid.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeMap<Uid, Cidr>);

impl Given {
    /// Takes in what a plan is about to write, before anything of it is sent.
    pub fn note(&mut self, plan: &Plan) {
        for write in plan.writes() {
            if let Verb::Patch { patch: gantry_client::Patch::Merge(body), .. } = &write.verb
                && let Some(uid) = body["metadata"]["uid"].as_str()
                && let Some(range) = body["spec"]["podCIDR"].as_str().and_then(Cidr::parse)
            {
                self.0.insert(uid.into(), range);
            }
        }
    }

    /// Forgets what the machines themselves show by now.
    pub fn settle(&mut self, nodes: &[Arc<Node>]) {
        let waiting = nodes.iter().filter(|node| node.spec.pod_cidr.is_none());
        let waiting: BTreeSet<&Uid> = waiting.map(|node| &node.metadata.uid).collect();
        self.0.retain(|uid, _| waiting.contains(uid));
    }

    /// The range that this machine was to get.
    pub fn to(&self, uid: &Uid) -> Option<Cidr> {
        self.0.get(uid).copied()
    }

    pub fn ranges(&self) -> impl Iterator<Item = Cidr> {
        self.0.values().copied()
    }
}
