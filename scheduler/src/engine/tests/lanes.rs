//! Lines at machines: whatever becomes of a machine or of who waits, everybody is decided once and goes on.

use super::gangs::{binds, comes, drive, group, machine_comes, with};
use super::*;

/// `slow` is on its way to m; the gang g of two waits for m and n, both of which it fills.
fn line() -> Engine {
    let mut engine = with(&[("m", "2"), ("n", "2")]);
    comes(&mut engine, 0, "", "slow", "500m");
    assert_eq!(binds(&decide(&mut engine, 0)), ["bind slow@5"]);
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        comes(&mut engine, 0, "g", name, "1500m");
    }
    assert_eq!(binds(&decide(&mut engine, 0)), Vec::<String>::new());
    assert_eq!(engine.deciding.len(), 3);
    engine
}

#[test]
fn who_waits_for_a_machine_that_goes_is_decided_again() {
    for goes in [Event::AllocationGone("n".into()), Event::NodeGone("n".into()), Event::AllAllocations(vec![])] {
        let mut engine = line();
        let other = if matches!(goes, Event::AllAllocations(_)) { 0 } else { 1 };
        engine.step(1, goes);
        engine.validate();
        assert_eq!(engine.deciding.len(), 1, "slow alone was sent");
        engine.step(2, ended("slow", BindOutcome::Bound(12)));
        assert_eq!(binds(&decide(&mut engine, 10_000)).len(), 0);
        machine_comes(&mut engine, 20_000, "o", "2");
        if other == 1 {
            assert_eq!(drive(&mut engine, 40_000).len(), 2);
        }
    }
}

#[test]
fn a_new_machine_does_not_inherit_what_was_sent_to_another() {
    let mut engine = with(&[("m", "2")]);
    comes(&mut engine, 0, "", "a", "1");
    assert_eq!(binds(&decide(&mut engine, 0)), ["bind a@5"]);
    for event in [Event::NodeGone("m".into()), Event::AllocationGone("m".into()), Event::PodGone("a".into())] {
        engine.step(1, event);
    }
    machine_comes(&mut engine, 2, "x", "2");
    comes(&mut engine, 2, "", "b", "1");
    decide(&mut engine, 2);
    engine.step(3, ended("a", BindOutcome::Bound(12)));
    engine.validate();
    assert_eq!(binds(&decide(&mut engine, 3)), ["bind b@5"]);
    let x = engine.snapshot.find("x").unwrap();
    assert_eq!(engine.snapshot.allocation(x).version, 5);
}

#[test]
fn who_waits_for_news_and_gets_room_before_is_decided_once() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    engine.step(0, Event::Pod(pod("urgent", "2", "", json!({"priority": 100}))));
    decide(&mut engine, 0);
    engine.step(1, Event::Node(node("n", 5, "2")));
    engine.step(1, Event::Allocation(allocation("n", 20, 2, Some(1))));
    assert_eq!(decide(&mut engine, 1_000), [], "news of n is on its way");
    engine.step(1_001, Event::PodGone("low".into()));
    assert_eq!(binds(&decide(&mut engine, 1_001)), ["bind urgent@5"]);
    engine.step(1_002, Event::Reached(Watch::Pods, 20));
    engine.validate();
    assert_eq!(decide(&mut engine, 1_002), []);
    assert_eq!((machine(&engine.snapshot, "m"), machine(&engine.snapshot, "n")), ((2_000, 1), (0, 0)));
}
