//! A machine takes so many volumes of a CSI driver, as its CSINode says: as Kubernetes' NodeVolumeLimits. A volume that several
//! pods there mount counts once; one that is still to be made counts for whoever makes it.

use std::collections::BTreeSet;

use super::{Check, Checked, Preparing, Reason};
use crate::pod::PodClaim;
use crate::snapshot::{Machine, Placed, Snapshot};

#[derive(Debug)]
struct VolumeLimits(Vec<PodClaim>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let claims = &preparing.info.claims;
    if claims.is_empty() { None } else { Some(Box::new(VolumeLimits(claims.clone()))) }
}

impl VolumeLimits {
    /// The driver of which there would be too many without these pods.
    fn exceeded<'a>(&self, snapshot: &'a Snapshot, machine: Machine, without: &[&Placed]) -> Option<&'a str> {
        let limits = snapshot.volume_limits(machine)?;
        let own: BTreeSet<_> = self.0.iter().filter_map(|own| snapshot.attached(&own.key)).collect();
        if !own.iter().any(|(driver, _)| limits.contains_key(*driver)) {
            return None;
        }
        let stays = |placed: &&Placed| !without.iter().any(|gone| gone.info.uid == placed.info.uid);
        let others = snapshot.mounting_on(machine).filter(stays).flat_map(|placed| &placed.info.claims);
        let there: BTreeSet<_> = others.filter_map(|claim| snapshot.attached(&claim.key)).collect();
        let of = |set: &BTreeSet<(&str, &str)>, driver: &str| set.iter().filter(|(of, _)| *of == driver).count();
        let is_over = |driver: &&str| {
            let new = own.difference(&there).filter(|(of, _)| of == driver).count();
            let limit = limits.get(*driver).and_then(|limit| usize::try_from(*limit).ok());
            new > 0 && limit.is_some_and(|limit| of(&there, driver) + new > limit)
        };
        own.iter().map(|(driver, _)| *driver).find(is_over)
    }
}

impl Check for VolumeLimits {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        self.exceeded(snapshot, machine, &[]).is_none()
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        reasons.extend(self.exceeded(snapshot, machine, without).map(|driver| Reason::VolumeLimit(driver.into())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::Cluster;

    fn mounts(claims: &[&str]) -> Value {
        let volumes: Vec<_> = claims.iter().map(|c| json!({"persistentVolumeClaim": {"claimName": c}})).collect();
        json!({"volumes": volumes})
    }

    /// A machine with room for two volumes of `d`; one of its pods mounts `a` and `other`.
    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.machine("m", json!({}));
        cluster.limit("m", "d", 2);
        for (name, driver) in [("a", "d"), ("b", "d"), ("c", "d"), ("other", "e")] {
            cluster.claim(name, json!({"volumeName": name}), json!({}));
            cluster.volume(name, json!({"csi": {"driver": driver, "volumeHandle": name}}), json!({}));
        }
        cluster.bound("first", "m", mounts(&["a", "other"]));
        cluster
    }

    #[test]
    fn distinct_volumes_of_a_driver_are_counted() {
        let mut cluster = cluster();
        let mut check = |claims: &[&str], fits: bool| {
            let pod = cluster.pod("p", mounts(claims));
            let expect = if fits { vec![] } else { vec![("m".to_owned(), Reason::VolumeLimit("d".into()))] };
            assert_eq!(cluster.refused(super::check, &pod), expect, "{claims:?}");
        };
        check(&["b"], true);
        check(&["b", "c"], false);
        check(&["a", "b"], true);
        check(&["other"], true);
        check(&["missing"], true);
    }

    #[test]
    fn who_is_there_counts_and_who_goes_does_not() {
        let mut cluster = cluster();
        cluster.bound("second", "m", mounts(&["b"]));
        let pod = cluster.pod("p", mounts(&["c"]));
        assert_eq!(cluster.refused(super::check, &pod).len(), 1);
        let again = cluster.pod("again", mounts(&["b"]));
        assert_eq!(cluster.refused(super::check, &again), [], "what is attached there anyway adds nothing");
        let second = cluster.snapshot.placement("second").cloned().unwrap();
        let limits = VolumeLimits(pod.claims.clone());
        assert_eq!(limits.exceeded(&cluster.snapshot, 0, &[&second]), None, "ending a pod could help");
        cluster.snapshot.pod_gone("second");
        assert_eq!(cluster.refused(super::check, &pod), []);
    }

    #[test]
    fn a_volume_to_be_made_counts_by_its_provisioner() {
        let mut cluster = cluster();
        cluster.storage_class("late", json!({"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}));
        for name in ["new-1", "new-2"] {
            cluster.claim(name, json!({"storageClassName": "late"}), json!({}));
        }
        let pod = cluster.pod("p", mounts(&["new-1", "new-2"]));
        assert_eq!(cluster.refused(super::check, &pod).len(), 1);
        let pod = cluster.pod("p", mounts(&["new-1"]));
        assert_eq!(cluster.refused(super::check, &pod), []);
    }
}
