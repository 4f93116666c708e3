//! Decides that every live namespace has the cluster's root certificate in the ConfigMap `kube-root-ca.crt`, with nothing
//! else in it that matters. Never decides which certificate.

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use serde_json::json;

use super::types::{NAME, Observed};
use crate::plan::{Plan, Write};

const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
     the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.";

pub fn reconcile(observed: &Observed, _now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let namespace = &observed.namespace.metadata.name;
    if observed.namespace.is_terminating() || observed.root_ca.is_empty() {
        return plan;
    }
    let data = json!({"ca.crt": &*observed.root_ca});
    match &observed.published {
        None => {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": NAME,
                "namespace": namespace, "annotations": {"kubernetes.io/description": ABOUT}}});
            plan.push(Write::create(&kinds::CONFIG_MAP, namespace, body));
        }
        Some(map) if map.data.ca_crt.as_deref() != Some(&*observed.root_ca) => {
            plan.push(Write::merge(&kinds::CONFIG_MAP, namespace, NAME, json!({"data": data})));
        }
        Some(_) => {}
    }
    plan
}
