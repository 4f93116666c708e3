//! Replays a history in the order of its revisions. Every acknowledged write says which revision it is, so only writes of
//! unknown outcome have to be searched for, and only where a revision has no acknowledged writer.

use crate::leases::Leases;
use crate::model::{Model, Ran};
use crate::order::Order;
use crate::record::{Event, History, LeaseRequest, Op, Operation, Outcome, Reply, Request, Span};
use crate::traces::Traces;
use crate::watches::{self, Told};
use crate::{Violation, WatchFault};
use std::collections::BTreeMap;

/// Writes tried, at any revision, before the search gives up.
const MOST_STEPS: usize = 500_000;

/// A history that is possible, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The newest revision that anybody saw, and the keys then.
    pub revision: u64,
    pub model: Model,
    /// Which writes of unknown outcome were done.
    pub unknown_done: Vec<usize>,
    /// How many revisions are the end of a lease that no revocation is known to have made.
    pub expired: usize,
}

/// Whether the history is one of a correct store that was empty, at revision 1, when it began.
pub fn check(history: &History) -> Result<Explained, Violation> {
    check_within(history, MOST_STEPS)
}

/// The same, with so many writes tried at most.
pub fn check_within(history: &History, most_steps: usize) -> Result<Explained, Violation> {
    let told = watches::gather(history)?;
    let order = Order::new(history);
    let facts = Facts::gather(history, &order)?;
    let (traces, leases) = (Traces::gather(history), Leases::gather(history)?);
    Search { history, told, order, facts, traces, leases, steps: 0, most_steps, worst: None }.run()
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
    /// The leases that were gone at a revision, by an acknowledged revocation.
    revoked: BTreeMap<u64, Vec<u64>>,
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
                        Request::Read { at: None, .. } | Request::Txn(_) | Request::Lease(_) => u64::MAX,
                    };
                    if *oldest <= requested || *oldest > history.compacted_to {
                        return Err(Violation::Forgotten { requested, oldest: *oldest });
                    }
                }
                Outcome::Unknown if matches!(operation.request, Request::Txn(_)) => facts.unknown.push(number),
                Outcome::Unknown | Outcome::Refused | Outcome::Renewed | Outcome::NoLease => {}
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
        if let Request::Lease(LeaseRequest::Revoke { lease }) = operation.request {
            self.revoked.entry(revision).or_default().push(lease);
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

/// A revision that nobody was told to have written, what was put there, and what to go back to.
struct Choice {
    revision: u64,
    before: Model,
    taken: Taken,
    /// Where among what may be put there to go on.
    next: usize,
}

/// What may have made a revision that nobody was told to have written.
#[derive(Clone, Copy)]
enum Taken {
    /// The end of a lease.
    End(u64),
    /// The write of unknown outcome in this place of `unknown`.
    Unknown(usize),
}

struct Search<'a> {
    history: &'a History,
    told: Vec<Told<'a>>,
    order: Order,
    facts: Facts,
    traces: Traces<'a>,
    leases: Leases,
    steps: usize,
    most_steps: usize,
    /// What went wrong at the newest revision that was reached.
    worst: Option<(u64, Violation)>,
}

