//! Gangs are tried for as long as their PodGroups say, let go of everything then, and go behind others.

use super::*;

fn member(gang: &str, name: &str, cpu: &str, created_s: i64) -> Arc<Pod> {
    let mut member = (*pod(name, cpu, "", json!({}))).clone();
    member.metadata.labels.insert("gantry.dev/pod-group".into(), gang.into());
    member.metadata.creation_timestamp = Some(gantry_apimachinery::time::Timestamp::from_secs(created_s));
    Arc::new(member)
}

fn group(gang: &str, min: u32, limit_s: u32) -> Event {
    let group = json!({"metadata": {"namespace": "ns", "name": gang},
        "spec": {"minMember": min, "scheduleTimeoutSeconds": limit_s}});
    Event::Group(Arc::new(serde_json::from_value(group).unwrap()))
}

const SHORT: &str = "needs 2 pods at once: there is room for each of them, but not for all";
const GAVE_UP: &str = "timed out: not placed within 60 s, it goes behind others; it";

/// A gang of two of which only one has room; it is complete at 1,000 ms.
fn short_gang() -> Engine {
    let mut engine = engine();
    engine.step(0, group("g", 2, 60));
    engine.step(0, Event::Pod(member("g", "a", "2", 1)));
    decide(&mut engine, 0);
    engine.step(1_000, Event::Pod(member("g", "b", "2", 1)));
    let said = ["a", "b"].map(|name| format!("explain {name}: pod group g {SHORT}"));
    assert_eq!(told(&decide(&mut engine, 1_000)), [&said[..], &["group g: Unschedulable 0".to_owned()]].concat());
    engine
}

#[test]
fn the_time_counts_from_when_enough_of_them_wait() {
    let mut engine = short_gang();
    assert_eq!(engine.next_due_ms(), Some(61_000), "not from when the first came");
    assert_eq!(decide(&mut engine, 60_999), []);
    let mut said = ["a", "b"].map(|name| format!("explain {name}: pod group g {GAVE_UP} {SHORT}")).to_vec();
    said.push("group g: Unschedulable 0 timed out after 60 s".to_owned());
    assert_eq!(told(&decide(&mut engine, 61_000)), said);
    assert_eq!(engine.next_due_ms(), Some(301_000), "it is looked at now and then, as all are");
    // In vain, and so counted anew; what was said stays true.
    assert_eq!(decide(&mut engine, 301_000), []);
    assert_eq!(engine.next_due_ms(), Some(361_000));
    assert_eq!((decide(&mut engine, 361_000), engine.next_due_ms()), (vec![], Some(601_000)));
}

#[test]
fn a_gang_that_gave_up_is_placed_when_there_is_room() {
    let mut engine = short_gang();
    decide(&mut engine, 61_000);
    engine.step(70_000, Event::Node(node("m", 20, "4")));
    assert_eq!(told(&decide(&mut engine, 70_000)), ["bind a+b@5 of g", "group g: Scheduling 0 timed out after 60 s"]);
    for name in ["a", "b"] {
        engine.step(70_001, ended(name, BindOutcome::Bound(30)));
    }
    assert_eq!(told(&decide(&mut engine, 70_001)), ["group g: Scheduled 2"]);
    assert_eq!((decide(&mut engine, 500_000), engine.next_due_ms()), (vec![], None));
}

#[test]
fn a_gang_that_loses_a_member_is_counted_from_when_it_has_another() {
    let mut engine = short_gang();
    engine.step(30_000, Event::PodGone("b".into()));
    decide(&mut engine, 30_000);
    engine.step(50_000, Event::Pod(member("g", "c", "2", 50)));
    decide(&mut engine, 50_000);
    assert!(!told(&decide(&mut engine, 109_999)).iter().any(|effect| effect.contains("timed out")));
    let said = told(&decide(&mut engine, 110_000));
    assert_eq!(said.last().map(String::as_str), Some("group g: Unschedulable 0 timed out after 60 s"));
}

