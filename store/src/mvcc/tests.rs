//! Properties: the state machine against a naive model that keeps every state it ever had.

use super::*;
use crate::api::{
    Compare, CompareTarget, Delete, EventKind, KeyValue, Op, OpReply, Put, RangeReply, RangeRequest, Relation, SortBy,
};
use crate::archive::{Archive, Nothing, Shelf, bring_back};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Every key of every revision, copied.
struct Model {
    states: Vec<BTreeMap<Bytes, KeyValue>>,
    leases: BTreeMap<LeaseId, i64>,
    compacted: u64,
}

type State = BTreeMap<Bytes, KeyValue>;

impl Model {
    fn new() -> Self {
        // Index 0 is no revision; 1 is the empty store.
        Self { states: vec![State::new(), State::new()], leases: BTreeMap::new(), compacted: 0 }
    }

    fn now(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn txn(&mut self, txn: &Txn) -> Option<TxnReply> {
        let chosen = self.choose(txn);
        if !self.allowed(&chosen) {
            return None;
        }
        let mut state = self.now().clone();
        let mut changed = false;
        let mut reply = self.run(&chosen, &mut state, &mut changed);
        if changed {
            self.states.push(state);
        }
        reply.revision = Revision(self.revision());
        Some(reply)
    }

    /// The transaction with every branch chosen: comparisons all see the state before it.
    fn choose(&self, txn: &Txn) -> Chosen {
        let succeeded = txn.compare.iter().all(|compare| compares(compare, self.now()));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let step = |op: &Op| match op {
            Op::Txn(nested) => Step::Nested(self.choose(nested)),
            op => Step::Op(op.clone()),
        };
        Chosen { succeeded, steps: ops.iter().map(step).collect() }
    }

    fn allowed(&self, chosen: &Chosen) -> bool {
        chosen.steps.iter().all(|step| match step {
            Step::Nested(nested) => self.allowed(nested),
            Step::Op(Op::Put(put)) => {
                let kept = !(put.keep_value || put.keep_lease) || self.now().contains_key(&put.key);
                kept && (put.lease == LeaseId::NONE || self.leases.contains_key(&put.lease))
            }
            Step::Op(Op::Range(range)) => {
                range.revision.is_none_or(|at| at.0 <= self.revision() && at.0 >= self.compacted.max(1))
            }
            Step::Op(_) => true,
        })
    }

    /// What was put and deleted again is a change, too.
    fn run(&self, chosen: &Chosen, state: &mut State, changed: &mut bool) -> TxnReply {
        let next = Revision(self.revision() + 1);
        let ops = chosen.steps.iter().map(|step| match step {
            Step::Nested(nested) => OpReply::Txn(self.run(nested, state, changed)),
            Step::Op(Op::Put(put)) => {
                let old = state.get(&put.key).cloned();
                let kv = KeyValue {
                    key: put.key.clone(),
                    value: old.as_ref().filter(|_| put.keep_value).map_or(put.value.clone(), |old| old.value.clone()),
                    create_revision: old.as_ref().map_or(next, |old| old.create_revision),
                    mod_revision: next,
                    version: old.as_ref().map_or(0, |old| old.version) + 1,
                    lease: old.as_ref().filter(|_| put.keep_lease).map_or(put.lease, |old| old.lease),
                };
                state.insert(put.key.clone(), kv);
                *changed = true;
                OpReply::Put { prev: old.filter(|_| put.prev_kv) }
            }
            Step::Op(Op::Delete(delete)) => {
                let span = Span::new(delete.start.clone(), delete.end.clone());
                let keys: Vec<_> = state.keys().filter(|key| span.contains(key)).cloned().collect();
                let gone: Vec<_> = keys.iter().filter_map(|key| state.remove(key)).collect();
                let deleted = gone.len() as u64;
                *changed |= deleted > 0;
                OpReply::Delete { deleted, prev: if delete.prev_kv { gone } else { vec![] } }
            }
            Step::Op(Op::Range(range)) => {
                let now = if *changed { next } else { Revision(self.revision()) };
                let from = match range.revision {
                    Some(at) if at != now => &self.states[at.0 as usize],
                    _ => &*state,
                };
                OpReply::Range(model_range(range, from, now))
            }
            Step::Op(Op::Txn(_)) => unreachable!("chosen"),
        });
        let ops = ops.collect();
        let revision = if *changed { next } else { Revision(self.revision()) };
        TxnReply { succeeded: chosen.succeeded, revision, ops }
    }

    fn revoke(&mut self, id: LeaseId) -> bool {
        let mut state = self.now().clone();
        state.retain(|_, kv| kv.lease != id);
        if state != *self.now() {
            self.states.push(state);
        }
        self.leases.remove(&id).is_some()
    }
}

struct Chosen {
    succeeded: bool,
    steps: Vec<Step>,
}

enum Step {
    Op(Op),
    Nested(Chosen),
}

fn compares(compare: &Compare, state: &State) -> bool {
    let span = Span::new(compare.start.clone(), compare.end.clone());
    let found: Vec<_> = state.values().filter(|kv| span.contains(&kv.key)).collect();
    let order = |kv: Option<&KeyValue>| match &compare.target {
        CompareTarget::Version(version) => Some(kv.map_or(0, |kv| kv.version).cmp(version)),
        CompareTarget::CreateRevision(revision) => Some(kv.map_or(0, |kv| kv.create_revision.0).cmp(&revision.0)),
        CompareTarget::ModRevision(revision) => Some(kv.map_or(0, |kv| kv.mod_revision.0).cmp(&revision.0)),
        CompareTarget::Lease(lease) => Some(kv.map_or(0, |kv| kv.lease.0).cmp(&lease.0)),
        CompareTarget::Value(value) => kv.map(|kv| kv.value.cmp(value)),
    };
    let holds = |kv| match (compare.relation, order(kv)) {
        (_, None) => false,
        (Relation::Equal, Some(order)) => order.is_eq(),
        (Relation::NotEqual, Some(order)) => order.is_ne(),
        (Relation::Greater, Some(order)) => order.is_gt(),
        (Relation::Less, Some(order)) => order.is_lt(),
    };
    if found.is_empty() { holds(None) } else { found.iter().all(|kv| holds(Some(kv))) }
}

fn model_range(range: &RangeRequest, state: &State, revision: Revision) -> RangeReply {
    let span = Span::new(range.start.clone(), range.end.clone());
    let mut kvs: Vec<_> = state.values().filter(|kv| span.contains(&kv.key)).cloned().collect();
    let count = kvs.len();
    kvs.retain(|kv| kv.mod_revision >= range.only.min_mod);
    kvs.retain(|kv| range.only.max_create.0 == 0 || kv.create_revision <= range.only.max_create);
    match range.order {
        Some((SortBy::ModRevision, false)) => kvs.sort_by_key(|kv| kv.mod_revision),
        Some((SortBy::Value, true)) => kvs.sort_by(|a, b| b.value.cmp(&a.value)),
        _ => {}
    }
    let more = range.limit > 0 && kvs.len() > range.limit && !range.count_only;
    if range.limit > 0 {
        kvs.truncate(range.limit);
    }
    if range.count_only {
        kvs.clear();
    }
    if range.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    RangeReply { kvs, revision, count, more }
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["a", "aa", "ab", "b", "b\u{1}", "c"]).prop_map(Bytes::from)
}

