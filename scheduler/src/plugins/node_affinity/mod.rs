//! Which machines a pod asks for or prefers by their labels and names: `nodeSelector` and node affinity.

use super::{Filter, Reason, Scale, Scorer};
use crate::pod::PodInfo;
use crate::selector::all_equal;
use crate::snapshot::{Machine, Snapshot};

/// Both the selector and one of the affinity's terms.
pub fn matches(snapshot: &Snapshot, pod: &PodInfo, machine: Machine) -> bool {
    let (name, labels) = (snapshot.name(machine), snapshot.labels(machine));
    all_equal(&pod.node_selector, labels)
        && pod.node_terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(name, labels)))
}

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    if pod.node_selector.is_empty() && pod.node_terms.is_none() {
        return None;
    }
    Some(Box::new(move |machine| match matches(snapshot, pod, machine) {
        true => Ok(()),
        false => Err(vec![Reason::NodeAffinity]),
    }))
}

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    if pod.node_preferences.is_empty() {
        return None;
    }
    let score = move |machine| {
        let (name, labels) = (snapshot.name(machine), snapshot.labels(machine));
        pod.node_preferences.iter().filter(|(_, term)| term.matches(name, labels)).map(|(weight, _)| weight).sum()
    };
    Some(Scorer { score: Box::new(score), scale: Scale::More })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn selector_terms_and_preferences() {
        let mut cluster = Cluster::default();
        cluster.machine("a", json!({"metadata": {"labels": {"zone": "a"}}}));
        cluster.machine("b", json!({"metadata": {"labels": {"zone": "b"}}}));
        let no = |m| (m, Reason::NodeAffinity);
        let pod = cluster.pod("p", json!({"nodeSelector": {"zone": "a"}}));
        assert_eq!(cluster.refused(filter, &pod), [no("b")]);
        let term = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let required = |terms: serde_json::Value| {
            json!({"affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
        };
        let pod = cluster.pod("p", required(json!([term("b")])));
        assert_eq!(cluster.refused(filter, &pod), [no("a")]);
        let pod = cluster.pod("p", required(json!([term("b"), term("a")])));
        assert_eq!(cluster.refused(filter, &pod), []);
        let name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
        let pod = cluster.pod("p", required(name));
        assert_eq!(cluster.refused(filter, &pod), [no("a")]);
        let preferred = json!([{"weight": 5, "preference": term("b")}]);
        let pod = cluster.pod(
            "p",
            json!({"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
        );
        assert_eq!(cluster.refused(filter, &pod), []);
        assert_eq!(cluster.scores(score, &pod), [("a", 0), ("b", 100)]);
    }
}
