//! Decides what becomes of an object whose owners go: deleted, let go, or cleared of owners that no longer exist. Follows
//! Kubernetes' garbage collector (background, foreground, orphan). An owner counts as gone only when the server just said so.

use gantry_apimachinery::meta::ObjectMeta;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{DeleteOptions, Propagation};
use serde_json::{Value, json};

use super::graph::{FOREGROUND, Item, ORPHAN};
use super::types::{Observed, Owner};
use crate::owner;
use crate::plan::{Plan, Write};

pub fn reconcile(observed: &Observed, _now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let item = &observed.item;
    if item.is_orphaning() {
        plan.push_all(observed.dependents.iter().map(|d| let_go(d, item)).collect());
        owner::remove_finalizer(item.kind, &item.meta(), ORPHAN).into_iter().for_each(|w| plan.push(w));
        return plan;
    }
    if item.is_waiting() {
        let blocked = observed.dependents.iter().any(|d| blocks(d, item));
        if !blocked {
            owner::remove_finalizer(item.kind, &item.meta(), FOREGROUND).into_iter().for_each(|w| plan.push(w));
        }
        return plan;
    }
    match &observed.live {
        Some(live) if live.deletion_timestamp.is_none() => collect(&mut plan, observed, live),
        _ => {}
    }
    plan
}

fn blocks(dependent: &Item, owner: &Item) -> bool {
    dependent.owners.iter().any(|o| o.uid == owner.uid && o.block_owner_deletion == Some(true))
}

fn collect(plan: &mut Plan, observed: &Observed, live: &ObjectMeta) {
    let item = &observed.item;
    let state = |uid: &str| observed.owners.iter().find(|(o, _)| o.uid == uid).map(|(_, state)| *state);
    // Owners that were added since count as being there.
    let states: Vec<Owner> =
        live.owner_references.iter().map(|o| state(o.uid.as_str()).unwrap_or(Owner::There)).collect();
    let waiting = states.contains(&Owner::Waiting);
    if states.iter().all(|s| *s == Owner::There) {
        return;
    }
    if states.contains(&Owner::There) {
        let keep = live.owner_references.iter().zip(&states).filter(|(_, s)| **s == Owner::There);
        plan.push(owner::rewrite_owners(item.kind, live, keep.map(|(o, _)| json!(o)).collect()));
        return;
    }
    let propagation = if waiting && !observed.dependents.is_empty() {
        // Two that wait for each other would wait for ever: the one further down stops blocking.
        let circular = observed.dependents.iter().filter(|d| d.is_waiting() && blocks(d, item));
        plan.push_all(circular.map(|d| unblock(d, item)).collect());
        Propagation::Foreground
    } else if live.finalizers.iter().any(|f| f == ORPHAN) {
        Propagation::Orphan
    } else if live.finalizers.iter().any(|f| f == FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::uid(item.uid.to_string()) };
    plan.push(Write::delete(item.kind, &item.namespace, &item.name, options));
}

/// Takes the owner out of a dependent, wherever it stands in the list: other owners may come and go meanwhile.
fn let_go(dependent: &Item, owner: &Item) -> Write {
    edit_owner(dependent, owner, |path| json!({"op": "remove", "path": path}))
}

fn unblock(dependent: &Item, owner: &Item) -> Write {
    edit_owner(
        dependent,
        owner,
        |path| json!({"op": "replace", "path": format!("{path}/blockOwnerDeletion"), "value": false}),
    )
}

fn edit_owner(dependent: &Item, owner: &Item, operation: impl Fn(&str) -> Value) -> Write {
    let index = dependent.owners.iter().position(|o| o.uid == owner.uid).unwrap_or(0);
    let path = format!("/metadata/ownerReferences/{index}");
    let operations = json!([
        {"op": "test", "path": "/metadata/uid", "value": dependent.uid},
        {"op": "test", "path": format!("{path}/uid"), "value": owner.uid},
        operation(&path),
    ]);
    Write::json(dependent.kind, &dependent.namespace, &dependent.name, operations)
}
