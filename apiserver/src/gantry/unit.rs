//! Binds that go in one transaction: those on one machine, decided one on top of the other, or a group that binds all or none over
//! all its machines.
//!
//! Decides what goes together and what a lost race means for each. Units are independent of each other, but for those that share a
//! machine's version: they follow each other, each conditional on the one before.

use super::batch::{Answer, Item};
use super::bind::{Basis, Found, Part, read_back, transaction};
use crate::core::{Core, store_failure};
use crate::http::Outcome;
use crate::rest::stored::Stored;
use gantry_apimachinery::kinds::POD;
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use gantry_store::{MAX_OPERATIONS, StoreError, Txn, TxnReply};
use std::collections::{BTreeMap, BTreeSet};

/// Pods of one machine in one transaction: with their claims and the machine they stay below an etcd's 128 operations.
const MOST_PODS: usize = 60;
/// Or as many as take this; an etcd takes a request of 1.5 MiB.
const MOST_BYTES: usize = 1 << 20;
/// Times that a pod may change in something else while it is being bound.
const TRIES: usize = 4;
/// Transactions that a unit may lose to its pods' changes.
const MOST_LOSSES: usize = 16;

/// A machine at the version that items were decided from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line<'a> {
    pub node: &'a str,
    pub version: u64,
}

/// Where each line is by now, after what this batch bound there. `None`: somebody else has moved it.
pub type Lines<'a> = BTreeMap<Line<'a>, Option<Stored>>;

struct Open {
    /// Which item.
    at: usize,
    basis: Basis,
    losses: usize,
}

/// Items that are decided together.
pub struct Unit<'a> {
    /// Empty: items of one machine, of which each may fail alone.
    group: &'a str,
    lines: BTreeSet<Line<'a>>,
    all: Vec<usize>,
    open: Vec<Open>,
    losses: usize,
    /// Why the group cannot bind, known before it was tried.
    in_the_way: Option<(usize, Box<Status>)>,
}

/// What of a unit is on its way.
struct Sent {
    unit: usize,
    taken: Vec<Open>,
}

type Answers = [Option<Answer>];

impl<'a> Unit<'a> {
    pub fn new(group: &'a str) -> Self {
        Self { group, lines: BTreeSet::new(), all: Vec::new(), open: Vec::new(), losses: 0, in_the_way: None }
    }

    pub fn add(&mut self, at: usize, line: Option<Line<'a>>, basis: Outcome<Basis>) {
        self.all.push(at);
        self.lines.extend(line);
        match basis {
            Ok(basis) => self.open.push(Open { at, basis, losses: 0 }),
            Err(status) => self.in_the_way = self.in_the_way.take().or(Some((at, status))),
        }
    }

    /// This item cannot be bound, and with it nothing of its group.
    fn refuse(&mut self, items: &[Item], at: usize, status: Box<Status>, answers: &mut Answers) {
        if self.group.is_empty() {
            answers[at] = Some(Err(status));
            return;
        }
        let blocker = &items[at];
        let why = format!(
            "no pod of group {:?} was bound, because of pod {}/{}: {}",
            self.group, blocker.namespace, blocker.name, status.message
        );
        for at in &self.all {
            let mut refusal = items[*at].bind().conflict(&why);
            refusal.details.get_or_insert_default().causes.extend_from_slice(status.causes());
            answers[*at] = Some(Err(refusal));
        }
        self.open.clear();
    }

    /// The next transaction, and what is in it.
    fn compose(
        &mut self,
        items: &[Item],
        now: Timestamp,
        lines: &Lines,
        answers: &mut Answers,
    ) -> Option<(Txn, Vec<Open>)> {
        let stood: Option<Vec<(&str, &Stored)>> =
            self.lines.iter().map(|line| Some((line.node, lines.get(line)?.as_ref()?))).collect();
        // One machine at two versions: one of them is not the newest.
        let stood = stood.filter(|machines| machines.is_sorted_by(|a, b| a.0 < b.0));
        let Some(machines) = stood else {
            self.all_moved(items, lines, answers);
            return None;
        };
        let grouped = !self.group.is_empty();
        let (mut parts, mut bytes, mut keys): (Vec<Part>, _, _) = (Vec::new(), 0, BTreeSet::new());
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for open in std::mem::take(&mut self.open) {
            if !grouped && (parts.len() == MOST_PODS || bytes > MOST_BYTES) {
                left.push(open);
                continue;
            }
            let item = &items[open.at];
            match item.bind().part(&open.basis, now) {
                // The same pod, or the same claim: what the one before did is to be seen first.
                Ok(part) if part.keys.iter().any(|key| keys.contains(key)) => match grouped {
                    true => {
                        let why = item.bind().conflict("another pod of the group is the same, or has the same claim");
                        self.refuse(items, open.at, why, answers);
                        return None;
                    }
                    false => left.push(open),
                },
                Ok(part) => {
                    bytes += part.bytes();
                    keys.extend(part.keys.iter().cloned());
                    parts.push(part);
                    taken.push(open);
                }
                Err(status) => {
                    self.refuse(items, open.at, status, answers);
                    if grouped {
                        return None;
                    }
                }
            }
        }
        self.open = left;
        if parts.is_empty() {
            return None;
        }
        let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
        taken.iter().for_each(|open| *pods.entry(&items[open.at].node).or_default() += 1);
        let machines = machines.into_iter().map(|(node, at)| (node, at, pods.get(node).copied().unwrap_or(0)));
        Some((transaction(machines, parts), taken))
    }

