//! Kinds that are kept for their users and that nothing acts upon yet. Decides what the creator of such an object is told.

use super::pod::unheeded::NOT_ACTED_UPON;
use gantry_apimachinery::kinds::Kind;

/// Who is missing.
const CONTROLLER: &str = "no controller for it runs here yet";
const ADDRESSES: &str = "Services take their addresses from the range that the server was started with";
const DEVICES: &str = "no devices are allocated here yet";
const STORAGE: &str = "no volumes are provisioned, attached or mounted here yet";

/// Group, plural, and who is missing. A row goes with the arrival of the one who acts.
const KINDS: &[(&str, &str, &str)] = &[
    ("", "persistentvolumeclaims", STORAGE),
    ("", "persistentvolumes", STORAGE),
    ("", "replicationcontrollers", CONTROLLER),
    ("apps", "statefulsets", CONTROLLER),
    ("autoscaling", "horizontalpodautoscalers", CONTROLLER),
    ("batch", "cronjobs", CONTROLLER),
    ("networking.k8s.io", "ingresses", CONTROLLER),
    ("networking.k8s.io", "ingressclasses", CONTROLLER),
    ("networking.k8s.io", "ipaddresses", ADDRESSES),
    ("networking.k8s.io", "networkpolicies", "nothing keeps traffic from pods yet"),
    ("networking.k8s.io", "servicecidrs", ADDRESSES),
    ("resource.k8s.io", "deviceclasses", DEVICES),
    ("resource.k8s.io", "resourceclaims", DEVICES),
    ("resource.k8s.io", "resourceclaimtemplates", DEVICES),
    ("resource.k8s.io", "resourceslices", DEVICES),
    ("storage.k8s.io", "csidrivers", STORAGE),
    ("storage.k8s.io", "csinodes", STORAGE),
    ("storage.k8s.io", "csistoragecapacities", STORAGE),
    ("storage.k8s.io", "storageclasses", STORAGE),
    ("storage.k8s.io", "volumeattachments", STORAGE),
    ("storage.k8s.io", "volumeattributesclasses", STORAGE),
];

/// What a create of this kind is answered with, if anything.
pub fn warning(kind: &Kind) -> Option<String> {
    let (_, _, missing) = KINDS.iter().find(|(group, plural, _)| *group == kind.group && *plural == kind.plural)?;
    Some(format!("{}: {NOT_ACTED_UPON}: {missing}", kind.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::kinds::{self, by_resource};

    #[test]
    fn what_nobody_acts_upon_is_said() {
        let expect = "StatefulSet: stored, but not acted upon yet: no controller for it runs here yet";
        assert_eq!(warning(&kinds::STATEFUL_SET).as_deref(), Some(expect));
        assert_eq!(warning(&kinds::DEPLOYMENT), None);
    }

    #[test]
    fn every_row_is_of_a_kind_that_is_served() {
        for (group, plural, _) in KINDS {
            let served = ["v1", "v2"].iter().any(|version| by_resource(group, version, plural).is_some());
            assert!(served, "{plural}.{group}");
        }
    }
}
