//! One pod onto one machine, in one transaction with the machine's allocation and the pod's at-most-one claim.
//!
//! Decides what a bind writes and what a lost race means. A plain `pods/binding` also decides whether the machine has room; a bulk
//! bind was decided from an allocation version, which must still stand.

use super::allocation::{self, Cause};
use super::claim;
use super::pod_text::{PodText, Text};
use super::room::{self, PodUse};
use crate::core::{Core, store_failure};
use crate::http::Outcome;
use crate::kinds::priorityclass;
use crate::rest::stored::Stored;
use gantry_apimachinery::kinds::{AT_MOST_ONE_CLAIM, BATCH_CAPACITY, NODE, NODE_ALLOCATION, POD, PRIORITY_CLASS};
use gantry_apimachinery::status::{Cause as StatusCause, Status};
use gantry_apimachinery::time::Timestamp;
use gantry_store::{Compare, KeyValue, Op, OpReply, Revision, Txn, TxnReply};
use serde_json::{Map, Value};

/// The cause that a refused bind names when another pod holds its claim.
const CLAIM_HELD: &str = "AtMostOneClaimHeld";
/// Times that a plain bind decides again before it answers 409.
const TRIES: usize = 5;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Bind<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// Empty: any pod of that name.
    pub uid: &'a str,
    pub node: &'a str,
    /// Only a pod whose spec is still of this generation. A status may change meanwhile; what the pod asks for may not.
    pub generation: Option<i64>,
    /// Copied onto the pod.
    pub annotations: Option<&'a Map<String, Value>>,
}

/// What was decided from, of the pod itself.
pub struct Basis {
    pub pod: Text,
    /// The claim's name and current state, for at-most-one pods.
    pub claim: Option<(String, Option<Stored>)>,
}

/// What one pod adds to a transaction. Each comparison has its read for when the transaction fails.
pub struct Part {
    /// The pod's key, and its claim's.
    pub keys: Vec<String>,
    compare: Vec<Compare>,
    success: Vec<Op>,
}

impl Part {
    /// About what it takes in a request.
    pub fn bytes(&self) -> usize {
        let put = |op: &Op| if let Op::Put(put) = op { put.value.len() + put.key.len() } else { 0 };
        self.success.iter().map(put).sum::<usize>() + self.keys.len() * 256
    }
}

/// What a failed transaction found of a pod.
pub enum Found {
    Gone,
    /// In a way that may not matter.
    Changed(Basis),
    AsItWas(Basis),
}

/// Binds these pods from these versions of their machines' allocations, each of which is bumped once for so many pods.
pub fn transaction<'a>(machines: impl Iterator<Item = (&'a str, &'a Stored, usize)>, parts: Vec<Part>) -> Txn {
    let mut txn = Txn::default();
    let mut bumps = Vec::new();
    for (node, at, pods) in machines {
        let key = NODE_ALLOCATION.key("", node);
        txn.compare.push(Compare::unchanged(key.clone(), Revision(at.revision)));
        txn.failure.push(Op::get(key.clone()));
        bumps.push(Op::put(key, allocation::bumped(at, Cause::Pods(pods))));
    }
    for part in parts {
        txn.compare.extend(part.compare);
        txn.failure.extend(part.keys.into_iter().map(Op::get));
        txn.success.extend(part.success);
    }
    txn.success.extend(bumps);
    txn
}

/// What a failed [`transaction`] read, in its order.
pub fn read_back(reply: TxnReply) -> impl Iterator<Item = Option<KeyValue>> {
    reply.ops.into_iter().map(OpReply::into_key_value)
}