    /// Somebody else has taken room on a machine.
    fn all_moved(&mut self, items: &[Item], lines: &Lines, answers: &mut Answers) {
        let moved = |open: &Open| {
            let line = items[open.at].line().ok();
            line.and_then(|line| lines.get(&line)).is_none_or(Option::is_none)
        };
        match self.open.iter().find(|open| moved(open)).map(|open| open.at) {
            Some(at) if !self.group.is_empty() => self.refuse(items, at, items[at].moved(), answers),
            _ => self.open.drain(..).for_each(|open| answers[open.at] = Some(Err(items[open.at].moved()))),
        }
    }

    /// The transaction failed: what is in the way?
    fn lost(
        &mut self,
        items: &[Item],
        taken: Vec<Open>,
        reply: TxnReply,
        lines: &mut Lines<'a>,
        answers: &mut Answers,
    ) -> Outcome<()> {
        self.losses += 1;
        let mut found = read_back(reply);
        let mut moved = false;
        for line in &self.lines {
            let now = found.next().flatten().map_or(0, |kv| kv.mod_revision.0);
            let stood = lines.get(line).and_then(Option::as_ref).map(|at| at.revision);
            if stood != Some(now) {
                lines.insert(*line, None);
                moved = true;
            }
        }
        let mut again = Vec::with_capacity(taken.len() + self.open.len());
        let mut refused = Vec::new();
        for Open { at, basis, losses } in taken {
            let item = &items[at];
            match item.bind().found(&mut found, basis)? {
                Found::Gone => refused.push((at, Status::not_found("pods", &item.name).into())),
                Found::AsItWas(basis) => again.push(Open { at, basis, losses }),
                Found::Changed(_) if losses + 1 == TRIES || self.losses == MOST_LOSSES => {
                    refused.push((at, Status::conflict("pods/binding", &item.name).into()));
                }
                Found::Changed(basis) => again.push(Open { at, basis, losses: losses + 1 }),
            }
        }
        again.append(&mut self.open);
        self.open = again;
        if moved {
            self.all_moved(items, lines, answers);
        }
        for (at, status) in refused {
            if answers[at].is_none() {
                self.refuse(items, at, status, answers);
            }
        }
        Ok(())
    }
}

/// One transaction of each unit that has something open and whose machines no unit before it uses. Returns whether there was any.
pub async fn round<'a>(
    core: &Core,
    items: &[Item],
    now: Timestamp,
    lines: &mut Lines<'a>,
    units: &mut [Unit<'a>],
    answers: &mut Answers,
) -> Outcome<bool> {
    let (mut sent, mut txns) = (Vec::new(), Vec::new());
    let mut used: BTreeSet<Line> = BTreeSet::new();
    let mut waits = false;
    for (at, unit) in units.iter_mut().enumerate() {
        if let Some((blocker, status)) = unit.in_the_way.take() {
            unit.refuse(items, blocker, status, answers);
        }
        if unit.open.is_empty() {
            continue;
        }
        let free = unit.lines.is_disjoint(&used);
        used.extend(unit.lines.iter().copied());
        if !free {
            waits = true;
        } else if let Some((txn, taken)) = unit.compose(items, now, lines, answers) {
            sent.push(Sent { unit: at, taken });
            txns.push(txn);
        }
    }
    if txns.is_empty() {
        return Ok(waits);
    }
    let store = &core.stored_kind(&POD).group.store;
    let replies = store.txn_batch(txns).await.map_err(store_failure)?;
    for (Sent { unit, taken }, reply) in sent.into_iter().zip(replies) {
        let unit = &mut units[unit];
        match reply {
            Err(error) => {
                let status = failure(error, unit, taken.len());
                taken.iter().for_each(|open| answers[open.at] = Some(Err(status.clone().into())));
            }
            Ok(reply) if reply.succeeded => {
                let revision = reply.revision.0;
                taken.iter().for_each(|open| answers[open.at] = Some(Ok(revision)));
                for line in &unit.lines {
                    if let Some(Some(at)) = lines.get_mut(line) {
                        at.value["writes"] = (at.value["writes"].as_i64().unwrap_or(0) + 1).into();
                        at.revision = revision;
                    }
                }
            }
            Ok(reply) => unit.lost(items, taken, reply, lines, answers)?,
        }
    }
    Ok(true)
}

/// How the store's refusal reads; one of size says what an etcd must be told.
fn failure(error: StoreError, unit: &Unit, pods: usize) -> Status {
    let on = format!("the bind of {pods} pods on {} machines in one transaction", unit.lines.len());
    match error {
        StoreError::TooManyOps { .. } => Status::too_large(format!(
            "{on} has more operations than the store takes; an etcd needs --max-txn-ops={MAX_OPERATIONS}"
        )),
        StoreError::TooLarge { .. } => Status::too_large(format!(
            "{on} is larger than the store takes; an etcd needs --max-request-bytes=16777216"
        )),
        error => store_failure(error),
    }
}
