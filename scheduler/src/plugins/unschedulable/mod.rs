//! Cordoned machines take only pods that tolerate it.

use super::{Checked, InSet, Preparing, Reason};
use crate::snapshot::{NodeRule, tolerates_cordon};

pub fn check(preparing: &mut Preparing) -> Checked {
    if tolerates_cordon(&preparing.info.tolerations) {
        return None;
    }
    let set = preparing.set(NodeRule { open_to: Some(Vec::new()), ..NodeRule::default() });
    Some(Box::new(InSet { set, reason: Reason::Unschedulable }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn cordoned_machines_take_only_who_tolerates_it() {
        let mut cluster = Cluster::default();
        cluster.machine("open", json!({}));
        cluster.machine("cordoned", json!({"spec": {"unschedulable": true}}));
        let pod = cluster.pod("p", json!({}));
        assert_eq!(cluster.refused(check, &pod), [("cordoned".to_owned(), Reason::Unschedulable)]);
        let tolerations = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        let pod = cluster.pod("p", json!({"tolerations": tolerations}));
        assert_eq!(cluster.refused(check, &pod), []);
    }
}
