//! `NodeAllocation`: one small object per machine whose version moves with everything that takes room there. Decides its content;
//! the totals are computed when it is read and are never stored.

use super::room::{self, PodUse};
use crate::cache::{EventType, Object};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::stored::Stored;
use gantry_apimachinery::kinds::{NODE, NODE_ALLOCATION, POD};
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::Status;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn fresh(name: &str, uid: &str, created: &str) -> Vec<u8> {
    let metadata = json!({"name": name, "uid": uid, "creationTimestamp": created});
    json!({"apiVersion": "gantry.dev/v1", "kind": "NodeAllocation", "metadata": metadata, "bound": 0, "writes": 0})
        .to_string()
        .into_bytes()
}

/// The next version, which comes with `pods` that take room. Who watches pods and has seen so many of this machine's at the version,
/// or anything past it, has seen all that is behind it.
pub fn bumped(current: &Value, pods: usize) -> Vec<u8> {
    let mut next = current.clone();
    next["bound"] = pods.into();
    next["writes"] = (current["writes"].as_i64().unwrap_or(0) + 1).into();
    next.to_string().into_bytes()
}

/// The same version with its totals, whole or for a table's row.
pub fn totalled(core: &Core, object: &Object) -> Outcome<Arc<Object>> {
    let mut value = Stored::from_cache(object)?.value;
    with_totals(core, &mut value);
    let bytes = serde_json::to_vec(&value).map_err(Status::internal)?;
    let selectable = &core.stored_kind(&NODE_ALLOCATION).resource.selectable;
    let object = Object::parse(&bytes, object.revision, EventType::Added, selectable);
    Ok(Arc::new(object.map_err(Status::internal)?))
}

/// Adds what the machine has and what its pods asked for.
fn with_totals(core: &Core, allocation: &mut Value) {
    let name = str_at(allocation, "metadata.name").to_owned();
    let node = core.cached(&NODE, "", &name).and_then(|node| node.value().ok()).unwrap_or_default();
    let pods = core.stored_kind(&POD).resource.on_node(&name);
    let mut requested: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut count = 0;
    for pod in pods.tree.values() {
        let used = pod.derived(PodUse::of);
        if used.counts {
            count += 1;
            room::add(&mut requested, &used.requests);
        }
    }
    let requested: Map<String, Value> = requested.into_iter().map(|(k, v)| (k, v.to_string().into())).collect();
    allocation["status"] = json!({
        "allocatable": node["status"].get("allocatable").cloned().unwrap_or_else(|| json!({})),
        "requested": requested, "pods": count, "revision": pods.revision.to_string(),
    });
}
