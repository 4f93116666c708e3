//! One good history, and for every promise a history that breaks it and nothing else.

use super::*;
use crate::replay::check_within;

fn put(key: &str, value: &str) -> Txn {
    Txn { then: vec![Op::Put { key: key.into(), value: value.into(), lease: 0 }], ..Txn::default() }
}

fn operation(times: (u64, u64), request: Request, outcome: Outcome) -> Operation {
    Operation { client: 0, member: 1, sent: times.0, ended: times.1, request, outcome }
}

fn write(times: (u64, u64), key: &str, value: &str, revision: u64) -> Operation {
    let done = Outcome::Done { revision, succeeded: true, replies: vec![Reply::Put] };
    operation(times, Request::Txn(put(key, value)), done)
}

fn unknown(sent: u64, key: &str, value: &str) -> Operation {
    operation((sent, u64::MAX), Request::Txn(put(key, value)), Outcome::Unknown)
}

fn kv(key: &str, value: &str, created: u64, modified: u64, version: u64) -> KeyValue {
    KeyValue { key: key.into(), value: value.into(), created, modified, version, lease: 0 }
}

fn reading(times: (u64, u64), at: Option<u64>, serializable: bool, revision: u64, kvs: Vec<KeyValue>) -> Operation {
    let span = Span { start: "a".into(), end: Some("z".into()) };
    let done = Outcome::Done { revision, succeeded: true, replies: vec![Reply::Got(kvs)] };
    operation(times, Request::Read { span, at, serializable }, done)
}

fn read(times: (u64, u64), revision: u64, kvs: Vec<KeyValue>) -> Operation {
    reading(times, None, false, revision, kvs)
}

fn event(revision: u64, now: KeyValue, prev: Option<KeyValue>) -> Event {
    Event { revision, key: now.key.clone(), now: Some(now), prev }
}

fn batch(received: u64, revision: u64, events: Vec<Event>) -> Batch {
    Batch { received, revision, events }
}

/// a and b are written, a again, b is deleted; one of two unknown writes was done.
fn good() -> History {
    let (a1, b1) = (kv("a", "1", 2, 2, 1), kv("b", "2", 3, 3, 1));
    let a2 = kv("a", "3", 2, 4, 2);
    let delete = Txn { then: vec![Op::Delete(Span::key("b"))], ..Txn::default() };
    let deleted = Outcome::Done { revision: 5, succeeded: true, replies: vec![Reply::Deleted(1)] };
    let failing = Txn {
        conditions: vec![Condition { key: "a".into(), target: Target::Modified(2) }],
        otherwise: vec![Op::Get(Span::key("a"))],
        ..put("a", "never")
    };
    let failed = Outcome::Done { revision: 6, succeeded: false, replies: vec![Reply::Got(vec![a2.clone()])] };
    let d = kv("d", "5", 6, 6, 1);
    let operations = vec![
        write((0, 10), "a", "1", 2),
        write((11, 20), "b", "2", 3),
        write((12, 30), "a", "3", 4),
        read((31, 40), 4, vec![a2.clone(), b1.clone()]),
        operation((41, 50), Request::Txn(delete), deleted),
        unknown(42, "c", "4"),
        unknown(43, "d", "5"),
        read((51, 60), 6, vec![a2.clone(), d.clone()]),
        operation((61, 70), Request::Txn(failing), failed),
        reading((61, 70), Some(3), false, 6, vec![a1.clone(), b1.clone()]),
        reading((61, 70), None, true, 2, vec![a1.clone()]),
    ];
    let first = vec![event(2, a1.clone(), None), event(3, b1.clone(), None)];
    let gone = Event { revision: 5, key: "b".into(), now: None, prev: Some(b1) };
    let second = vec![event(4, a2, Some(a1)), gone];
    let sessions = vec![
        Session { member: 1, from: 2, batches: vec![batch(25, 3, first), batch(26, 3, vec![])], end: End::Broken },
        Session { member: 2, from: 4, batches: vec![batch(55, 5, second)], end: End::Broken },
        Session { member: 2, from: 2, batches: vec![], end: End::Compacted { oldest: 3 } },
    ];
    let span = Span { start: "a".into(), end: Some("d".into()) };
    History { operations, watches: vec![Watch { span, prev: true, sessions }], compacted_to: 4 }
}

