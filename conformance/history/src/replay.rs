//! Replays a history in the order of its revisions. Every acknowledged write says which revision it is, so only writes of
//! unknown outcome have to be searched for, and only where a revision has no acknowledged writer.

use crate::model::{Model, Ran};
use crate::order::Order;
use crate::record::{Event, History, Op, Operation, Outcome, Reply, Request, Span};
use crate::traces::Traces;
use crate::watches::{self, Told};
use crate::{Violation, WatchFault};
use std::collections::BTreeMap;

/// Writes tried, at any revision, before the search gives up.
const MOST_STEPS: usize = 20_000;

/// A history that is possible, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The newest revision that anybody saw, and the keys then.
    pub revision: u64,
    pub model: Model,
    /// Which writes of unknown outcome were done.
    pub unknown_done: Vec<usize>,
}

/// Whether the history is one of a correct store that was empty, at revision 1, when it began.
pub fn check(history: &History) -> Result<Explained, Violation> {
    let told = watches::gather(history)?;
    let order = Order::new(history);
    let facts = Facts::gather(history, &order)?;
    let traces = Traces::gather(history);
    Search { history, told, order, facts, traces, steps: 0, worst: None }.run()
}

/// Operations by where they stand in the history.
#[derive(Default)]
struct Facts {
    /// The acknowledged write of each revision.
    writes: BTreeMap<u64, usize>,
    /// Answered operations that wrote nothing, by the revision that they read.
    reads: BTreeMap<u64, Vec<usize>>,
    /// Answered reads of the past, by the revision that they asked for.
    past: BTreeMap<u64, Vec<usize>>,
    /// Writes of unknown outcome, in the order in which they were sent.
    unknown: Vec<usize>,
}

impl Facts {
    fn gather(history: &History, order: &Order) -> Result<Self, Violation> {
        let mut facts = Self::default();
        for (number, operation) in history.operations.iter().enumerate() {
            match &operation.outcome {
                Outcome::Done { revision, succeeded, replies } => {
                    let wrote = wrote(&operation.request, *succeeded, replies);
                    facts.place(order, number, operation, *revision, wrote)?;
                }
                Outcome::Compacted { oldest } => {
                    let requested = match operation.request {
                        Request::Read { at: Some(at), .. } => at,
                        Request::Read { at: None, .. } | Request::Txn(_) => u64::MAX,
                    };
                    if *oldest <= requested || *oldest > history.compacted_to {
                        return Err(Violation::Forgotten { requested, oldest: *oldest });
                    }
                }
                Outcome::Unknown if matches!(operation.request, Request::Txn(_)) => facts.unknown.push(number),
                Outcome::Unknown | Outcome::Refused => {}
            }
        }
        facts.unknown.sort_by_key(|number| history.operations[*number].sent);
        Ok(facts)
    }

    fn place(
        &mut self,
        order: &Order,
        number: usize,
        operation: &Operation,
        revision: u64,
        wrote: bool,
    ) -> Result<(), Violation> {
        let seen_before = order.seen_before(operation.sent);
        let stale_allowed = matches!(operation.request, Request::Read { serializable: true, .. });
        let late = if wrote { revision <= seen_before } else { revision < seen_before && !stale_allowed };
        if wrote && let Some(first) = self.writes.insert(revision, number) {
            return Err(Violation::RevisionTwice { revision, operations: [first, number] });
        }
        if late {
            return Err(Violation::BackInTime { operation: number, revision, seen_before });
        }
        if let Request::Read { at: Some(at), .. } = operation.request {
            self.past.entry(at).or_default().push(number);
        } else if !wrote {
            self.reads.entry(revision).or_default().push(number);
        }
        Ok(())
    }
}

/// Whether an answered request made a revision.
fn wrote(request: &Request, succeeded: bool, replies: &[Reply]) -> bool {
    let Request::Txn(txn) = request else { return false };
    let ops = if succeeded { &txn.then } else { &txn.otherwise };
    ops.iter().any(|op| matches!(op, Op::Put { .. }))
        || replies.iter().any(|reply| matches!(reply, Reply::Deleted(1..)))
}

/// A revision that an unknown write was put at, and what to go back to.
struct Choice {
    revision: u64,
    before: Model,
    /// The place in `unknown` of the one that was taken.
    taken: usize,
}

struct Search<'a> {
    history: &'a History,
    told: Vec<Told<'a>>,
    order: Order,
    facts: Facts,
    traces: Traces<'a>,
    steps: usize,
    /// What went wrong at the newest revision that was reached.
    worst: Option<(u64, Violation)>,
}

