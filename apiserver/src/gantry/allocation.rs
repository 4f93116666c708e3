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
    json!({"apiVersion": "gantry.dev/v1", "kind": "NodeAllocation", "metadata": metadata, "bound": 0, "by": "Node",
        "writes": 0})
    .to_string()
    .into_bytes()
}

/// What takes room on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So many pods of it, written in the same transaction.
    Pods(usize),
    /// The Node, which has less.
    Node,
    /// Its BatchCapacity, of which less may be lent.
    Capacity,
}

/// The next version. It says what whoever decides from it must have seen first: `bound` pods of this machine at this version (or
/// anything past it), or the Node or the BatchCapacity at this version (`by`), and either of them as of `nodeAt` and `capacityAt`.
pub fn bumped(current: &Stored, cause: Cause) -> Vec<u8> {
    let mut next = current.value.clone();
    let before = match next["by"].as_str() {
        Some("Node") => Some("nodeAt"),
        Some("BatchCapacity") => Some("capacityAt"),
        _ => None,
    };
    if let Some(field) = before {
        next[field] = current.revision.into();
    }
    let (bound, by) = match cause {
        Cause::Pods(pods) => (pods, None),
        Cause::Node => (0, Some("Node")),
        Cause::Capacity => (0, Some("BatchCapacity")),
    };
    next["bound"] = bound.into();
    next["writes"] = (next["writes"].as_i64().unwrap_or(0) + 1).into();
    if let Some(fields) = next.as_object_mut() {
        match by {
            Some(by) => drop(fields.insert("by".to_owned(), by.into())),
            None => drop(fields.remove("by")),
        }
    }
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
