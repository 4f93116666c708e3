//! A pod that mounts a PersistentVolumeClaim waits: no machine mounts volumes yet.

use std::sync::Arc;

use super::{Check, Checked, Preparing, Reason};
use crate::snapshot::{Machine, Placed, Snapshot};

#[derive(Debug)]
struct Claims(Arc<str>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let claim = preparing.info.claims.first()?;
    Some(Box::new(Claims(claim.as_str().into())))
}

impl Check for Claims {
    fn admits(&self, _: &Snapshot, _: Machine) -> bool {
        false
    }

    fn refuse(&self, _: &Snapshot, _: Machine, _: &[&Placed], reasons: &mut Vec<Reason>) {
        reasons.push(Reason::Claim(self.0.clone()));
    }
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
        assert_eq!(cluster.refused(check, &with), [("a".to_owned(), Reason::Claim("c".into()))]);
        let without = cluster.pod("p", json!({"volumes": [{"emptyDir": {}}]}));
        assert!(cluster.refused(check, &without).is_empty());
    }
}
