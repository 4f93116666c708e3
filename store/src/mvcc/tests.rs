//! Properties: the state machine against a naive model that keeps every state it ever had.

use super::*;
use crate::api::{Compare, CompareTarget, EventKind, Op, OpReply, RangeRequest};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Every key of every revision, copied.
struct Model {
    states: Vec<BTreeMap<Bytes, KeyValue>>,
    compacted: u64,
}

impl Model {
    fn new() -> Self {
        // Index 0 is no revision; 1 is the empty store.
        Self { states: vec![BTreeMap::new(), BTreeMap::new()], compacted: 0 }
    }

    fn now(&self) -> &BTreeMap<Bytes, KeyValue> {
        &self.states[self.states.len() - 1]
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn txn(&mut self, txn: &Txn) -> TxnReply {
        let mut state = self.now().clone();
        let next = Revision(self.revision() + 1);
        let succeeded = txn.compare.iter().all(|compare| match (&compare.target, state.get(&compare.key)) {
            (CompareTarget::ModRevision(revision), found) => found.map_or(0, |kv| kv.mod_revision.0) == revision.0,
            (CompareTarget::Exists, found) => found.is_some(),
            (CompareTarget::Value(value), found) => found.map_or(Bytes::new(), |kv| kv.value.clone()) == *value,
        });
        let mut wrote = false;
        let run = |op: &Op| match op {
            Op::Put { key, value } => {
                wrote = true;
                let old = state.get(key);
                let kv = KeyValue {
                    key: key.clone(),
                    value: value.clone(),
                    create_revision: old.map_or(next, |old| old.create_revision),
                    mod_revision: next,
                    version: old.map_or(0, |old| old.version) + 1,
                };
                state.insert(key.clone(), kv);
                OpReply::Put
            }
            Op::Delete { key } => {
                let deleted = state.remove(key).is_some();
                wrote |= deleted;
                OpReply::Delete { deleted }
            }
            Op::Get { key } => OpReply::Get(state.get(key).cloned()),
        };
        let ops = if succeeded { &txn.success } else { &txn.failure }.iter().map(run).collect();
        if wrote {
            self.states.push(state);
        }
        TxnReply { succeeded, revision: Revision(self.revision()), ops }
    }
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["a", "aa", "ab", "b", "b\u{1}", "c"]).prop_map(Bytes::from)
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop::sample::select(vec!["", "1", "2"]).prop_map(Bytes::from);
    prop_oneof![
        3 => (key(), value).prop_map(|(key, value)| Op::Put { key, value }),
        2 => key().prop_map(|key| Op::Delete { key }),
        1 => key().prop_map(|key| Op::Get { key }),
    ]
}

fn compare() -> impl Strategy<Value = Compare> {
    let target = prop_oneof![
        (0u64..20).prop_map(|revision| CompareTarget::ModRevision(Revision(revision))),
        Just(CompareTarget::Exists),
        prop::sample::select(vec!["", "1"]).prop_map(|value| CompareTarget::Value(Bytes::from(value))),
    ];
    (key(), target).prop_map(|(key, target)| Compare { key, target })
}

fn command() -> impl Strategy<Value = Command> {
    let ops = || prop::collection::vec(op(), 0..4);
    let txn = (prop::collection::vec(compare(), 0..2), ops(), ops());
    prop_oneof![
        9 => txn.prop_map(|(compare, success, failure)| Command::Txn(Txn { compare, success, failure })),
        1 => (1u64..30).prop_map(|revision| Command::Compact(Compact { revision: Revision(revision), check: None })),
    ]
}

fn step(mvcc: &mut Mvcc, model: &mut Model, command: Command, time_ms: u64) {
    let applied = apply(mvcc, &Entry { time_ms, commands: vec![command.clone()] }).unwrap();
    mvcc.validate();
    match (&command, &applied.replies[..]) {
        (Command::Txn(txn), [Reply::Txn(reply)]) => assert_eq!(*reply, model.txn(txn)),
        (Command::Txn(txn), [Reply::Refused(_)]) => assert!(crate::limits::check(txn).is_err()),
        (Command::Compact(compact), [Reply::Compacted]) => {
            assert!(compact.revision.0 <= model.revision());
            model.compacted = model.compacted.max(compact.revision.0);
        }
        (Command::Compact(compact), [Reply::Refused(_)]) => assert!(compact.revision.0 > model.revision()),
        other => panic!("unexpected replies: {other:?}"),
    }
    assert_eq!(applied.revision.0, model.revision());
}

