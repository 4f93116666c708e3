//! What a client of a test asks: puts, deletes, reads, transactions and leases over a few keys, as chance says and as what it
//! was answered before suggests. It sends nothing, and it does not judge the answers.

use crate::record::{Condition, LeaseRequest, Op, Outcome, Reply, Request, Span, Target, Txn};
use std::collections::BTreeMap;

const KEYS: u64 = 6;
/// The leases that a client keeps at once.
const MOST_LEASES: usize = 2;
/// The times of a history with leases are nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// A store that counts whole milliseconds may find a lease to be over by this much sooner.
const ROUNDING: u64 = 1_000_000;

/// Where chance comes from.
pub trait Dice {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64;

    /// A number from `from` on, below `to`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn key(&mut self) -> String {
        format!("k{}", self.below(KEYS))
    }

    fn span(&mut self) -> Span {
        if self.percent(60) {
            return Span::key(self.key());
        }
        let (a, b) = (self.below(KEYS), self.below(KEYS));
        Span { start: format!("k{}", a.min(b)), end: Some(format!("k{}", a.max(b) + 1)) }
    }
}

/// All keys that clients write.
pub fn everything() -> Span {
    Span { start: "k".into(), end: Some("l".into()) }
}

/// One client, as far as it has to remember anything.
pub struct Asker {
    number: usize,
    /// Ends every value's name.
    pub mark: &'static str,
    /// The shortest and the longest time of its leases, in seconds; `None`: it asks for none.
    ttl_s: Option<(u64, u64)>,
    written: u64,
    /// A key's newest version as this client knows it: its revision and value.
    known: BTreeMap<String, (u64, String)>,
    leases: Vec<u64>,
    granted: u64,
    /// The newest revision that it was told of.
    pub newest: u64,
}

impl Asker {
    pub fn new(number: usize, ttl_s: Option<(u64, u64)>) -> Self {
        let (known, leases) = (BTreeMap::new(), Vec::new());
        Self { number, mark: "", ttl_s, written: 0, known, leases, granted: 0, newest: 1 }
    }

    fn put(&mut self, key: String, dice: &mut impl Dice) -> Op {
        self.written += 1;
        let value = format!("{}.{}{}", self.number, self.written, self.mark);
        let lease = self.leases.last().copied().filter(|_| dice.percent(40)).unwrap_or(0);
        Op::Put { key, value, lease }
    }

    fn condition(&self, dice: &mut impl Dice) -> Condition {
        let key = dice.key();
        let target = match self.known.get(&key) {
            Some((_, value)) if dice.percent(40) => Target::Value(value.clone()),
            Some((modified, _)) => Target::Modified(*modified),
            None => Target::Modified(0),
        };
        Condition { key, target }
    }

    /// One write that has no condition.
    pub fn write(&mut self) -> Request {
        self.written += 1;
        let value = format!("{}.{}", self.number, self.written);
        Request::Txn(Txn { then: vec![Op::Put { key: "k0".into(), value, lease: 0 }], ..Txn::default() })
    }

    /// What to ask next.
    pub fn request(&mut self, dice: &mut impl Dice) -> Request {
        if let Some(ttl_s) = self.ttl_s
            && dice.percent(28)
        {
            return Request::Lease(self.lease(ttl_s, dice));
        }
        let read = |span, at, serializable| Request::Read { span, at, serializable };
        let mut txn = Txn::default();
        match dice.below(100) {
            0..30 => {
                let key = dice.key();
                txn.then.push(self.put(key, dice));
            }
            30..38 => txn.then.push(Op::Delete(dice.span())),
            38..55 => {
                let condition = self.condition(dice);
                txn.then.push(self.put(condition.key.clone(), dice));
                txn.otherwise.push(Op::Get(Span::key(condition.key.clone())));
                txn.conditions.push(condition);
            }
            55..67 => {
                txn.conditions = (0..dice.below(3)).map(|_| self.condition(dice)).collect();
                let first = dice.below(KEYS - 1);
                let (one, other) = (self.put(format!("k{first}"), dice), self.put(format!("k{}", first + 1), dice));
                txn.then = vec![one, Op::Get(everything()), other];
                txn.otherwise = vec![Op::Delete(Span::key(dice.key())), Op::Get(everything())];
            }
            67..85 => return read(dice.span(), None, false),
            85..93 => return read(everything(), None, true),
            _ => return read(everything(), Some(dice.between(1, self.newest + 1)), false),
        }
        Request::Txn(txn)
    }

    fn lease(&mut self, (shortest, longest): (u64, u64), dice: &mut impl Dice) -> LeaseRequest {
        if self.leases.is_empty() || (self.leases.len() < MOST_LEASES && dice.percent(15)) {
            self.granted += 1;
            let lease = self.number as u64 * 1_000_000 + self.granted;
            let ttl = dice.between(shortest, longest + 1) * SECOND - ROUNDING;
            return LeaseRequest::Grant { lease, ttl };
        }
        let lease = self.leases[dice.below(self.leases.len() as u64) as usize];
        if dice.percent(10) { LeaseRequest::Revoke { lease } } else { LeaseRequest::Renew { lease } }
    }

    /// Which revision to ask to compact to.
    pub fn compaction(&self, behind: u64, dice: &mut impl Dice) -> u64 {
        self.newest.saturating_sub(dice.below(behind)).max(1)
    }

    /// Takes note of an answer.
    pub fn learn(&mut self, request: &Request, outcome: &Outcome) {
        if let Request::Lease(request) = request {
            self.learn_lease(*request, outcome);
        }
        let Outcome::Done { revision, succeeded, replies } = outcome else { return };
        self.newest = self.newest.max(*revision);
        let got = replies.iter().filter_map(|reply| if let Reply::Got(kvs) = reply { Some(kvs) } else { None });
        for kv in got.flatten() {
            self.known.insert(kv.key.clone(), (kv.modified, kv.value.clone()));
        }
        if let Request::Txn(Txn { then, .. }) = request
            && *succeeded
        {
            for op in then {
                if let Op::Put { key, value, .. } = op {
                    self.known.insert(key.clone(), (*revision, value.clone()));
                }
            }
        }
    }

    fn learn_lease(&mut self, request: LeaseRequest, outcome: &Outcome) {
        let lease = request.lease();
        match (request, outcome) {
            (LeaseRequest::Grant { .. }, Outcome::Done { .. }) => self.leases.push(lease),
            (LeaseRequest::Grant { .. }, _) | (LeaseRequest::Renew { .. }, Outcome::Renewed | Outcome::Unknown) => {}
            (LeaseRequest::Revoke { .. }, Outcome::Refused) | (LeaseRequest::Renew { .. }, Outcome::Refused) => {}
            // It is gone, or may be.
            (LeaseRequest::Renew { .. } | LeaseRequest::Revoke { .. }, _) => self.leases.retain(|held| *held != lease),
        }
    }
}