#[test]
fn a_good_history_is_explained() {
    let explained = check(&good()).unwrap();
    assert_eq!((explained.revision, explained.unknown_done), (6, vec![6]));
    let all = explained.model.get(&Span { start: "a".into(), end: Some("z".into()) });
    assert_eq!(all.iter().map(|kv| kv.key.as_str()).collect::<Vec<_>>(), ["a", "d"]);
}

/// Breaks the good history and expects to hear of it.
fn refused(name: &str, breaks: impl FnOnce(&mut History), expect: fn(&Violation) -> bool) {
    let mut history = good();
    breaks(&mut history);
    let violation = check(&history).expect_err(name);
    assert!(expect(&violation), "{name}: {violation:?}");
}

#[test]
fn writes_that_no_store_acknowledges() {
    let wrong = |v: &Violation| matches!(v, Violation::WrongAnswer { .. });
    let done = |h: &mut History, n: usize, expect: u64| match &mut h.operations[n].outcome {
        Outcome::Done { revision, .. } => *revision = expect,
        other => panic!("{other:?}"),
    };
    refused(
        "one revision for two",
        |h| done(h, 1, 2),
        |v| *v == Violation::RevisionTwice { revision: 2, operations: [0, 1] },
    );
    refused(
        "an order against time",
        |h| h.operations[0].sent = 35,
        |v| matches!(v, Violation::BackInTime { operation: 0, revision: 2, seen_before: 4 }),
    );
    refused(
        "a condition that did not hold",
        |h| {
            if let Request::Txn(txn) = &mut h.operations[2].request {
                txn.conditions.push(Condition { key: "b".into(), target: Target::Modified(2) });
            }
        },
        wrong,
    );
    refused(
        "a deletion of what was not there",
        |h| {
            h.operations[1] = write((11, 20), "bb", "2", 3);
            h.watches.clear();
            h.operations.retain(|op| !matches!(op.request, Request::Read { .. }));
        },
        wrong,
    );
    refused(
        "a revision without a writer",
        |h| {
            h.operations.retain(|op| op.outcome != Outcome::Unknown);
        },
        |v| *v == Violation::Unexplained { revision: 6 },
    );
    refused(
        "a revision whose only possible writer came later",
        |h| {
            h.operations.retain(|op| op.outcome != Outcome::Unknown);
            h.operations.push(unknown(65, "d", "5"));
        },
        |v| *v == Violation::Unexplained { revision: 6 },
    );
    refused(
        "an acknowledged write that is gone",
        |h| {
            if let Outcome::Done { replies, .. } = &mut h.operations[3].outcome {
                *replies = vec![Reply::Got(vec![kv("b", "2", 3, 3, 1)])];
            }
        },
        wrong,
    );
}

#[test]
fn reads_that_no_store_answers() {
    let wrong = |v: &Violation| matches!(v, Violation::WrongAnswer { .. });
    refused(
        "a stale read",
        |h| {
            h.operations.push(read((35, 45), 3, vec![kv("a", "1", 2, 2, 1), kv("b", "2", 3, 3, 1)]));
        },
        |v| matches!(v, Violation::BackInTime { revision: 3, seen_before: 4, .. }),
    );
    refused(
        "a read older than what a watch has shown",
        |h| {
            h.watches[0].sessions[1].batches[0].received = 32;
            h.operations[3].sent = 33;
        },
        |v| matches!(v, Violation::BackInTime { operation: 3, revision: 4, seen_before: 5 }),
    );
    refused(
        "a changed value",
        |h| {
            if let Outcome::Done { replies, .. } = &mut h.operations[7].outcome {
                *replies = vec![Reply::Got(vec![kv("a", "x", 2, 4, 2), kv("d", "5", 6, 6, 1)])];
            }
        },
        wrong,
    );
    refused(
        "another past",
        |h| {
            if let Outcome::Done { replies, .. } = &mut h.operations[9].outcome {
                *replies = vec![Reply::Got(vec![kv("a", "1", 2, 2, 1)])];
            }
        },
        wrong,
    );
    refused(
        "a state that never was, on a member that may be behind",
        |h| {
            h.operations.push(reading((61, 70), None, true, 3, vec![kv("b", "2", 3, 3, 1)]));
        },
        wrong,
    );
    refused(
        "a past that nobody asked to forget",
        |h| {
            h.operations[9].outcome = Outcome::Compacted { oldest: 5 };
        },
        |v| *v == Violation::Forgotten { requested: 3, oldest: 5 },
    );
    refused(
        "a past that is still there",
        |h| {
            h.operations[9].outcome = Outcome::Compacted { oldest: 3 };
        },
        |v| *v == Violation::Forgotten { requested: 3, oldest: 3 },
    );
}