impl Bind<'_> {
    pub fn conflict(&self, why: &str) -> Box<Status> {
        Status::conflict_because("pods/binding", self.name, why).into()
    }

    /// What no fresh copy of anything changes, only the other pod's end.
    fn held_elsewhere(&self, identity: &str) -> Box<Status> {
        let mut refusal = self.conflict(&format!("the at-most-one claim {identity:?} is held by another pod"));
        let cause =
            StatusCause { reason: CLAIM_HELD.to_owned(), message: refusal.message.clone(), ..StatusCause::default() };
        refusal.details.get_or_insert_default().causes.push(cause);
        refusal
    }

    /// Reads the claim that the pod needs, if it needs one.
    pub async fn claim(&self, core: &Core, pod: &Text, fresh: bool) -> Outcome<Option<(String, Option<Stored>)>> {
        let Some(identity) = PodText::read(&pod.bytes)?.claim()? else { return Ok(None) };
        let current = core.latest(&AT_MOST_ONE_CLAIM, self.namespace, &identity, fresh).await?;
        Ok(Some((identity, current)))
    }

    /// What binding it writes, or why this pod cannot be bound at all.
    pub fn part(&self, basis: &Basis, now: Timestamp) -> Outcome<Part> {
        let pod = PodText::read(&basis.pod.bytes)?;
        let uid = &*pod.uid()?;
        if !self.uid.is_empty() && self.uid != uid {
            let why = format!("Precondition failed: UID in precondition: {}, UID in object meta: {uid}", self.uid);
            return Err(self.conflict(&why));
        }
        if pod.is_deleted() {
            return Err(self.conflict(&format!("pod {} is being deleted, cannot be assigned to a host", self.name)));
        }
        let bound = pod.node()?;
        if !bound.is_empty() {
            return Err(self.conflict(&format!("pod {} is already assigned to node {bound:?}", self.name)));
        }
        if let Some(decided) = self.generation
            && pod.generation()? != decided
        {
            return Err(self.conflict(&format!("pod {} has another spec than the bind was decided for", self.name)));
        }
        if pod.is_gated()? {
            return Err(self.conflict(&format!("pod {} has non-empty .spec.schedulingGates", self.name)));
        }
        let mut annotations = self.annotations.cloned().unwrap_or_default();
        let key = POD.key(self.namespace, self.name);
        let mut part = Part {
            compare: vec![Compare::unchanged(key.clone(), Revision(basis.pod.revision))],
            success: Vec::with_capacity(2),
            keys: vec![key.clone()],
        };
        if let Some((identity, current)) = &basis.claim {
            let key = AT_MOST_ONE_CLAIM.key(self.namespace, identity);
            if current.as_ref().is_some_and(|claim| !claim::is_free(&claim.value)) {
                return Err(self.held_elsewhere(identity));
            }
            let held = current.as_ref().map(|claim| &claim.value);
            let (taken, epoch) = claim::taken(held, self.namespace, identity, uid, self.node, &now.to_string());
            part.compare.push(Compare::unchanged(key.clone(), Revision(revision_of(current.as_ref()))));
            part.success.push(Op::put(key.clone(), taken.to_string()));
            part.keys.push(key);
            annotations.insert(claim::EPOCH.to_owned(), epoch.to_string().into());
        }
        part.success.push(Op::put(key, pod.bound(self.node, &annotations, now)?));
        Ok(part)
    }

    /// Takes what its part of a failed transaction read.
    pub fn found(&self, found: &mut impl Iterator<Item = Option<KeyValue>>, basis: Basis) -> Outcome<Found> {
        let pod = found.next().flatten().map(Text::from);
        let was = (basis.pod.revision, basis.claim.as_ref().map(|(_, claim)| revision_of(claim.as_ref())));
        let claim = match basis.claim {
            Some((identity, _)) => {
                let claim = found.next().flatten().map(|kv| Stored::read(kv.value, kv.mod_revision.0)).transpose()?;
                Some((identity, claim))
            }
            None => None,
        };
        let Some(pod) = pod else { return Ok(Found::Gone) };
        let is = (pod.revision, claim.as_ref().map(|(_, claim)| revision_of(claim.as_ref())));
        let next = Basis { pod, claim };
        Ok(if was == is { Found::AsItWas(next) } else { Found::Changed(next) })
    }
}

/// 0: it is not there.
fn revision_of(stored: Option<&Stored>) -> u64 {
    stored.map_or(0, |stored| stored.revision)
}

/// The pod from the cache, or from the store when the cache is known to be behind.
pub async fn latest(core: &Core, namespace: &str, name: &str, fresh: bool) -> Outcome<Option<Text>> {
    if !fresh && let Some(pod) = core.cached(&POD, namespace, name) {
        return Ok(Some(Text { bytes: pod.json(), revision: pod.revision }));
    }
    Ok(core.live_bytes(&POD, namespace, name).await?.map(Text::from))
}

/// `POST pods/binding`: checks the machine's room against the cache at the allocation's version, then binds from that version.
pub async fn plain(core: &Core, bind: &Bind<'_>, now: Timestamp, dry_run: bool) -> Outcome<u64> {
    let group = &core.stored_kind(&POD).group;
    for attempt in 0..TRIES {
        let pod = latest(core, bind.namespace, bind.name, attempt > 0).await?;
        let pod = pod.ok_or_else(|| Status::not_found("pods", bind.name))?;
        let allocation = core.live(&NODE_ALLOCATION, "", bind.node).await?;
        let allocation = allocation.ok_or_else(|| Status::not_found("nodes", bind.node))?;
        let revision = allocation.revision;
        group.wait_for(revision).await.map_err(|behind| Status::timeout(&behind.to_string(), 1))?;
        let claim = bind.claim(core, &pod, attempt > 0).await?;
        let basis = Basis { pod, claim };
        let part = match bind.part(&basis, now) {
            Ok(part) => part,
            // What was decided from a cached pod may be out of date.
            Err(_) if attempt == 0 => continue,
            Err(refused) => return Err(refused),
        };
        if let Some(why) = does_not_fit(core, bind, &Stored::read(basis.pod.bytes.clone(), basis.pod.revision)?.value) {
            return Err(bind.conflict(&format!("node {} has no room: {why}", bind.node)));
        }
        if dry_run {
            return Ok(0);
        }
        let txn = transaction(std::iter::once((bind.node, &allocation, 1)), vec![part]);
        let reply = group.store.txn(txn).await.map_err(store_failure)?;
        if reply.succeeded {
            return Ok(reply.revision.0);
        }
        if let Found::Gone = bind.found(&mut read_back(reply).skip(1), basis)? {
            return Err(Status::not_found("pods", bind.name).into());
        }
    }
    Err(bind.conflict("the machine's allocation kept moving; please try again"))
}

fn does_not_fit(core: &Core, bind: &Bind<'_>, pod: &Value) -> Option<String> {
    let node = core.cached(&NODE, "", bind.node)?.value().ok()?;
    let others = core.stored_kind(&POD).resource.on_node(bind.node);
    let others = others.tree.values().map(|pod| pod.derived(PodUse::of));
    let lent =
        core.cached(&BATCH_CAPACITY, "", bind.node).and_then(|capacity| capacity.value().ok()).unwrap_or_default();
    let borrows = |class: &str| {
        let class = if class.is_empty() { None } else { core.cached(&PRIORITY_CLASS, "", class) };
        class
            .is_some_and(|class| class.labels.get(priorityclass::BAND).is_some_and(|band| priorityclass::borrows(band)))
    };
    let allocatable = &node["status"]["allocatable"];
    let machine = room::Machine { allocatable, lendable: &lent["spec"]["lendable"], borrows: &borrows };
    room::shortfall(&PodUse::of(pod), &machine, others)
}
