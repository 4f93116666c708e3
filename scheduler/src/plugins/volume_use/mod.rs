//! A claim with the access mode ReadWriteOncePod is used by one pod at a time: as Kubernetes' VolumeRestrictions.

use std::sync::Arc;

use super::{Check, Checked, Preparing, Reason};
use crate::pod::PodClaim;
use crate::snapshot::{Machine, Placed, Snapshot};

#[derive(Debug)]
struct VolumeUse(Vec<PodClaim>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let claims = &preparing.info.claims;
    if claims.is_empty() { None } else { Some(Box::new(VolumeUse(claims.clone()))) }
}

impl VolumeUse {
    /// A claim that another pod uses, but for those of `without`.
    fn in_use(&self, snapshot: &Snapshot, without: &[&Placed]) -> Option<&PodClaim> {
        let stays = |uid: &Arc<str>| !without.iter().any(|gone| gone.info.uid == *uid);
        let is_used = |own: &&PodClaim| {
            snapshot.claim(&own.key).is_some_and(|claim| claim.is_for_one_pod())
                && snapshot.users_of(&own.key).iter().any(stays)
        };
        self.0.iter().find(is_used)
    }
}

impl Check for VolumeUse {
    fn admits(&self, snapshot: &Snapshot, _: Machine) -> bool {
        self.in_use(snapshot, &[]).is_none()
    }

    fn admit_word(&self, snapshot: &Snapshot, _: usize, mask: u64) -> u64 {
        if self.in_use(snapshot, &[]).is_none() { mask } else { 0 }
    }

    fn refuse(&self, snapshot: &Snapshot, _: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        reasons.extend(self.in_use(snapshot, without).map(|own| Reason::ClaimInUse(own.name().into())));
    }

    fn spans_machines(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn one_pod_at_a_time_where_the_claim_says_so() {
        let check = |modes: &[&str], expect: bool| {
            let mut cluster = Cluster::default();
            cluster.machine("a", json!({}));
            cluster.machine("b", json!({}));
            cluster.claim("c", json!({"accessModes": modes, "volumeName": "v"}), json!({}));
            let spec = json!({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]});
            let pod = cluster.pod("p", spec.clone());
            assert_eq!(cluster.refused(super::check, &pod), [], "nobody uses it");
            cluster.bound("other", "a", spec.clone());
            let refused = cluster.refused(super::check, &pod);
            assert_eq!(refused.len(), if expect { 2 } else { 0 });
            assert!(refused.iter().all(|(_, reason)| *reason == Reason::ClaimInUse("c".into())));
            cluster.snapshot.pod_gone("other");
            assert_eq!(cluster.refused(super::check, &pod), [], "it is free again");
            let held = cluster.snapshot.adopt(cluster.pod("waits", spec));
            let held = cluster.snapshot.hold(held, 0);
            assert_eq!(cluster.refused(super::check, &pod), [], "room that is kept uses nothing");
            cluster.snapshot.forget(held);
        };
        check(&["ReadWriteOncePod"], true);
        check(&["ReadWriteOnce"], false);
    }
}
