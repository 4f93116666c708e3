//! Pods of one template run apart: on different machines first, then in different zones. Nobody has to ask for it.

use super::{Preparing, Scale, Score, Scored};
use crate::snapshot::{Machine, Snapshot, Tier};

#[derive(Debug)]
struct Apart(String);

pub fn score(preparing: &mut Preparing) -> Scored {
    let owner = &preparing.info.owner;
    // What is lent is packed, not spread, and not counted either.
    if owner.is_empty() || preparing.tier == Tier::Lent { None } else { Some(Box::new(Apart(owner.clone()))) }
}

impl Score for Apart {
    fn scale(&self) -> Scale {
        Scale::Fewer
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        let Some(owner) = snapshot.owner(&self.0) else { return };
        scores.extend(machines.iter().map(|machine| {
            let in_zone = snapshot.zone(*machine).map_or(0, |zone| owner.in_zone(zone));
            10 * i64::from(owner.on(*machine)) + i64::from(in_zone)
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Cluster, owned};
    use crate::snapshot::ZONE;

    #[test]
    fn other_machines_then_other_zones() {
        let mut cluster = Cluster::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            cluster.machine(name, json!({"metadata": {"labels": {ZONE: zone}}}));
        }
        cluster.bound_of("o", "x", "a1");
        let pod = cluster.pod_of("o", "p");
        assert_eq!(cluster.scores(score, &pod), [("a1", 0), ("a2", 91), ("b1", 100)].map(owned));
        cluster.machine("a2", json!({"metadata": {"labels": {ZONE: "b"}}}));
        cluster.machine("a1", json!({"metadata": {"labels": {ZONE: "b"}}}));
        let after = [("a1", 0), ("a2", 100), ("b1", 100)].map(owned);
        assert_eq!(cluster.scores(score, &pod), after, "its machine is in zone b now");
        let stranger = cluster.pod_of("other", "q");
        assert_eq!(cluster.scores(score, &stranger), []);
    }
}