#[test]
fn a_gang_that_gave_up_goes_behind_one_that_came_later() {
    for (at_ms, first) in [(60_900, "bind a+b@5 of g"), (61_000, "bind c+d@5 of later")] {
        let mut engine = short_gang();
        engine.step(40_000, group("later", 2, 60));
        for name in ["c", "d"] {
            engine.step(40_000, Event::Pod(member("later", name, "2", 40)));
        }
        decide(&mut engine, 40_000);
        decide(&mut engine, at_ms);
        engine.step(at_ms, Event::Node(node("m", 20, "4")));
        assert_eq!(told(&decide(&mut engine, at_ms)).first().map(String::as_str), Some(first));
    }
}

/// `slow` is on its way to one of two machines, the gang g of two pods waits for both, and `small` stands behind it at the other.
fn line() -> Engine {
    let mut engine = Engine::new("default-scheduler");
    for name in ["m", "n"] {
        engine.step(0, Event::Node(node(name, 5, CPUS)));
        engine.step(0, Event::Allocation(allocation(name, 5, 0, None)));
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    // A bind without an answer stands before the gang.
    engine.step(0, Event::Pod(pod("slow", "500m", "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 0)), ["bind slow@5"]);
    engine.step(0, group("g", 2, 60));
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(member("g", name, "1500m", 1)));
    }
    assert_eq!(told(&decide(&mut engine, 0)), ["group g: Scheduling 0"]);
    engine.step(1, Event::Pod(pod("small", "500m", "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 1)), Vec::<String>::new());
    engine
}

#[test]
fn a_gang_lets_go_of_the_machines_that_it_stands_in_line_at() {
    let mut engine = line();
    let mut said = vec!["bind small@5".to_owned()];
    said.extend(["a", "b"].map(|name| format!("explain {name}: pod group g {GAVE_UP} was not bound or had no turn")));
    said.push("group g: Unschedulable 0 timed out after 60 s".to_owned());
    assert_eq!(told(&decide(&mut engine, 60_000)), said);
    let used = |engine: &Engine, name| machine(&engine.snapshot, name);
    assert_eq!([used(&engine, "m"), used(&engine, "n")], [(500, 1), (500, 1)], "nothing of the gang is counted");
    // It is decided again after its back-off.
    assert_eq!(decide(&mut engine, 60_050), []);
    assert_eq!(
        told(&decide(&mut engine, 60_200)).last().map(String::as_str),
        Some("group g: Scheduling 0 timed out after 60 s")
    );
}

#[test]
fn who_stood_behind_a_gang_goes_on_when_it_is_decided_again() {
    let mut engine = line();
    let refused = ended("slow", BindOutcome::Conflict("another write".to_owned()));
    assert_eq!(told(&engine.step(2, refused)), ["read m", "bind small@5"]);
}

#[test]
fn what_was_sent_is_not_called_back() {
    let mut engine = engine();
    engine.step(0, group("g", 2, 60));
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(member("g", name, "1", 1)));
    }
    assert_eq!(told(&decide(&mut engine, 0)), ["bind a+b@5 of g", "group g: Scheduling 0"]);
    assert_eq!(decide(&mut engine, 60_000), []);
    for name in ["a", "b"] {
        engine.step(60_001, ended(name, BindOutcome::Bound(30)));
    }
    assert_eq!(told(&decide(&mut engine, 60_001)), ["group g: Scheduled 2"]);
}

#[test]
fn a_gang_that_only_a_label_makes_is_tried_without_end() {
    let mut engine = engine();
    for name in ["a", "b"] {
        let mut pod = (*member("g", name, "2", 1)).clone();
        pod.metadata.labels.insert("gantry.dev/min-member".into(), "2".into());
        engine.step(0, Event::Pod(Arc::new(pod)));
    }
    decide(&mut engine, 0);
    assert_eq!(engine.next_due_ms(), Some(300_000));
}
