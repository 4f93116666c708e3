//! Decides which range of pod addresses each machine gets: the lowest free one of the cluster's, once and for ever. Never
//! changes a range that a machine has, nor one that it may have got.

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::EventType;
use serde_json::json;

use super::cidr::Cidr;
use super::types::Observed;
use crate::owner;
use crate::plan::{Plan, Write};

/// Machines without a range that are told of at each look: thousands would say the same every half minute.
const NOTED: usize = 16;

pub fn reconcile(observed: &Observed, _now: Timestamp) -> Plan {
    let ranges = observed.ranges;
    let mut taken = vec![false; ranges.count() as usize];
    let mut take = |cidr: Cidr| ranges.overlapped_by(cidr).for_each(|index| taken[index as usize] = true);
    let shown = observed.nodes.iter().flat_map(|node| node.spec.pod_cidrs.iter().chain(&node.spec.pod_cidr));
    let shown: Vec<Cidr> = shown.filter_map(|text| Cidr::parse(text)).collect();
    shown.iter().copied().chain(observed.given.ranges()).for_each(&mut take);
    // What somebody else wrote on another machine meanwhile is not offered again.
    let again = |uid| observed.given.to(uid).filter(|range| !shown.iter().any(|other| other.overlaps(*range)));
    let mut free = (0..ranges.count()).filter(|index| !taken[*index as usize]);
    let mut plan = Plan::default();
    let mut writes = Vec::new();
    for node in &observed.nodes {
        let meta = &node.metadata;
        if node.spec.pod_cidr.is_some() || meta.deletion_timestamp.is_some() {
            continue;
        }
        match again(&meta.uid).or_else(|| free.next().map(|index| ranges.get(index))) {
            Some(range) => {
                let range = range.to_string();
                let body = json!({"metadata": {"uid": meta.uid}, "spec": {"podCIDR": range, "podCIDRs": [range]}});
                writes.push(Write::merge(&kinds::NODE, "", &meta.name, body));
            }
            None => {
                let message = format!("Node {} status is now: CIDRNotAvailable", meta.name);
                if plan.events.len() < NOTED {
                    plan.note(&owner::reference(&kinds::NODE, meta), EventType::Normal, "CIDRNotAvailable", message);
                }
                plan.requeue_in(std::time::Duration::from_secs(30));
            }
        }
    }
    plan.push_all(writes);
    plan
}
