//! A pod that mounts a PersistentVolumeClaim waits: no machine mounts volumes yet.

use super::{Filter, Reason};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

pub fn filter<'a>(_: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    let claim = pod.claims.first()?;
    Some(Box::new(move |_| Err(vec![Reason::Claim(claim.clone())])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::Cluster;
    use serde_json::json;

    #[test]
    fn only_pods_that_mount_a_claim_wait() {
        let mut cluster = Cluster::default();
        cluster.machine("a", json!({}));
        let with =
            cluster.pod("p", json!({"volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "c"}}]}));
        assert_eq!(cluster.refused(filter, &with), [("a", Reason::Claim("c".into()))]);
        let without = cluster.pod("p", json!({"volumes": [{"emptyDir": {}}]}));
        assert!(cluster.refused(filter, &without).is_empty());
    }
}
