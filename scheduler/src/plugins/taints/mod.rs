//! Taints that a pod does not tolerate: `NoSchedule` and `NoExecute` keep it away, `PreferNoSchedule` counts against.

use super::{Check, Checked, Preparing, Reason, Scale, Score, Scored};
use crate::api::Toleration;
use crate::snapshot::{Machine, NodeRule, NodeSetId, Placed, Snapshot, tolerates, untolerated};

#[derive(Debug)]
struct Taints {
    tolerations: Vec<Toleration>,
    open: NodeSetId,
}

pub fn check(preparing: &mut Preparing) -> Checked {
    let tolerations = preparing.info.tolerations.clone();
    let open = preparing.set(NodeRule { tolerations: Some(tolerations.clone()), ..NodeRule::default() });
    Some(Box::new(Taints { tolerations, open }))
}

impl Check for Taints {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        snapshot.members(self.open).get(machine)
    }

    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        mask & snapshot.members(self.open).word(word)
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, _: &[&Placed], reasons: &mut Vec<Reason>) {
        let taint = untolerated(&self.tolerations, snapshot.taints(machine));
        reasons.extend(taint.map(|taint| Reason::Taint(taint.clone())));
    }
}

#[derive(Debug)]
struct Softly(Vec<Toleration>);

pub fn score(preparing: &mut Preparing) -> Scored {
    Some(Box::new(Softly(preparing.info.tolerations.clone())))
}

impl Score for Softly {
    fn scale(&self) -> Scale {
        Scale::Fewer
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        if snapshot.softly_tainted().is_empty() {
            return;
        }
        scores.extend(machines.iter().map(|machine| {
            let soft = snapshot.taints(*machine).iter().filter(|t| t.effect == "PreferNoSchedule");
            i64::try_from(soft.filter(|t| !tolerates(&self.0, t)).count()).unwrap_or(i64::MAX)
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Taint;
    use crate::plugins::testing::{Cluster, owned};

    #[test]
    fn tolerations_match_taints() {
        let check = |toleration: serde_json::Value, expect: bool| {
            let taint = Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() };
            let tolerations: Vec<Toleration> = serde_json::from_value(json!([toleration])).unwrap();
            assert_eq!(tolerates(&tolerations, &taint), expect, "{tolerations:?}");
        };
        check(json!({"key": "k", "value": "v"}), true);
        check(json!({"key": "k", "value": "w"}), false);
        check(json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}), true);
        check(json!({"key": "k", "operator": "Exists"}), true);
        check(json!({"operator": "Exists"}), true);
        check(json!({"key": "j", "operator": "Exists"}), false);
        check(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"operator": "Equal", "value": "v"}), false);
    }

    #[test]
    fn hard_taints_refuse_and_soft_ones_count() {
        let mut cluster = Cluster::default();
        let taints = |effects: &[&str]| -> serde_json::Value {
            effects.iter().map(|e| json!({"key": "k", "value": "v", "effect": e})).collect()
        };
        cluster.machine("hard", json!({"spec": {"taints": taints(&["NoExecute"])}}));
        cluster.machine("soft", json!({"spec": {"taints": taints(&["PreferNoSchedule"])}}));
        cluster.machine("free", json!({}));
        let pod = cluster.pod("p", json!({}));
        let taint = Taint { key: "k".into(), value: "v".into(), effect: "NoExecute".into() };
        assert_eq!(cluster.refused(check, &pod), [("hard".to_owned(), Reason::Taint(taint.into()))]);
        assert_eq!(cluster.scores(score, &pod), [("hard", 100), ("soft", 0), ("free", 100)].map(owned));
    }
}