fn end() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["", "", "", "b", "\0", "a"]).prop_map(Bytes::from)
}

fn lease() -> impl Strategy<Value = LeaseId> {
    (0i64..4).prop_map(LeaseId)
}

fn range() -> impl Strategy<Value = RangeRequest> {
    let order = prop::sample::select(vec![None, Some((SortBy::ModRevision, false)), Some((SortBy::Value, true))]);
    let revision = prop::option::weighted(0.3, (1u64..20).prop_map(Revision));
    let only = (0u64..8, prop::sample::select(vec![0u64, 0, 0, 5])).prop_map(|(min, max)| crate::api::Only {
        min_mod: Revision(min),
        max_create: Revision(max),
        ..Default::default()
    });
    (key(), end(), 0usize..3, revision, order, only, any::<(bool, bool)>()).prop_map(
        |(start, end, limit, revision, order, only, (keys_only, count_only))| RangeRequest {
            start,
            end,
            limit,
            revision,
            order,
            only,
            keys_only,
            count_only,
            ..RangeRequest::default()
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop::sample::select(vec!["", "1", "2"]).prop_map(Bytes::from);
    let put = (key(), value, lease(), any::<(bool, bool)>(), prop::bool::weighted(0.1)).prop_map(
        |(key, value, lease, (prev_kv, leased), keep)| Put {
            key,
            value,
            lease: if leased { lease } else { LeaseId::NONE },
            prev_kv,
            keep_value: keep,
            keep_lease: keep,
        },
    );
    let flat = prop_oneof![
        5 => put.prop_map(Op::Put),
        3 => (key(), end(), any::<bool>()).prop_map(|(start, end, prev_kv)| Op::Delete(Delete { start, end, prev_kv })),
        2 => range().prop_map(Op::Range),
    ];
    flat.prop_recursive(2, 6, 3, |op| {
        let ops = || prop::collection::vec(op.clone(), 0..3);
        (prop::collection::vec(compare(), 0..2), ops(), ops())
            .prop_map(|(compare, success, failure)| Op::Txn(Box::new(Txn { compare, success, failure })))
    })
}

fn compare() -> impl Strategy<Value = Compare> {
    let target = prop_oneof![
        (0u64..20).prop_map(|revision| CompareTarget::ModRevision(Revision(revision))),
        (0u64..20).prop_map(|revision| CompareTarget::CreateRevision(Revision(revision))),
        (0u64..3).prop_map(CompareTarget::Version),
        lease().prop_map(CompareTarget::Lease),
        prop::sample::select(vec!["", "1"]).prop_map(|value| CompareTarget::Value(Bytes::from(value))),
    ];
    let relation = prop::sample::select(vec![Relation::Equal, Relation::NotEqual, Relation::Greater, Relation::Less]);
    (key(), end(), relation, target).prop_map(|(start, end, relation, target)| Compare { start, end, relation, target })
}

fn command() -> impl Strategy<Value = Command> {
    let ops = || prop::collection::vec(op(), 0..4);
    let txn = (prop::collection::vec(compare(), 0..2), ops(), ops());
    prop_oneof![
        16 => txn.prop_map(|(compare, success, failure)| Command::Txn(Txn { compare, success, failure })),
        2 => (1u64..30).prop_map(|revision| Command::Compact(Compact { revision: Revision(revision), check: None })),
        2 => (1i64..4, 5i64..9).prop_map(|(id, ttl_s)| Command::Grant { id: LeaseId(id), ttl_s }),
        1 => (1i64..4).prop_map(|id| Command::Revoke { id: LeaseId(id) }),
    ]
}

/// Where the values are that were put away, and which are next.
#[derive(Default)]
struct Attic {
    shelf: Shelf,
    window: Window,
}

impl Attic {
    fn put_away(&mut self, mvcc: &mut Mvcc) {
        loop {
            let due = self.window.due(mvcc, mvcc.revision(), &Warm { bytes: 0, least: 1 }, 3);
            mvcc.put_away(&due.values.into_iter().map(|old| self.shelf.swap(old)).collect::<Vec<_>>());
            if !due.more {
                return;
            }
        }
    }
}

fn filled((mut reply, late): (TxnReply, Vec<Late>), archive: &dyn Archive) -> TxnReply {
    late.into_iter().for_each(|late| fill(&mut reply, late, archive).unwrap());
    reply
}

fn step(mvcc: &mut Mvcc, model: &mut Model, command: Command, time_ms: u64, attic: &Attic) {
    let before = mvcc.clone();
    let mut applied = apply(mvcc, &Entry { time_ms, commands: vec![command.clone()] }).unwrap();
    mvcc.validate();
    for (at, late) in applied.late {
        let Reply::Txn(reply) = &mut applied.replies[at] else { panic!("only transactions read") };
        fill(reply, late, &attic.shelf).unwrap();
    }
    match (&command, &applied.replies[..]) {
        (Command::Txn(txn), [Reply::Txn(reply)]) => {
            if !txn.writes() {
                assert_eq!(filled(before.read(txn).unwrap(), &attic.shelf), *reply);
            }
            assert_eq!(Some(reply.clone()), model.txn(txn));
        }
        (Command::Txn(txn), [Reply::Refused(_)]) => {
            assert!(crate::limits::check(txn).is_err() || model.txn(txn).is_none());
            assert_eq!(before.hash(), mvcc.hash());
        }
        (Command::Compact(compact), [Reply::Done(_)]) => {
            assert!(compact.revision.0 <= model.revision() && compact.revision.0 > model.compacted);
            model.compacted = compact.revision.0;
        }
        (Command::Compact(compact), [Reply::Refused(_)]) => {
            assert!(compact.revision.0 > model.revision() || compact.revision.0 <= model.compacted);
        }
        (Command::Grant { id, ttl_s }, [Reply::Done(_)]) => assert_eq!(model.leases.insert(*id, *ttl_s), None),
        (Command::Grant { id, .. }, [Reply::Refused(_)]) => assert!(model.leases.contains_key(id)),
        (Command::Revoke { id }, [Reply::Done(_)]) => assert!(model.revoke(*id)),
        (Command::Revoke { id }, [Reply::Refused(_)]) => assert!(!model.leases.contains_key(id)),
        other => panic!("unexpected replies: {other:?}"),
    }
    assert_eq!(applied.revision.0, model.revision());
}

/// Every readable revision reads as the model has it, in every span.
fn check_reads(mvcc: &Mvcc, model: &Model, archive: &dyn Archive) {
    let spans = [("", "\0"), ("a", ""), ("aa", "b"), ("b", "\0"), ("c", "a")];
    for revision in 1..=model.revision() {
        for (start, end) in spans {
            let request = RangeRequest {
                start: start.into(),
                end: end.into(),
                revision: Some(Revision(revision)),
                ..RangeRequest::default()
            };
            let found = mvcc.range(&request).map(|found| found.fetch(archive).unwrap());
            if revision < model.compacted {
                assert!(matches!(found, Err(StoreError::Compacted { .. })));
                continue;
            }
            let span = Span::new(start.into(), end.into());
            let state = &model.states[revision as usize];
            let expect: Vec<_> = state.values().filter(|kv| span.contains(&kv.key)).cloned().collect();
            let found = found.unwrap();
            assert_eq!((found.count, found.more, &found.kvs), (expect.len(), false, &expect), "at {revision}");
        }
    }
}

/// The events of each retained revision lead from one state of the model to the next.
fn check_events(mvcc: &Mvcc, model: &Model, archive: &dyn Archive) {
    let all = Span::new("".into(), "\0".into());
    for revision in model.compacted.max(2)..=model.revision() {
        let mut state = model.states[revision as usize - 1].clone();
        let mut events = Vec::new();
        mvcc.events(&all, revision, archive, &mut events);
        assert!(!events.is_empty());
        for event in events {
            assert_eq!(event.prev_kv, state.get(&event.kv.key).cloned());
            assert_eq!(event.kv.mod_revision.0, revision);
            match event.kind {
                EventKind::Put => drop(state.insert(event.kv.key.clone(), event.kv)),
                EventKind::Delete => drop(state.remove(&event.kv.key)),
            }
        }
        assert_eq!(state, model.states[revision as usize]);
    }
}

/// The same state after being taken apart and put together.
fn rebuilt(mvcc: &Mvcc, archive: &dyn Archive) -> Mvcc {
    let whole = |version: &Version| bring_back(version, archive).unwrap();
    let mut builder = Builder::new(mvcc.base());
    mvcc.each_base_key(|kv| builder.key(&whole(kv).key_value()));
    for commit in mvcc.commits() {
        builder.commit(&commit.changes().iter().map(|change| whole(&change.kv).op()).collect::<Vec<_>>(), commit.hash);
    }
    builder.finish()
}

#[test]
fn a_range_is_bounded_by_bytes_too() {
    let mut mvcc = Mvcc::default();
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    for n in 0..20 {
        let op = Op::put(format!("k{n:02}"), value.clone());
        let command = Command::Txn(Txn { success: vec![op], ..Txn::default() });
        apply(&mut mvcc, &Entry { time_ms: 0, commands: vec![command] }).unwrap();
    }
    let all = RangeRequest::prefix("k");
    for request in [all.clone(), RangeRequest { revision: Some(Revision(20)), ..all.clone() }] {
        let page = mvcc.range(&request).unwrap().fetch(&Nothing).unwrap();
        assert_eq!((page.kvs.len(), page.more), (8, true));
        assert!(page.count >= 19);
    }
    let keys = mvcc.range(&RangeRequest { keys_only: true, ..all.clone() }).unwrap().fetch(&Nothing).unwrap();
    assert_eq!((keys.kvs.len(), keys.more), (20, false));
    // The rest is read from where a page ended, and one key is always sent.
    let rest = mvcc.range(&RangeRequest { start: "k13".into(), ..all.clone() }).unwrap().fetch(&Nothing).unwrap();
    assert_eq!((rest.kvs.len(), rest.more), (7, false));
    assert_eq!(mvcc.range(&RangeRequest { limit: 1, ..all }).unwrap().fetch(&Nothing).unwrap().kvs.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model(commands in prop::collection::vec((command(), any::<bool>()), 0..40)) {
        let (mut mvcc, mut model, mut attic) = (Mvcc::default(), Model::new(), Attic::default());
        let mut twin = Mvcc::default();
        for (i, (command, put_away)) in commands.into_iter().enumerate() {
            let time_ms = i as u64 * 700;
            step(&mut mvcc, &mut model, command.clone(), time_ms, &attic);
            if put_away {
                // Who has a view still sees what it held.
                let view = mvcc.clone();
                attic.put_away(&mut mvcc);
                mvcc.validate();
                view.validate();
                prop_assert_eq!(mvcc.superseded_values().0, 0);
            }
            apply(&mut twin, &Entry { time_ms, commands: vec![command] }).unwrap();
        }
        prop_assert_eq!(mvcc.hash(), twin.hash());
        prop_assert_eq!(mvcc.stored_bytes(), twin.stored_bytes());
        check_reads(&mvcc, &model, &attic.shelf);
        check_events(&mvcc, &model, &attic.shelf);
        let again = rebuilt(&mvcc, &attic.shelf);
        again.validate();
        prop_assert_eq!(again.base(), mvcc.base());
        check_reads(&again, &model, &Nothing);
        check_events(&again, &model, &Nothing);
    }
}

fn put(key: &str) -> Command {
    let op = Op::put(key.to_owned(), "value");
    Command::Txn(Txn { success: vec![op], ..Txn::default() })
}

/// One key a second, from revision 2 on: revision r is written at (r - 2) seconds.
fn one_write_a_second(n: u64) -> Mvcc {
    let mut mvcc = Mvcc::default();
    for i in 0..n {
        apply(&mut mvcc, &Entry { time_ms: i * 1_000, commands: vec![put(&format!("k{i:04}"))] }).unwrap();
    }
    mvcc
}

#[test]
fn compaction_keeps_what_retention_says() {
    let mvcc = one_write_a_second(400);
    let retention = Retention { keep_ms: 300_000, keep_bytes: u64::MAX, least_ms: 60_000, step: 1_000 };
    let each = mvcc.superseded_bytes() / 400;
    let rows = [
        ("too young", 100_000, retention, None),
        ("five minutes", 400_000, retention, Some(101)),
        ("in steps", 400_000, Retention { step: 10, ..retention }, Some(12)),
        ("for size, but not the last minute", 399_000, Retention { keep_bytes: 0, ..retention }, Some(340)),
        ("for size", 399_000, Retention { keep_bytes: 200 * each, ..retention }, Some(201)),
    ];
    for (name, now_ms, retention, expect) in rows {
        assert_eq!(compaction(&mvcc, now_ms, &retention), expect.map(Revision), "{name}");
    }
}

#[test]
fn expiry_deletes_one_key_a_revision_oldest_first_and_spares_the_rewritten() {
    let mut mvcc = one_write_a_second(10);
    apply(&mut mvcc, &Entry { time_ms: 10_000, commands: vec![put("k0000")] }).unwrap();
    let due = expired(&mvcc, 65_000, 60_000, 3);
    let keys: Vec<_> = due.iter().map(|txn| txn.compare[0].start.clone()).collect();
    assert_eq!(keys, ["k0001", "k0002", "k0003"]);
    // One of them is written again before the deletion is applied.
    apply(&mut mvcc, &Entry { time_ms: 65_000, commands: vec![put("k0002")] }).unwrap();
    let before = mvcc.revision().0;
    apply(&mut mvcc, &Entry { time_ms: 65_000, commands: due.into_iter().map(Command::Txn).collect() }).unwrap();
    assert_eq!((mvcc.revision().0, mvcc.keys()), (before + 2, 8));
    assert!([before + 1, before + 2].iter().all(|r| mvcc.commit(*r).unwrap().changes().len() == 1));
    assert_eq!(expired(&mvcc, 1_000, 60_000, 3), []);
}

#[test]
fn members_that_came_apart_are_noticed() {
    let mut ours = one_write_a_second(3);
    let mut theirs = one_write_a_second(2);
    apply(&mut theirs, &Entry { time_ms: 2_000, commands: vec![put("another")] }).unwrap();
    let check = Some((theirs.revision(), theirs.hash()));
    let compact = Command::Compact(Compact { revision: Revision(2), check });
    let entry = Entry { time_ms: 3_000, commands: vec![compact] };
    assert!(apply(&mut theirs.clone(), &entry).is_ok());
    let diverged = apply(&mut ours, &entry).unwrap_err();
    assert_eq!(diverged.revision, Revision(4));
    // One that lacks the revision has not applied the same, either.
    let mut behind = one_write_a_second(2);
    assert_eq!(apply(&mut behind, &entry).unwrap_err().revision, Revision(4));
    // Whoever compacted it since cannot tell.
    let later = Command::Compact(Compact { revision: theirs.revision(), check: None });
    apply(&mut theirs, &Entry { time_ms: 3_000, commands: vec![put("more"), later] }).unwrap();
    apply(&mut theirs, &Entry { time_ms: 3_000, commands: vec![put("more")] }).unwrap();
    let all = Command::Compact(Compact { revision: theirs.revision(), check: None });
    apply(&mut theirs, &Entry { time_ms: 3_000, commands: vec![all] }).unwrap();
    assert!(theirs.commit(4).is_none() && apply(&mut theirs, &entry).is_ok());
}