/// Every readable revision reads as the model has it, in every span.
fn check_reads(mvcc: &Mvcc, model: &Model) {
    let spans = [("", "\0"), ("a", ""), ("aa", "b"), ("b", "\0"), ("c", "a")];
    for revision in 1..=model.revision() {
        for (start, end) in spans {
            let request = RangeRequest {
                start: start.into(),
                end: end.into(),
                revision: Some(Revision(revision)),
                ..RangeRequest::default()
            };
            let found = mvcc.range(&request);
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
fn check_events(mvcc: &Mvcc, model: &Model) {
    let all = Span::new("".into(), "\0".into());
    for revision in model.compacted.max(1) + 1..=model.revision() {
        let mut state = model.states[revision as usize - 1].clone();
        let mut events = Vec::new();
        mvcc.events(&all, revision, true, &mut events);
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
fn rebuilt(mvcc: &Mvcc) -> Mvcc {
    let mut builder = Builder::new(mvcc.base());
    mvcc.each_base_key(|kv| builder.key(KeyValue::clone(kv)));
    for commit in mvcc.commits() {
        let op = |change: &Change| match change.deleted {
            true => Op::Delete { key: change.kv.key.clone() },
            false => Op::Put { key: change.kv.key.clone(), value: change.kv.value.clone() },
        };
        builder.commit(&commit.changes.iter().map(op).collect::<Vec<_>>(), commit.hash);
    }
    builder.finish()
}

#[test]
fn a_range_is_bounded_by_bytes_too() {
    let mut mvcc = Mvcc::default();
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    for n in 0..20 {
        let op = Op::Put { key: format!("k{n:02}").into(), value: value.clone() };
        let command = Command::Txn(Txn { success: vec![op], ..Txn::default() });
        apply(&mut mvcc, &Entry { time_ms: 0, commands: vec![command] }).unwrap();
    }
    let all = RangeRequest::prefix("k");
    for request in [all.clone(), RangeRequest { revision: Some(Revision(20)), ..all.clone() }] {
        let page = mvcc.range(&request).unwrap();
        assert_eq!((page.kvs.len(), page.more), (8, true));
        assert!(page.count >= 19);
    }
    let keys = mvcc.range(&RangeRequest { keys_only: true, ..all.clone() }).unwrap();
    assert_eq!((keys.kvs.len(), keys.more), (20, false));
    // The rest is read from where a page ended, and one key is always sent.
    let rest = mvcc.range(&RangeRequest { start: "k13".into(), ..all.clone() }).unwrap();
    assert_eq!((rest.kvs.len(), rest.more), (7, false));
    assert_eq!(mvcc.range(&RangeRequest { limit: 1, ..all }).unwrap().kvs.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model(commands in prop::collection::vec(command(), 0..40)) {
        let (mut mvcc, mut model) = (Mvcc::default(), Model::new());
        let mut twin = Mvcc::default();
        for (i, command) in commands.into_iter().enumerate() {
            let time_ms = i as u64 * 700;
            step(&mut mvcc, &mut model, command.clone(), time_ms);
            apply(&mut twin, &Entry { time_ms, commands: vec![command] }).unwrap();
        }
        prop_assert_eq!(mvcc.hash(), twin.hash());
        check_reads(&mvcc, &model);
        check_events(&mvcc, &model);
        let again = rebuilt(&mvcc);
        again.validate();
        prop_assert_eq!(again.base(), mvcc.base());
        check_reads(&again, &model);
        check_events(&again, &model);
    }
}

fn put(key: &str) -> Command {
    let op = Op::Put { key: Bytes::copy_from_slice(key.as_bytes()), value: Bytes::from("value") };
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
    let keys: Vec<_> = due.iter().map(|txn| txn.compare[0].key.clone()).collect();
    assert_eq!(keys, ["k0001", "k0002", "k0003"]);
    // One of them is written again before the deletion is applied.
    apply(&mut mvcc, &Entry { time_ms: 65_000, commands: vec![put("k0002")] }).unwrap();
    let before = mvcc.revision().0;
    apply(&mut mvcc, &Entry { time_ms: 65_000, commands: due.into_iter().map(Command::Txn).collect() }).unwrap();
    assert_eq!((mvcc.revision().0, mvcc.keys()), (before + 2, 8));
    assert!([before + 1, before + 2].iter().all(|r| mvcc.commit(*r).unwrap().changes.len() == 1));
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
}
