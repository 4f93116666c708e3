//! Cordoned machines take only pods that tolerate it.

use super::taints::tolerates;
use super::{Filter, Reason};
use crate::api::Taint;
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: String::new(), effect: "NoSchedule".into() };
    if tolerates(&pod.tolerations, &cordon) {
        return None;
    }
    Some(Box::new(move |machine| match snapshot.is_unschedulable(machine) {
        true => Err(vec![Reason::Unschedulable]),
        false => Ok(()),
    }))
}