impl Search<'_> {
    fn run(mut self) -> Result<Explained, Violation> {
        let newest = self.order.newest();
        let mut model = Model::default();
        let mut used = vec![false; self.facts.unknown.len()];
        let mut choices: Vec<Choice> = Vec::new();
        self.reads(1, &mut model)?;
        let mut revision = 2;
        // Where to go on looking, after going back.
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
                    if let Taken::Unknown(unknown) = choice.taken {
                        used[unknown] = false;
                    }
                    (revision, model, from) = (choice.revision, choice.before, choice.next);
                }
            }
        }
        let expired =
            choices.iter().filter(|choice| matches!(choice.taken, Taken::End(lease) if !self.leases.is_revoked(lease)));
        let expired = expired.count();
        let done = self.facts.unknown.iter().zip(used).filter(|(_, used)| *used);
        let unknown_done = done.map(|(number, _)| *number).collect();
        Ok(Explained { revision: newest, model, unknown_done, expired })
    }

    /// Takes the acknowledged write of `revision`.
    fn write(&self, number: usize, revision: u64, model: &mut Model) -> Result<(), Violation> {
        let operation = &self.history.operations[number];
        let (Request::Txn(txn), Outcome::Done { succeeded, replies, .. }) = (&operation.request, &operation.outcome)
        else {
            return Ok(());
        };
        if model.misses_lease(txn) {
            let (expected, found) = ("a lease that is gone".into(), format!("{succeeded} {replies:?}"));
            return Err(Violation::WrongAnswer { operation: number, expected, found });
        }
        let ran = model.run(txn, revision);
        same_answer(number, &ran, *succeeded, replies)?;
        if ran.events.is_empty() {
            return Err(Violation::Unexplained { revision });
        }
        self.observed(revision, model, &ran.events)
    }

    /// Finds what may have made a revision without a known writer: the end of a lease, or a write of unknown outcome.
    fn fill(
        &mut self,
        revision: u64,
        from: usize,
        model: &mut Model,
        used: &mut [bool],
        choices: &mut Vec<Choice>,
    ) -> Result<(), Violation> {
        let mut why = Violation::Unexplained { revision };
        let ends = model.leases().into_iter().map(Taken::End);
        let candidates = ends.chain((0..self.facts.unknown.len()).map(Taken::Unknown));
        for (place, taken) in candidates.enumerate().skip(from) {
            if matches!(taken, Taken::Unknown(unknown) if self.sent(unknown) >= self.order.first_seen(revision)) {
                break;
            }
            if matches!(taken, Taken::Unknown(unknown) if used[unknown] || self.order.seen_before(self.sent(unknown)) >= revision)
            {
                continue;
            }
            self.steps += 1;
            if self.steps > self.most_steps {
                return Err(Violation::Undecided { steps: self.steps });
            }
            let mut after = model.clone();
            let Some(events) = self.take(taken, revision, &mut after) else { continue };
            if events.is_empty() || !self.traces.allow(revision, &events) {
                continue;
            }
            let fits = self.observed(revision, &mut after, &events).and_then(|()| match taken {
                Taken::End(lease) => self.leases.ends(lease, revision, &self.order),
                Taken::Unknown(_) => Ok(()),
            });
            match fits {
                Ok(()) => {
                    if let Taken::Unknown(unknown) = taken {
                        used[unknown] = true;
                    }
                    let before = std::mem::replace(model, after);
                    choices.push(Choice { revision, before, taken, next: place + 1 });
                    return Ok(());
                }
                // That it was too early says more than that it was not something else.
                Err(violation) if !matches!(why, Violation::RanOutEarly { .. }) => why = violation,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn sent(&self, unknown: usize) -> u64 {
        self.history.operations[self.facts.unknown[unknown]].sent
    }

    /// Does it to the model; `None`: it cannot be done.
    fn take(&self, taken: Taken, revision: u64, model: &mut Model) -> Option<Vec<Event>> {
        match taken {
            Taken::End(lease) => Some(model.end(lease, revision)),
            Taken::Unknown(unknown) => match &self.history.operations[self.facts.unknown[unknown]].request {
                Request::Txn(txn) if !model.misses_lease(txn) => Some(model.run(txn, revision).events),
                Request::Txn(_) | Request::Read { .. } | Request::Lease(_) => None,
            },
        }
    }

    /// Whether everything that was seen of `revision` fits.
    fn observed(&self, revision: u64, model: &mut Model, events: &[Event]) -> Result<(), Violation> {
        for (watch, told) in self.told.iter().enumerate() {
            if told.covers(revision) && !told.agrees(revision, events) {
                return Err(Violation::Watch { watch, revision, fault: WatchFault::Content });
            }
        }
        self.reads(revision, model)
    }

    /// Whether what was read at `revision`, then or later, is what the model holds.
    fn reads(&self, revision: u64, model: &mut Model) -> Result<(), Violation> {
        for lease in self.facts.revoked.get(&revision).into_iter().flatten() {
            // Its keys went with this revision or before.
            if let Some(event) = model.end(*lease, revision).into_iter().next() {
                return Err(Violation::Survived { lease: *lease, revision, key: event.key });
            }
        }
        let now = self.facts.reads.get(&revision).into_iter().flatten();
        for number in now.chain(self.facts.past.get(&revision).into_iter().flatten()) {
            let operation = &self.history.operations[*number];
            let Outcome::Done { succeeded, replies, .. } = &operation.outcome else { continue };
            let ran = match &operation.request {
                Request::Read { span, .. } => got(model, span),
                // One that wrote nothing is run for its answer only.
                Request::Txn(txn) => model.clone().run(txn, revision),
                Request::Lease(_) => continue,
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
