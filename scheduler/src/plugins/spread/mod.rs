//! Topology spread constraints: how unevenly matching pods may lie over the values of a label.
//! (Kubernetes: "Pod Topology Spread Constraints".)

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::labels::Selector;

use super::{Check, Checked, Preparing, Reason, Scale, Score, Scored, node_affinity};
use crate::pod::{PodInfo, PodRule, Spread};
use crate::snapshot::{Machine, MatchRule, NodeRule, Placed, Snapshot, ViewId};

#[derive(Debug)]
struct Constraint {
    view: ViewId,
    key: Arc<str>,
    max_skew: i64,
    min_domains: i64,
    /// The pod counts itself.
    own: i64,
}

/// Machines whose pods count: those that have every key, and that the pod could use as far as the constraint wants that.
fn eligible(info: &PodInfo, rule: &Spread) -> NodeRule {
    let keys: BTreeSet<&String> =
        info.spread.iter().filter(|other| other.required == rule.required).map(|other| &other.topology_key).collect();
    NodeRule {
        has_keys: keys.into_iter().cloned().collect(),
        tolerations: rule.honor_taints.then(|| info.tolerations.clone()),
        ..if rule.honor_affinity { node_affinity::rule(info) } else { NodeRule::default() }
    }
}

fn constraints(preparing: &mut Preparing, required: bool) -> Vec<Constraint> {
    let info = preparing.info;
    let rules = info.spread.iter().filter(|rule| rule.required == required);
    rules
        .map(|rule| {
            let namespaces = BTreeSet::from([info.namespace.clone()]);
            // Kubernetes counts nobody for a selector that selects everybody.
            let all = rule.selector.is_everything();
            let selector = if all { Selector::nothing() } else { rule.selector.clone() };
            let matched = PodRule { selector, namespaces, namespace_selector: None };
            let matched = MatchRule { rules: vec![matched], living: true };
            Constraint {
                view: preparing.view(&matched, &rule.topology_key, Some(eligible(info, rule))),
                key: rule.topology_key.as_str().into(),
                max_skew: rule.max_skew,
                min_domains: rule.min_domains,
                own: i64::from(rule.selector.matches(&info.tags.labels)),
            }
        })
        .collect()
}

#[derive(Debug)]
struct Required(Vec<Constraint>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let constraints = constraints(preparing, true);
    if constraints.is_empty() { None } else { Some(Box::new(Required(constraints))) }
}

impl Constraint {
    /// By how much the machine's domain would lead the emptiest one; `None` when it is in no domain.
    fn skew(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed]) -> Option<i64> {
        let view = snapshot.view(self.view);
        let gone = i64::from(snapshot.viewed_of(self.view, machine, without));
        let near = i64::from(snapshot.viewed(self.view, machine)?) - gone;
        let few = view.domains() < self.min_domains;
        // Those that go leave this domain, which may become the emptiest.
        let least = if few {
            0
        } else if gone > 0 {
            i64::from(view.least()).min(near)
        } else {
            i64::from(view.least())
        };
        Some(near + self.own - least)
    }
}

impl Check for Required {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        self.0.iter().all(|c| c.skew(snapshot, machine, &[]).is_some_and(|skew| skew <= c.max_skew))
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        for constraint in &self.0 {
            match constraint.skew(snapshot, machine, without) {
                None => return reasons.push(Reason::NoDomain(constraint.key.clone())),
                Some(skew) if skew > constraint.max_skew => return reasons.push(Reason::Skew(constraint.key.clone())),
                Some(_) => {}
            }
        }
    }

    fn spans_machines(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Preferred(Vec<Constraint>);

pub fn score(preparing: &mut Preparing) -> Scored {
    let constraints = constraints(preparing, false);
    if constraints.is_empty() { None } else { Some(Box::new(Preferred(constraints))) }
}

impl Score for Preferred {
    fn scale(&self) -> Scale {
        Scale::Fewer
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        // A constraint over few domains weighs less a pod, as in Kubernetes: it has more pods in each.
        let weighted: Vec<(ViewId, i64, i64)> = self
            .0
            .iter()
            .map(|c| {
                let view = snapshot.view(c.view);
                let weight = ((view.domains() as f64 + 2.0).ln() * 64.0) as i64;
                (c.view, weight, i64::from(view.most()) + 1)
            })
            .collect();
        scores.extend(machines.iter().map(|machine| {
            // A machine outside of the topology is the last choice.
            let of = |(view, weight, outside): &(ViewId, i64, i64)| {
                weight * snapshot.viewed(*view, *machine).map_or(*outside, i64::from)
            };
            weighted.iter().map(of).sum::<i64>()
        }));
    }
}

#[cfg(test)]
mod tests;
