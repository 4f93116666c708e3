//! Pods of one template run apart: on different machines first, then in different zones. Nobody has to ask for it.

use std::collections::BTreeMap;

use super::{Scale, Scorer};
use crate::pod::PodInfo;
use crate::snapshot::{Machine, Snapshot};

const ZONE: &str = "topology.kubernetes.io/zone";

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    if pod.owner.is_empty() {
        return None;
    }
    let mut machines: BTreeMap<Machine, i64> = BTreeMap::new();
    let mut zones: BTreeMap<&str, i64> = BTreeMap::new();
    for peer in snapshot.of_owner(&pod.owner).filter(|peer| !peer.info.deleting) {
        *machines.entry(peer.machine).or_insert(0) += 1;
        if let Some(zone) = snapshot.labels(peer.machine).get(ZONE) {
            *zones.entry(zone).or_insert(0) += 1;
        }
    }
    if machines.is_empty() {
        return None;
    }
    let score = move |machine| {
        let zone = snapshot.labels(machine).get(ZONE).and_then(|z| zones.get(z)).copied().unwrap_or(0);
        10 * machines.get(&machine).copied().unwrap_or(0) + zone
    };
    Some(Scorer { score: Box::new(score), scale: Scale::Fewer })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn other_machines_then_other_zones() {
        let mut cluster = Cluster::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            cluster.machine(name, json!({"metadata": {"labels": {ZONE: zone}}}));
        }
        cluster.bound_of("o", "x", "a1");
        let pod = cluster.pod_of("o", "p");
        assert_eq!(cluster.scores(score, &pod), [("a1", 0), ("a2", 91), ("b1", 100)]);
        let stranger = cluster.pod_of("other", "q");
        assert_eq!(cluster.scores(score, &stranger), []);
    }
}
