//! Which machines a pod asks for or prefers by their labels and names: `nodeSelector` and node affinity.

use super::{Checked, InSet, Preparing, Reason, Scale, Score, Scored};
use crate::pod::Spec;
use crate::snapshot::{Machine, NodeRule, NodeSetId, Snapshot};

/// Both the selector and one of the affinity's terms.
pub fn rule(spec: &Spec) -> NodeRule {
    NodeRule { selector: spec.node_selector.clone(), terms: spec.node_terms.clone(), ..NodeRule::default() }
}

pub fn check(preparing: &mut Preparing) -> Checked {
    let rule = rule(preparing.info);
    if rule == NodeRule::default() {
        return None;
    }
    Some(Box::new(InSet { set: preparing.set(rule), reason: Reason::NodeAffinity }))
}

/// Each term's machines, and what it is worth.
#[derive(Debug)]
struct Preferred(Vec<(i64, NodeSetId)>);

pub fn score(preparing: &mut Preparing) -> Scored {
    let preferences = preparing.info.node_preferences.clone();
    let rule = |term| NodeRule { terms: Some(vec![term]), ..NodeRule::default() };
    let sets: Vec<_> = preferences.into_iter().map(|(weight, term)| (weight, preparing.set(rule(term)))).collect();
    if sets.is_empty() { None } else { Some(Box::new(Preferred(sets))) }
}

impl Score for Preferred {
    fn scale(&self) -> Scale {
        Scale::More
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        let sets: Vec<_> = self.0.iter().map(|(weight, set)| (*weight, snapshot.members(*set))).collect();
        let worth =
            |m: &Machine| sets.iter().filter(|(_, members)| members.get(*m)).map(|(weight, _)| weight).sum::<i64>();
        scores.extend(machines.iter().map(worth));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Cluster, owned};

    #[test]
    fn selector_terms_and_preferences() {
        let mut cluster = Cluster::default();
        cluster.machine("a", json!({"metadata": {"labels": {"zone": "a"}}}));
        cluster.machine("b", json!({"metadata": {"labels": {"zone": "b"}}}));
        let no = |m: &str| (m.to_owned(), Reason::NodeAffinity);
        let pod = cluster.pod("p", json!({"nodeSelector": {"zone": "a"}}));
        assert_eq!(cluster.refused(check, &pod), [no("b")]);
        let term = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let required = |terms: serde_json::Value| {
            json!({"affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
        };
        let pod = cluster.pod("p", required(json!([term("b")])));
        assert_eq!(cluster.refused(check, &pod), [no("a")]);
        let pod = cluster.pod("p", required(json!([term("b"), term("a")])));
        assert_eq!(cluster.refused(check, &pod), []);
        let name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
        let pod = cluster.pod("p", required(name));
        assert_eq!(cluster.refused(check, &pod), [no("a")]);
        let preferred = json!([{"weight": 5, "preference": term("b")}]);
        let pod = cluster.pod(
            "p",
            json!({"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
        );
        assert_eq!(cluster.refused(check, &pod), []);
        assert_eq!(cluster.scores(score, &pod), [("a", 0), ("b", 100)].map(owned));
    }
}
