//! Decides what `kubectl get nodes` shows.

use crate::kinds::columns::{self, Column};
use crate::kinds::value::{bool_at, items, str_at};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the machine is ready."),
    Column::text("Roles", "What its labels say it is for."),
    Column::AGE,
    Column::text("Version", "The version of its agent."),
    Column::text("Internal-IP", "Its address inside the cluster.").wide(),
    Column::text("External-IP", "Its address outside the cluster.").wide(),
    Column::text("OS-Image", "Its operating system.").wide(),
    Column::text("Kernel-Version", "Its kernel.").wide(),
    Column::text("Container-Runtime", "Its container runtime.").wide(),
];

pub fn row(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| match str_at(node, &format!("status.nodeInfo.{field}")) {
        "" => "<unknown>".into(),
        text => text.into(),
    };
    vec![
        columns::name(node),
        status(node).into(),
        roles(node).into(),
        columns::age(node, now),
        str_at(node, "status.nodeInfo.kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    let ready = items(node, "status.conditions").iter().find(|condition| condition["type"] == "Ready");
    let word = match ready.map(|condition| str_at(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if bool_at(node, "spec.unschedulable") { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None if key == ROLE => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = items(node, "status.addresses").iter().find(|address| address["type"] == kind);
    found.map_or("<none>", |address| str_at(address, "address"))
}