impl Search<'_> {
    fn run(mut self) -> Result<Explained, Violation> {
        let newest = self.order.newest();
        let mut model = Model::default();
        let mut used = vec![false; self.facts.unknown.len()];
        let mut choices: Vec<Choice> = Vec::new();
        self.reads(1, &model)?;
        let mut revision = 2;
        // Where in `unknown` to go on looking, after going back.
        let mut from = 0;
        while revision <= newest {
            let stepped = match self.facts.writes.get(&revision).copied() {
                Some(write) => self.write(write, revision, &mut model),
                None => self.fill(revision, from, &mut model, &mut used, &mut choices),
            };
            from = 0;
            match stepped {
                Ok(()) => revision += 1,
                Err(violation @ Violation::Undecided { .. }) => return Err(violation),
                Err(violation) => {
                    if self.worst.as_ref().is_none_or(|(worst, _)| *worst < revision) {
                        self.worst = Some((revision, violation));
                    }
                    let Some(choice) = choices.pop() else {
                        return Err(self.worst.expect("it was set right above").1);
                    };
                    used[choice.taken] = false;
                    (revision, model, from) = (choice.revision, choice.before, choice.taken + 1);
                }
            }
        }
        let done = self.facts.unknown.iter().zip(used).filter(|(_, used)| *used);
        Ok(Explained { revision: newest, model, unknown_done: done.map(|(number, _)| *number).collect() })
    }

    /// Takes the acknowledged write of `revision`.
    fn write(&self, number: usize, revision: u64, model: &mut Model) -> Result<(), Violation> {
        let operation = &self.history.operations[number];
        let (Request::Txn(txn), Outcome::Done { succeeded, replies, .. }) = (&operation.request, &operation.outcome)
        else {
            return Ok(());
        };
        let ran = model.run(txn, revision);
        same_answer(number, &ran, *succeeded, replies)?;
        if ran.events.is_empty() {
            return Err(Violation::Unexplained { revision });
        }
        self.observed(revision, model, &ran.events)
    }

    /// Finds a write of unknown outcome for a revision without a known writer.
    fn fill(
        &mut self,
        revision: u64,
        from: usize,
        model: &mut Model,
        used: &mut [bool],
        choices: &mut Vec<Choice>,
    ) -> Result<(), Violation> {
        let mut why = Violation::Unexplained { revision };
        for (taken, unknown) in self.facts.unknown.iter().enumerate().skip(from) {
            let operation = &self.history.operations[*unknown];
            if operation.sent >= self.order.first_seen(revision) {
                break;
            }
            if used[taken] || self.order.seen_before(operation.sent) >= revision {
                continue;
            }
            let Request::Txn(txn) = &operation.request else { continue };
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err(Violation::Undecided { steps: self.steps });
            }
            let mut after = model.clone();
            let ran = after.run(txn, revision);
            if ran.events.is_empty() || !self.traces.allow(revision, &ran.events) {
                continue;
            }
            match self.observed(revision, &after, &ran.events) {
                Ok(()) => {
                    used[taken] = true;
                    choices.push(Choice { revision, before: std::mem::replace(model, after), taken });
                    return Ok(());
                }
                Err(violation) => why = violation,
            }
        }
        Err(why)
    }

    /// Whether everything that was seen of `revision` fits.
    fn observed(&self, revision: u64, model: &Model, events: &[Event]) -> Result<(), Violation> {
        for (watch, told) in self.told.iter().enumerate() {
            if told.covers(revision) && !told.agrees(revision, events) {
                return Err(Violation::Watch { watch, revision, fault: WatchFault::Content });
            }
        }
        self.reads(revision, model)
    }

    /// Whether what was read at `revision`, then or later, is what the model holds.
    fn reads(&self, revision: u64, model: &Model) -> Result<(), Violation> {
        let now = self.facts.reads.get(&revision).into_iter().flatten();
        for number in now.chain(self.facts.past.get(&revision).into_iter().flatten()) {
            let operation = &self.history.operations[*number];
            let Outcome::Done { succeeded, replies, .. } = &operation.outcome else { continue };
            let ran = match &operation.request {
                Request::Read { span, .. } => got(model, span),
                // One that wrote nothing is run for its answer only.
                Request::Txn(txn) => model.clone().run(txn, revision),
            };
            same_answer(*number, &ran, *succeeded, replies)?;
        }
        Ok(())
    }
}

fn got(model: &Model, span: &Span) -> Ran {
    Ran { succeeded: true, replies: vec![Reply::Got(model.get(span))], events: vec![] }
}

fn same_answer(operation: usize, ran: &Ran, succeeded: bool, replies: &[Reply]) -> Result<(), Violation> {
    if ran.succeeded == succeeded && ran.replies == replies {
        return Ok(());
    }
    let expected = format!("{} {:?}", ran.succeeded, ran.replies);
    Err(Violation::WrongAnswer { operation, expected, found: format!("{succeeded} {replies:?}") })
}
