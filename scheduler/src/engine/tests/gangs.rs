//! Gangs: who belongs to them, and that nobody of theirs is left behind, whatever happens between.

use super::*;

fn of(gang: &str, name: &str, cpu: &str, extra: serde_json::Value) -> Arc<Pod> {
    let mut member = (*pod(name, cpu, "", extra)).clone();
    if !gang.is_empty() {
        member.metadata.labels.insert("gantry.dev/pod-group".into(), gang.into());
    }
    Arc::new(member)
}

fn comes(engine: &mut Engine, now_ms: u64, gang: &str, name: &str, cpu: &str) {
    engine.step(now_ms, Event::Pod(of(gang, name, cpu, json!({}))));
}

fn group(gang: &str, min: u32) -> Event {
    let group = json!({"metadata": {"namespace": "ns", "name": gang}, "spec": {"minMember": min}});
    Event::Group(Arc::new(serde_json::from_value(group).unwrap()))
}

fn machine_comes(engine: &mut Engine, now_ms: u64, name: &str, cpu: &str) {
    let mut node = (*node(name, 5, cpu)).clone();
    node.metadata.labels = serde_json::from_value(json!({"host": name})).unwrap();
    engine.step(now_ms, Event::Node(Arc::new(node)));
    engine.step(now_ms, Event::Allocation(allocation(name, 5, 0, None)));
}

/// One that knows these machines, with so many CPUs each.
fn with(machines: &[(&str, &str)]) -> Engine {
    let mut engine = Engine::new("default-scheduler");
    for (name, cpu) in machines {
        machine_comes(&mut engine, 0, name, cpu);
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    engine
}

/// The binds that are decided now, without what is said of pods and groups.
fn binds(effects: &[Effect]) -> Vec<String> {
    told(effects).into_iter().filter(|effect| effect.starts_with("bind")).collect()
}

#[test]
fn a_pod_that_leaves_its_gang_is_missing_there() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    comes(&mut engine, 0, "g", "a", "1");
    decide(&mut engine, 0);
    comes(&mut engine, 1, "", "a", "1");
    assert_eq!(binds(&decide(&mut engine, 1)), ["bind a@5"], "it goes alone");
    engine.step(2, ended("a", BindOutcome::Bound(12)));
    comes(&mut engine, 2, "g", "b", "1");
    let said = "explain b: waits for its pod group g: 1 of the 2 pods that must start together exist";
    assert_eq!(told(&decide(&mut engine, 2)).first().map(String::as_str), Some(said));
    comes(&mut engine, 3, "g", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 3)), ["bind b+c@12 of g"]);
}

#[test]
fn a_pod_that_changes_its_gang_completes_the_other() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    engine.step(0, group("h", 2));
    for (gang, name) in [("g", "a"), ("h", "b")] {
        comes(&mut engine, 0, gang, name, "1");
    }
    assert_eq!(binds(&decide(&mut engine, 0)), Vec::<String>::new());
    comes(&mut engine, 1, "h", "a", "1");
    assert_eq!(binds(&decide(&mut engine, 1)), ["bind a+b@5 of h"]);
    comes(&mut engine, 2, "g", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 2)), Vec::<String>::new());
}

#[test]
fn a_pod_that_changes_its_gang_while_it_stands_in_line_goes_with_the_new_one() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    engine.step(0, group("h", 2));
    comes(&mut engine, 0, "", "slow", "1");
    assert_eq!(binds(&decide(&mut engine, 0)), ["bind slow@5"]);
    for name in ["a", "b"] {
        comes(&mut engine, 1, "g", name, "1");
    }
    assert_eq!(binds(&decide(&mut engine, 1)), Vec::<String>::new());
    comes(&mut engine, 2, "h", "a", "1");
    engine.step(3, ended("slow", BindOutcome::Bound(12)));
    assert_eq!(binds(&decide(&mut engine, 3)), Vec::<String>::new(), "each lacks a pod");
    comes(&mut engine, 4, "h", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 4)), ["bind a+c@12 of h"]);
}

#[test]
fn those_that_were_left_over_go_when_the_others_are_gone() {
    let mut engine = engine();
    engine.step(0, group("g", 2));
    for name in ["a", "b", "c", "d"] {
        comes(&mut engine, 0, "g", name, "1");
    }
    assert_eq!(binds(&decide(&mut engine, 0)), ["bind a+b@5 of g"]);
    for name in ["a", "b"] {
        engine.step(1, Event::PodGone(name.into()));
    }
    for name in ["a", "b"] {
        engine.step(2, ended(name, BindOutcome::Gone));
    }
    assert_eq!(binds(&decide(&mut engine, 10_000)), ["bind c+d@5 of g"]);
}

#[test]
fn members_that_went_unseen_are_not_counted_for_the_next_gang_of_that_name() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        let running = super::member(name, "1", "m", json!({}));
        engine.step(0, Event::Pod(model::with_status(&running, json!({"phase": "Succeeded"}))));
    }
    // The watch broke, and when it was back they were gone.
    engine.step(1, Event::AllPods(vec![]));
    comes(&mut engine, 2, "g", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 2)), Vec::<String>::new());
}

#[test]
fn members_that_went_before_the_answer_are_not_counted_either() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        comes(&mut engine, 0, "g", name, "1");
    }
    decide(&mut engine, 0);
    for name in ["a", "b"] {
        engine.step(1, Event::PodGone(name.into()));
        engine.step(1, ended(name, BindOutcome::Bound(12)));
    }
    comes(&mut engine, 2, "g", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 2)), Vec::<String>::new());
}

#[test]
fn a_gang_that_sleeps_is_woken_when_it_needs_fewer() {
    let mut engine = engine();
    engine.step(0, group("g", 3));
    for name in ["a", "b", "c"] {
        comes(&mut engine, 0, "g", name, "1");
    }
    assert_eq!(binds(&decide(&mut engine, 0)), Vec::<String>::new());
    engine.step(1, group("g", 2));
    assert_eq!(binds(&decide(&mut engine, 1)), ["bind a+b@5 of g"]);
}

#[test]
fn what_is_written_of_a_gang_does_not_have_it_decided_again() {
    let mut engine = engine();
    engine.step(0, group("g", 2));
    for name in ["a", "b", "c"] {
        comes(&mut engine, 0, "g", name, "2");
    }
    decide(&mut engine, 0);
    let said = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "x"}]});
    for name in ["a", "b", "c"] {
        engine.step(1, Event::Pod(model::with_status(&of("g", name, "2", json!({})), said.clone())));
    }
    assert!(!engine.queue.has_ready());
}