#[test]
fn watches_that_no_store_serves() {
    let fault =
        |expect: WatchFault| move |v: &Violation| matches!(v, Violation::Watch { fault, .. } if *fault == expect);
    fn session(h: &mut History, n: usize) -> &mut Session {
        &mut h.watches[0].sessions[n]
    }
    type Row = (&'static str, WatchFault, fn(&mut History));
    let rows: [Row; 10] = [
        ("events in the wrong order", WatchFault::Order, |h| session(h, 0).batches[0].events.reverse()),
        ("a batch in the wrong order", WatchFault::Order, |h| session(h, 1).batches[0].revision = 4),
        ("a batch twice", WatchFault::Split, |h| {
            let mut again = session(h, 1).batches[0].clone();
            again.events.remove(0);
            session(h, 1).batches.push(again);
        }),
        ("an event after a bookmark that excluded it", WatchFault::Bookmark, |h| {
            session(h, 1).batches.insert(0, batch(50, 4, vec![]));
        }),
        ("an event that nobody asked for", WatchFault::Early, |h| session(h, 1).from = 5),
        ("a lost event", WatchFault::Content, |h| drop(session(h, 0).batches[0].events.remove(0))),
        ("a lost last event before a bookmark", WatchFault::Content, |h| drop(session(h, 0).batches[0].events.pop())),
        ("a gap after coming back", WatchFault::Content, |h| drop(session(h, 1).batches[0].events.remove(0))),
        ("an invented event", WatchFault::Content, |h| {
            session(h, 1).batches[0].events[0].now = Some(kv("a", "x", 2, 4, 2));
        }),
        ("a wrong previous value", WatchFault::Content, |h| session(h, 1).batches[0].events[0].prev = None),
    ];
    for (name, expect, breaks) in rows {
        let mut history = good();
        breaks(&mut history);
        let violation = check(&history).expect_err(name);
        assert!(fault(expect)(&violation), "{name}: {violation:?}");
    }
    refused(
        "a watch refused although its start is there",
        |h| {
            session(h, 2).from = 3;
        },
        |v| *v == Violation::Forgotten { requested: 3, oldest: 3 },
    );
}

#[test]
fn unknown_writes_are_searched_for_and_the_search_ends() {
    // Any of them may be revision 2; only the order 7, 6, …, 0 fits what was read at the end.
    let mut history = History::default();
    for n in 0..8 {
        history.operations.push(unknown(n, &format!("k{n}"), "v"));
    }
    let kvs = (0..8).map(|n| kv(&format!("k{n}"), "v", 9 - n, 9 - n, 1)).collect();
    history.operations.push(read((20, 30), 9, vec![]));
    let span = Span { start: "k".into(), end: Some("l".into()) };
    history.operations[8].request = Request::Read { span, at: None, serializable: false };
    history.operations[8].outcome = Outcome::Done { revision: 9, succeeded: true, replies: vec![Reply::Got(kvs)] };
    assert_eq!(check(&history).unwrap().unknown_done.len(), 8);
    for n in 8..40 {
        history.operations.push(unknown(n - 8, &format!("k{n}"), "v"));
    }
    history.operations[8].outcome = Outcome::Done { revision: 30, succeeded: true, replies: vec![Reply::Got(vec![])] };
    assert!(matches!(check_within(&history, 20_000), Err(Violation::Undecided { steps: 20_001 })));
}

#[test]
fn members_that_differ_at_one_revision() {
    let sample = |member, revision, hash| HashSample { member, revision, hash };
    assert_eq!(check_hashes(&[sample(1, 5, 7), sample(2, 6, 8), sample(3, 5, 7)]), Ok(()));
    let differ = [sample(1, 5, 7), sample(2, 6, 8), sample(3, 5, 9)];
    assert_eq!(check_hashes(&differ), Err(Violation::Diverged { revision: 5, members: [1, 3] }));
}

fn leased(times: (u64, u64), request: LeaseRequest, outcome: Outcome) -> Operation {
    operation(times, Request::Lease(request), outcome)
}

fn done(revision: u64) -> Outcome {
    Outcome::Done { revision, succeeded: true, replies: vec![] }
}

/// Two leases of 100 with a key each: the first is renewed and runs out, the second is revoked. A third has no keys.
fn leases() -> History {
    let put = |times, key: &str, lease, revision| {
        let put = Op::Put { key: key.into(), value: "v".into(), lease };
        let done = Outcome::Done { revision, succeeded: true, replies: vec![Reply::Put] };
        operation(times, Request::Txn(Txn { then: vec![put], ..Txn::default() }), done)
    };
    let with = |lease, kv: KeyValue| KeyValue { lease, ..kv };
    let (a, b) = (with(1, kv("a", "v", 2, 2, 1)), with(2, kv("b", "v", 3, 3, 1)));
    let operations = vec![
        leased((0, 5), LeaseRequest::Grant { lease: 1, ttl: 100 }, done(1)),
        leased((0, 5), LeaseRequest::Grant { lease: 2, ttl: 100 }, done(1)),
        leased((0, 5), LeaseRequest::Grant { lease: 3, ttl: 100 }, done(1)),
        put((10, 20), "a", 1, 2),
        put((21, 30), "b", 2, 3),
        leased((40, 50), LeaseRequest::Renew { lease: 1 }, Outcome::Renewed),
        read((51, 60), 3, vec![a, b.clone()]),
        leased((61, 70), LeaseRequest::Revoke { lease: 2 }, done(4)),
        leased((61, 70), LeaseRequest::Revoke { lease: 3 }, done(4)),
        leased((71, 80), LeaseRequest::Renew { lease: 2 }, Outcome::NoLease),
        read((140, 150), 5, vec![]),
        leased((151, 160), LeaseRequest::Renew { lease: 1 }, Outcome::NoLease),
    ];
    History { operations, ..History::default() }
}

#[test]
fn leases_end_when_they_may_and_their_keys_with_them() {
    assert_eq!(check(&leases()).map(|explained| explained.revision), Ok(5));
    let refused = |name: &str, breaks: &dyn Fn(&mut History), expect: Violation| {
        let mut history = leases();
        breaks(&mut history);
        assert_eq!(check(&history), Err(expect), "{name}");
    };
    refused(
        "it ran out too early",
        &|h| h.operations[10].ended = 139,
        Violation::RanOutEarly { lease: 1, revision: 5, seen: 139, until: 140 },
    );
    refused(
        "it ran out although a renewal was acknowledged",
        &|h| h.operations[11].outcome = Outcome::Renewed,
        Violation::RanOutEarly { lease: 1, revision: 5, seen: 150, until: 251 },
    );
    refused(
        "it is denied while it has time",
        &|h| {
            h.operations[11].sent = 130;
            h.operations[11].ended = 139;
        },
        Violation::LeaseDenied { operation: 11, lease: 1, until: 140 },
    );
    refused(
        "its key is there after it was revoked",
        &|h| {
            h.operations.remove(10);
            h.operations[7].outcome = done(3);
            h.operations[8].outcome = done(3);
        },
        Violation::Survived { lease: 2, revision: 3, key: "b".into() },
    );
    refused(
        "a key is put to it after it was revoked",
        &|h| {
            let late = Op::Put { key: "c".into(), value: "v".into(), lease: 3 };
            let put = Request::Txn(Txn { then: vec![late], ..Txn::default() });
            let replied = Outcome::Done { revision: 5, succeeded: true, replies: vec![Reply::Put] };
            h.operations[10] = operation((140, 150), put, replied);
        },
        Violation::WrongAnswer { operation: 10, expected: "a lease that is gone".into(), found: "true [Put]".into() },
    );
    // One whose fate is not known may have been done: it explains what would be too early.
    let mut history = leases();
    history.operations[10].ended = 130;
    history.operations[11] = leased((100, u64::MAX), LeaseRequest::Revoke { lease: 1 }, Outcome::Unknown);
    assert_eq!(check(&history).map(|explained| explained.revision), Ok(5));
}
