//! What else a write does in its own transaction: the namespace must live, a Service takes addresses, a machine's room shrinks.
//!
//! Decides which keys are compared and written beside the object's own. A lost race on one of them makes the caller ask again
//! (`attempt` counts), and then the keys' owners read the store instead of the cache.

mod addresses;
mod namespace;
mod node;
mod service;

use crate::gantry::allocation::Cause;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use crate::rest::commit::MAX_TRIES;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::status::Status;
use gantry_store::{Compare, Op};
use serde_json::Value;

/// More conditions and operations for a write's transaction.
#[derive(Debug, Default)]
pub struct Effects {
    pub compare: Vec<Compare>,
    pub ops: Vec<Op>,
}

impl Effects {
    /// Takes a free key.
    pub fn take(&mut self, key: String, value: Vec<u8>) {
        self.compare.push(Compare::absent(key.clone()));
        self.ops.push(Op::put(key, value));
    }

    pub fn put(&mut self, key: String, value: Vec<u8>) {
        self.ops.push(Op::put(key, value));
    }

    pub fn free(&mut self, key: String) {
        self.ops.push(Op::delete(key));
    }
}

/// Whether [`of`] writes what it allocates into the object, so that another attempt must start from the client's version.
pub fn fills_in(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "services"
}

/// The effects of a create (`old` is `None`) or an update. May fill in what it allocates (`spec.clusterIP`).
pub async fn of(call: &Call<'_>, object: &mut Value, old: Option<&Value>, attempt: u32) -> Outcome<Effects> {
    if attempt >= MAX_TRIES {
        return Err(Status::conflict(&call.kind().resource(), str_at(object, "metadata.name")).into());
    }
    let mut effects = Effects::default();
    if old.is_none() {
        namespace::must_live(call, attempt, &mut effects).await?;
    }
    match (call.kind().group, call.kind().plural) {
        ("", "services") if call.subresource.is_none() && !call.options.dry_run => {
            service::addresses(call, object, old, attempt, &mut effects).await?;
        }
        ("", "pods") if old.is_none() && !str_at(object, "spec.nodeName").is_empty() => {
            node::takes_room(call, str_at(object, "spec.nodeName"), Cause::Pods(1), attempt, &mut effects).await?;
        }
        ("", "pods") if call.subresource == Some("resize") && !str_at(object, "spec.nodeName").is_empty() => {
            node::takes_room(call, str_at(object, "spec.nodeName"), Cause::Pods(1), attempt, &mut effects).await?;
        }
        ("gantry.dev", "batchcapacities") if let Some(old) = old => {
            node::lends(call, Some(object), old, attempt, &mut effects).await?;
        }
        ("", "nodes") if old.is_none() => node::joins(object, &mut effects),
        ("", "nodes") => node::changes(call, object, old, attempt, &mut effects).await?,
        _ => {}
    }
    Ok(effects)
}

/// The effects of an object's end.
pub async fn of_delete(call: &Call<'_>, old: &Value, attempt: u32) -> Outcome<Effects> {
    let mut effects = Effects::default();
    match (call.kind().group, call.kind().plural) {
        ("", "services") => service::release(old, &mut effects),
        ("gantry.dev", "batchcapacities") => node::lends(call, None, old, attempt, &mut effects).await?,
        ("", "nodes") => node::leaves(call.name, &mut effects),
        ("", "pods") => node::confirms_gone(call, old, attempt, &mut effects).await?,
        _ => {}
    }
    Ok(effects)
}
