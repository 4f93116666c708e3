//! A machine's `NodeAllocation` moves with everything that shrinks room on it, and an at-most-one claim ends with the agent's word.
//! Decides when; what room is belongs to `gantry::room`.

use super::Effects;
use crate::gantry::allocation::{self, Cause};
use crate::gantry::{claim, room};
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{AT_MOST_ONE_CLAIM, NODE_ALLOCATION};
use gantry_store::{Compare, Revision};
use serde_json::Value;

/// Something takes room on the machine: its allocation's version moves. A machine that is not there
/// has nothing to guard.
pub async fn takes_room(call: &Call<'_>, node: &str, cause: Cause, attempt: u32, effects: &mut Effects) -> Outcome<()> {
    let Some(current) = call.core.latest(&NODE_ALLOCATION, "", node, attempt > 0).await? else { return Ok(()) };
    let key = NODE_ALLOCATION.key("", node);
    effects.compare.push(Compare::unchanged(key.clone(), Revision(current.revision)));
    effects.put(key, allocation::bumped(&current, cause));
    Ok(())
}

/// A new machine gets its allocation. A left-over one is replaced: its writers must decide again.
pub fn joins(node: &Value, effects: &mut Effects) {
    let name = str_at(node, "metadata.name");
    effects.put(
        NODE_ALLOCATION.key("", name),
        allocation::fresh(name, str_at(node, "metadata.uid"), str_at(node, "metadata.creationTimestamp")),
    );
}

/// Allocatable going down shrinks room.
pub async fn changes(
    call: &Call<'_>,
    new: &Value,
    old: Option<&Value>,
    attempt: u32,
    effects: &mut Effects,
) -> Outcome<()> {
    if old.is_some_and(|old| room::shrinks(&old["status"]["allocatable"], &new["status"]["allocatable"])) {
        takes_room(call, call.name, Cause::Node, attempt, effects).await?;
    }
    Ok(())
}

/// So does lending less. `new` is `None` when nothing is lent any more.
pub async fn lends(
    call: &Call<'_>,
    new: Option<&Value>,
    old: &Value,
    attempt: u32,
    effects: &mut Effects,
) -> Outcome<()> {
    let new = new.map_or(&Value::Null, |new| &new["spec"]["lendable"]);
    if room::shrinks(&old["spec"]["lendable"], new) {
        takes_room(call, str_at(old, "metadata.name"), Cause::Capacity, attempt, effects).await?;
    }
    Ok(())
}

pub fn leaves(name: &str, effects: &mut Effects) {
    effects.free(NODE_ALLOCATION.key("", name));
}

/// The machine's own agent removing a pod says that its containers are gone: the claim is free again. Nobody else's delete says so.
pub async fn confirms_gone(call: &Call<'_>, pod: &Value, attempt: u32, effects: &mut Effects) -> Outcome<()> {
    let Some(identity) = claim::identity(pod) else { return Ok(()) };
    let node = str_at(pod, "spec.nodeName");
    if node.is_empty() || call.user.node_name() != Some(node) {
        return Ok(());
    }
    let namespace = str_at(pod, "metadata.namespace");
    let Some(current) = call.core.latest(&AT_MOST_ONE_CLAIM, namespace, &identity, attempt > 0).await? else {
        return Ok(());
    };
    if let Some(freed) = claim::freed(&current.value, str_at(pod, "metadata.uid")) {
        let key = AT_MOST_ONE_CLAIM.key(namespace, &identity);
        effects.compare.push(Compare::unchanged(key.clone(), Revision(current.revision)));
        effects.put(key, freed);
    }
    Ok(())
}
