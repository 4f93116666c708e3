//! Sets of machines that a rule about machines alone lets in: node selectors, affinity terms, tolerated taints. Each distinct
//! rule is kept once as bits; a changed machine is asked again, the others are not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Labels;
use crate::api::{Taint, Toleration};
use crate::bits::Bits;
use crate::selector::{Term, all_equal};

pub type NodeSetId = usize;

/// What a machine shows to such rules.
pub(super) struct Face<'a> {
    pub name: &'a str,
    pub labels: &'a Labels,
    pub taints: &'a [Arc<Taint>],
    pub cordoned: bool,
}

/// All parts hold; an absent part asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRule {
    pub selector: BTreeMap<String, String>,
    /// One of the terms matches.
    pub terms: Option<Vec<Term>>,
    /// Every hard taint is tolerated.
    pub tolerations: Option<Vec<Toleration>>,
    /// Not cordoned, unless these tolerate that.
    pub open_to: Option<Vec<Toleration>>,
    /// The machine has all of these labels.
    pub has_keys: Vec<String>,
}

impl NodeRule {
    fn admits(&self, face: &Face) -> bool {
        all_equal(&self.selector, face.labels)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(face.name, face.labels)))
            && self.tolerations.as_ref().is_none_or(|own| untolerated(own, face.taints).is_none())
            && (!face.cordoned || self.open_to.as_ref().is_none_or(|own| tolerates_cordon(own)))
            && self.has_keys.iter().all(|key| face.labels.get(key).is_some())
    }
}

/// The first hard taint that is in the way.
pub fn untolerated<'a>(tolerations: &[Toleration], taints: &'a [Arc<Taint>]) -> Option<&'a Arc<Taint>> {
    let hard = |t: &&Arc<Taint>| t.effect == "NoSchedule" || t.effect == "NoExecute";
    taints.iter().filter(hard).find(|taint| !tolerates(tolerations, taint))
}

/// Kubernetes: "Taints and Tolerations".
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| {
        let effect = t.effect.is_empty() || t.effect == taint.effect;
        let key = if t.key.is_empty() { t.operator == "Exists" } else { t.key == taint.key };
        effect && key && (t.operator == "Exists" || (matches!(&*t.operator, "" | "Equal") && t.value == taint.value))
    })
}

/// A cordoned machine counts as if it had this taint, as Kubernetes has it.
pub fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let key = "node.kubernetes.io/unschedulable".to_owned();
    tolerates(tolerations, &Taint { key, value: String::new(), effect: "NoSchedule".to_owned() })
}

#[derive(Debug, Default)]
struct NodeSet {
    rule: Arc<NodeRule>,
    members: Bits,
    users: u32,
}

#[derive(Debug, Default)]
pub(super) struct NodeSets {
    by_rule: HashMap<Arc<NodeRule>, NodeSetId>,
    sets: Vec<NodeSet>,
    unused: Vec<NodeSetId>,
}

impl NodeSets {
    /// The set, with one more user.
    pub fn acquire<'a>(&mut self, rule: NodeRule, machines: impl Iterator<Item = (usize, Face<'a>)>) -> NodeSetId {
        if let Some(known) = self.by_rule.get(&rule) {
            self.sets[*known].users += 1;
            return *known;
        }
        let rule = Arc::new(rule);
        let mut set = NodeSet { rule: rule.clone(), members: Bits::default(), users: 1 };
        for (machine, face) in machines {
            set.members.set(machine, rule.admits(&face));
        }
        let id = self.unused.pop().unwrap_or_else(|| {
            self.sets.push(NodeSet::default());
            self.sets.len() - 1
        });
        self.sets[id] = set;
        self.by_rule.insert(rule, id);
        id
    }

    pub fn release(&mut self, id: NodeSetId) {
        self.sets[id].users -= 1;
        if self.sets[id].users == 0 {
            let gone = std::mem::take(&mut self.sets[id]);
            self.by_rule.remove(&gone.rule);
            self.unused.push(id);
        }
    }

    pub fn members(&self, id: NodeSetId) -> &Bits {
        &self.sets[id].members
    }

    /// The machine shows another face, or is gone.
    pub fn put(&mut self, machine: usize, face: Option<&Face>) {
        for set in self.sets.iter_mut().filter(|set| set.users > 0) {
            set.members.set(machine, face.is_some_and(|face| set.rule.admits(face)));
        }
    }
}
