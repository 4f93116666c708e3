//! Decides that every live namespace has the service account `default`. Never touches one that is there.

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use serde_json::json;

use super::types::{DEFAULT, Observed};
use crate::plan::{Plan, Write};

pub fn reconcile(observed: &Observed, _now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if observed.account.is_none() && !observed.namespace.is_terminating() {
        let namespace = &observed.namespace.metadata.name;
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": namespace}});
        plan.push(Write::create(&kinds::SERVICE_ACCOUNT, namespace, body));
    }
    plan
}
