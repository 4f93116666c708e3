//! `POST /apis/gantry.dev/v1/bindings`: up to 256 binds as independent transactions in one durability round. Decides nothing about
//! room: each item names the allocation version it was decided from.

use super::bind::{Basis, Bind, Lost, latest};
use crate::core::{Core, store_failure};
use crate::http::Outcome;
use gantry_apimachinery::kinds::{NODE_ALLOCATION, POD};
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const MAX_ITEMS: usize = 256;
/// Times that an item is tried again because its pod changed in something else.
const TRIES: usize = 4;

#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(default)]
    pub items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub uid: String,
    pub node: String,
    pub allocation_version: String,
}

impl Item {
    fn bind(&self) -> Bind<'_> {
        Bind { namespace: &self.namespace, name: &self.name, uid: &self.uid, node: &self.node, annotations: None }
    }

    fn moved(&self) -> Box<Status> {
        let why =
            format!("the allocation of node {} is not at version {} any more", self.node, self.allocation_version);
        Status::conflict_because("pods/binding", &self.name, &why).into()
    }
}

impl Batch {
    pub fn read(body: Value) -> Outcome<Self> {
        let batch: Self =
            serde_json::from_value(body).map_err(|error| Status::bad_request(format!("BindingBatch: {error}")))?;
        if batch.items.len() > MAX_ITEMS {
            return Err(Status::bad_request(format!("items: at most {MAX_ITEMS} binds at once")).into());
        }
        Ok(batch)
    }
}

impl Batch {
    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.items.iter().map(|item| item.namespace.as_str()).collect()
    }
}

enum State {
    Ready(Basis),
    Done(Result<u64, Box<Status>>),
}

/// Runs the batch. `allowed` says whether the caller may bind in a namespace.
pub async fn run(core: &Core, batch: &Batch, now: Timestamp, allowed: impl Fn(&str) -> Outcome<()>) -> Outcome<Value> {
    let mut states = Vec::with_capacity(batch.items.len());
    for item in &batch.items {
        states.push(match allowed(&item.namespace) {
            Ok(()) => match basis(core, item).await {
                Ok(basis) => State::Ready(basis),
                Err(status) => State::Done(Err(status)),
            },
            Err(status) => State::Done(Err(status)),
        });
    }
    for _ in 0..TRIES {
        if !round(core, batch, now, &mut states).await? {
            break;
        }
    }
    let results: Vec<Value> = batch.items.iter().zip(states).map(|(item, state)| result(item, state)).collect();
    Ok(json!({"apiVersion": "gantry.dev/v1", "kind": "BindingBatchResult", "items": results}))
}

/// The pod, the machine at the version decided from, and the claim.
async fn basis(core: &Core, item: &Item) -> Outcome<Basis> {
    let version: u64 = item.allocation_version.parse().map_err(|_| {
        Status::bad_request(format!("allocationVersion: {:?} is not a resource version", item.allocation_version))
    })?;
    let pod = latest(core, &item.namespace, &item.name, false).await?;
    let pod = pod.ok_or_else(|| Status::not_found("pods", &item.name))?;
    let mut allocation = core.latest(&NODE_ALLOCATION, "", &item.node, false).await?;
    if allocation.as_ref().is_some_and(|allocation| allocation.revision < version) {
        allocation = core.live(&NODE_ALLOCATION, "", &item.node).await?;
    }
    let allocation = allocation.ok_or_else(|| Status::not_found("nodes", &item.node))?;
    if allocation.revision != version {
        return Err(item.moved());
    }
    let claim = item.bind().claim(core, &pod, false).await?;
    Ok(Basis { pod, allocation, claim })
}

/// One transaction per item that is still open. Returns whether any must be tried again.
async fn round(core: &Core, batch: &Batch, now: Timestamp, states: &mut [State]) -> Outcome<bool> {
    let mut at = Vec::new();
    let mut txns = Vec::new();
    for (index, state) in states.iter_mut().enumerate() {
        let State::Ready(basis) = state else { continue };
        match batch.items[index].bind().transaction(basis, now) {
            Ok(txn) => {
                at.push(index);
                txns.push(txn);
            }
            Err(status) => *state = State::Done(Err(status)),
        }
    }
    if txns.is_empty() {
        return Ok(false);
    }
    let store = &core.stored_kind(&POD).group.store;
    let replies = store.txn_batch(txns).await.map_err(store_failure)?;
    let mut again = false;
    for (index, reply) in at.into_iter().zip(replies) {
        let item = &batch.items[index];
        let done = State::Done(Err(Status::internal("replaced below").into()));
        let State::Ready(basis) = std::mem::replace(&mut states[index], done) else { continue };
        states[index] = match reply {
            Err(error) => State::Done(Err(store_failure(error).into())),
            Ok(reply) if reply.succeeded => State::Done(Ok(reply.revision.0)),
            Ok(reply) => match item.bind().lost(reply, basis)? {
                Lost::Refused(status) => State::Done(Err(status)),
                Lost::Allocation(..) => State::Done(Err(item.moved())),
                Lost::Again(basis) => {
                    again = true;
                    State::Ready(basis)
                }
            },
        };
    }
    Ok(again)
}

fn result(item: &Item, state: State) -> Value {
    let outcome = match state {
        State::Done(outcome) => outcome,
        State::Ready(_) => Err(Status::conflict("pods/binding", &item.name).into()),
    };
    match outcome {
        Ok(revision) => json!({"code": 201, "resourceVersion": revision.to_string()}),
        Err(status) => json!({"code": status.code(), "reason": status.reason, "message": status.message}),
    }
}
