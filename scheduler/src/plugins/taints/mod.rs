//! Taints that a pod does not tolerate: `NoSchedule` and `NoExecute` keep it away, `PreferNoSchedule` counts against.

use super::{Filter, Reason, Scale, Scorer};
use crate::api::{Taint, Toleration};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    Some(Box::new(move |machine| {
        let hard = |t: &&std::sync::Arc<Taint>| t.effect == "NoSchedule" || t.effect == "NoExecute";
        match snapshot.taints(machine).iter().filter(hard).find(|t| !tolerates(&pod.tolerations, t)) {
            Some(taint) => Err(vec![Reason::Taint(text(taint))]),
            None => Ok(()),
        }
    }))
}

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    let score = move |machine| {
        let soft = snapshot.taints(machine).iter().filter(|t| t.effect == "PreferNoSchedule");
        i64::try_from(soft.filter(|t| !tolerates(&pod.tolerations, t)).count()).unwrap_or(i64::MAX)
    };
    Some(Scorer { score: Box::new(score), scale: Scale::Fewer })
}

fn text(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| {
        let effect = t.effect.is_empty() || t.effect == taint.effect;
        let key = if t.key.is_empty() { t.operator == "Exists" } else { t.key == taint.key };
        effect && key && (t.operator == "Exists" || (matches!(&*t.operator, "" | "Equal") && t.value == taint.value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

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
        assert_eq!(cluster.refused(filter, &pod), [("hard", Reason::Taint("k=v:NoExecute".into()))]);
        assert_eq!(cluster.scores(score, &pod), [("hard", 100), ("soft", 0), ("free", 100)]);
    }
}
