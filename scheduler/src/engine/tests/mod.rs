//! The engine's effects, event by event; and two engines on one store under any interleaving.

mod bad_input;
mod gangs;
mod gangs_room;
mod giving_up;
mod interleaving;
mod lanes;
pub(super) mod model;
mod reviews;
mod storage;
mod waiting;

use serde_json::json;

use super::*;
use crate::api::Pod;
use crate::snapshot::Watch;
use model::{allocation, machine, node, pod};

const CPUS: &str = "2";

/// An engine that knows one machine with two CPUs and has caught up with revision 10.
fn engine() -> Engine {
    let mut engine = Engine::new("default-scheduler");
    for event in [
        Event::Node(node("m", 5, CPUS)),
        Event::Allocation(allocation("m", 5, 0, None)),
        Event::Reached(Watch::Pods, 10),
    ] {
        assert_eq!(engine.step(0, event), []);
    }
    engine
}

fn decide(engine: &mut Engine, now_ms: u64) -> Vec<Effect> {
    let effects = engine.step(now_ms, Event::Decide { seed: 0, most: 100 });
    engine.validate();
    effects
}

/// Effects in short: `bind p@5`, `explain p: …`.
fn told(effects: &[Effect]) -> Vec<String> {
    let one = |effect: &Effect| match effect {
        Effect::Bind { binds, gang } => {
            let names: Vec<&str> = binds.iter().map(|bind| &*bind.pod.name).collect();
            let gang = gang.as_ref().map(|gang| format!(" of {gang}")).unwrap_or_default();
            format!("bind {}@{}{gang}", names.join("+"), binds[0].allocation_version)
        }
        Effect::Explain { pod, message, .. } => format!("explain {}: {message}", pod.name),
        Effect::Scheduled { pod, node, .. } => format!("scheduled {} {node}", pod.name),
        Effect::ReadAllocation(node) => format!("read {node}"),
        Effect::Evict { victim, .. } => format!("evict {}", victim.name),
        Effect::Nominate { pod, node } => format!("nominate {} {node}", pod.name),
        Effect::PrepareVolumes { pod, writes } => format!("volumes of {}: {writes:?}", pod.name),
        Effect::Group { name, phase, scheduled, timed_out_s, .. } => {
            let timed_out = timed_out_s.map(|limit_s| format!(" timed out after {limit_s} s")).unwrap_or_default();
            format!("group {name}: {phase} {scheduled}{timed_out}")
        }
        Effect::Answer { review, answer } => format!("answer {}: {answer:?}", review.metadata.name),
    };
    effects.iter().map(one).collect()
}

fn ended(uid: &str, outcome: BindOutcome) -> Event {
    Event::Bind { uid: uid.into(), outcome }
}

#[test]
fn binds_to_one_machine_follow_each_other_from_version_to_version() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(pod(name, "1", "", json!({}))));
    }
    assert_eq!(told(&decide(&mut engine, 0)), ["bind a@5"], "the second waits for the first one's version");
    assert_eq!(told(&engine.step(1, ended("a", BindOutcome::Bound(12)))), ["scheduled a m", "bind b@12"]);
    // The watch brings what the answer said already: nothing is to be done.
    assert_eq!(engine.step(2, Event::Allocation(allocation("m", 12, 1, Some(1)))), []);
    assert_eq!(engine.step(2, Event::Pod(pod("a", "1", "m", json!({})))), []);
    assert_eq!(told(&engine.step(3, ended("b", BindOutcome::Bound(14)))), ["scheduled b m"]);
    assert_eq!((decide(&mut engine, 3), engine.pending(), engine.next_due_ms()), (vec![], 0, None));
}

#[test]
fn who_goes_first_does_not_wait_behind_all_that_was_decided_before() {
    let mut engine = Engine::new("default-scheduler");
    for machine in 0..40 {
        let name = format!("m-{machine}");
        engine.step(0, Event::Node(node(&name, 5, "100")));
        engine.step(0, Event::Allocation(allocation(&name, 5, 0, None)));
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    for number in 0..2_000 {
        engine.step(0, Event::Pod(pod(&format!("batch-{number}"), "1", "", json!({}))));
    }
    let mut binds = Vec::new();
    let mut answered = 0;
    let mut came = false;
    while !binds.iter().any(|(name, _)| name == "first") {
        let mut effects = if engine.has_ready() { decide(&mut engine, 0) } else { Vec::new() };
        if !came && !engine.has_ready() {
            engine.step(0, Event::Pod(pod("first", "1", "", json!({"priority": 10}))));
            came = true;
        } else if effects.is_empty() {
            let (name, from): &(String, u64) = &binds[answered];
            answered += 1;
            effects = engine.step(0, ended(name, BindOutcome::Bound(from + 1)));
        }
        for effect in effects {
            if let Effect::Bind { binds: some, .. } = effect {
                binds.extend(some.iter().map(|bind| (bind.pod.name.to_string(), bind.allocation_version)));
            }
        }
    }
    assert!(binds.len() <= 513, "{} binds were sent before", binds.len());
}

#[test]
fn a_watch_that_is_faster_than_the_answer_changes_nothing() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(pod(name, "1", "", json!({}))));
    }
    decide(&mut engine, 0);
    assert_eq!(engine.step(1, Event::Allocation(allocation("m", 12, 1, Some(1)))), []);
    assert_eq!(told(&engine.step(1, ended("a", BindOutcome::Bound(12)))), ["scheduled a m", "bind b@12"]);
}

#[test]
fn what_was_decided_from_older_news_is_decided_again() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(pod(name, "1", "", json!({}))));
    }
    decide(&mut engine, 0);
    // Ours is 12, and somebody else's is 13 already.
    engine.step(1, Event::Allocation(allocation("m", 13, 2, Some(1))));
    assert_eq!(told(&engine.step(1, ended("a", BindOutcome::Bound(12)))), ["scheduled a m"]);
    assert_eq!(decide(&mut engine, 1), [], "nothing is decided until the pods up to 13 are known");
    engine.step(2, Event::Pod(pod("theirs", "1", "m", json!({}))));
    engine.step(2, Event::Reached(Watch::Pods, 13));
    assert_eq!(told(&decide(&mut engine, 2)), ["explain b: 0/1 machines: 1 short of cpu: wants 1, 0 free"]);
}

#[test]
fn a_conflict_reads_the_allocation_and_decides_again() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("a", "1", "", json!({}))));
    decide(&mut engine, 0);
    assert_eq!(told(&engine.step(1, ended("a", BindOutcome::Conflict("moved".into())))), ["read m"]);
    assert_eq!(decide(&mut engine, 150), [], "the version is in doubt");
    engine.step(150, Event::Allocation(allocation("m", 5, 0, None)));
    assert_eq!(told(&decide(&mut engine, 150)), ["bind a@5"], "it was about the pod, not the machine");
}

#[test]
fn an_answer_that_never_came_waits_for_the_watches() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("a", "2", "", json!({}))));
    decide(&mut engine, 0);
    assert_eq!(told(&engine.step(1, ended("a", BindOutcome::Unknown))), ["read m"]);
    engine.step(2, Event::Allocation(allocation("m", 12, 1, Some(1))));
    engine.step(2, Event::Pod(pod("b", "2", "", json!({}))));
    assert_eq!(decide(&mut engine, 500), [], "version 12 may be a's");
    engine.step(500, Event::Pod(pod("a", "2", "m", json!({}))));
    engine.step(500, Event::Reached(Watch::Pods, 12));
    assert_eq!(told(&decide(&mut engine, 500)), ["explain b: 0/1 machines: 1 short of cpu: wants 2, 0 free"]);
}

#[test]
fn a_new_machine_needs_no_pod_to_be_seen() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("a", "8", "", json!({}))));
    decide(&mut engine, 0);
    engine.step(1, Event::Node(node("big", 90, "16")));
    assert_eq!(decide(&mut engine, 100), [], "it is not registered");
    engine.step(100, Event::Allocation(allocation("big", 90, 0, None)));
    assert_eq!(told(&decide(&mut engine, 100)), ["bind a@90"], "the pod watch is at 10 still");
}

#[test]
fn a_machine_that_comes_back_may_have_pods_that_were_not_told_of() {
    let mut engine = engine();
    engine.step(0, Event::NodeGone("m".into()));
    engine.step(0, Event::AllocationGone("m".into()));
    engine.step(1, Event::Node(node("m", 90, "2")));
    engine.step(1, Event::Allocation(allocation("m", 90, 0, None)));
    engine.step(1, Event::Pod(pod("a", "1", "", json!({}))));
    assert_eq!(decide(&mut engine, 1), [], "the pod watch is at 10 still");
    // Bound by somebody before the machine went.
    engine.step(2, Event::Pod(pod("old", "2", "m", json!({}))));
    engine.step(2, Event::Reached(Watch::Pods, 89));
    assert_eq!(told(&decide(&mut engine, 2)), ["explain a: 0/1 machines: 1 short of cpu: wants 1, 0 free"]);
}

#[test]
fn an_explanation_is_written_once_and_again_when_it_changes() {
    let mut engine = engine();
    let big = pod("big", "8", "", json!({}));
    engine.step(0, Event::Pod(big.clone()));
    let message = "0/1 machines: 1 short of cpu: wants 8, 2 free";
    assert_eq!(told(&decide(&mut engine, 0)), [format!("explain big: {message}")]);
    let condition = |message: &str| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]});
    engine.step(1, Event::Pod(model::with_status(&big, condition(message))));
    assert_eq!(decide(&mut engine, 1), [], "its own write does not wake it");
    engine.step(2, Event::Node(node("m", 20, "4")));
    assert_eq!(decide(&mut engine, 500), [], "it does not fit on the larger machine either");
    assert_eq!(
        told(&decide(&mut engine, 300_000)),
        ["explain big: 0/1 machines: 1 short of cpu: wants 8, 4 free"],
        "now and then everybody is looked at again"
    );
    engine.step(300_001, Event::Node(node("m", 21, "8")));
    assert_eq!(told(&decide(&mut engine, 302_000)), ["bind big@5"]);

    let mut restarted = self::engine();
    restarted.step(0, Event::Pod(model::with_status(&big, condition(message))));
    assert_eq!(decide(&mut restarted, 0), [], "after a restart the condition says it already");
    restarted.step(1, Event::ExplainFailed("big".into()));
    assert_eq!(decide(&mut restarted, 300_000), [], "settled: nothing is written");
}

#[test]
fn others_pods_and_gated_ones_are_left_alone() {
    let mut engine = engine();
    let spec = |extra: serde_json::Value| pod("a", "1", "", extra);
    for other in [
        spec(json!({"schedulerName": "other"})),
        spec(json!({"schedulingGates": [{"name": "g"}]})),
        model::with_status(&spec(json!({})), json!({"phase": "Failed"})),
    ] {
        engine.step(0, Event::Pod(other));
        assert_eq!((decide(&mut engine, 0), engine.pending()), (vec![], 0));
    }
    engine.step(0, Event::Pod(spec(json!({}))));
    assert_eq!(told(&decide(&mut engine, 0)), ["bind a@5"], "the gate is lifted");
}

#[test]
fn a_pod_that_goes_while_it_is_bound_leaves_nothing_behind() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(pod(name, "2", "", json!({}))));
    }
    assert_eq!(told(&decide(&mut engine, 0)).first().map(String::as_str), Some("bind a@5"));
    engine.step(1, Event::PodGone("a".into()));
    assert_eq!(told(&engine.step(2, ended("a", BindOutcome::Bound(12)))), Vec::<String>::new());
    engine.snapshot.validate();
    assert_eq!(told(&decide(&mut engine, 500)), ["bind b@12"]);
}

#[test]
fn room_is_made_and_held_until_the_victims_are_gone() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    let urgent = pod("urgent", "2", "", json!({"priority": 100}));
    engine.step(0, Event::Pod(urgent));
    let effects = told(&decide(&mut engine, 0));
    assert_eq!(effects[..2], ["evict low", "nominate urgent m"]);
    assert!(effects[2].starts_with("explain urgent: "));
    engine.step(1, Event::Pod(pod("replacement", "2", "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 1)).len(), 1, "the replacement is only explained");
    engine.step(500, Event::Pod(model::deleting(&pod("low", "2", "m", json!({})))));
    assert_eq!(decide(&mut engine, 2_000), [], "the victim is on its way");
    engine.step(3_000, Event::PodGone("low".into()));
    assert_eq!(told(&decide(&mut engine, 3_000)), ["bind urgent@5"]);
    assert_eq!(machine(&engine.snapshot, "m"), (2_000, 1));
}

#[test]
fn who_does_not_end_is_asked_again_and_all_must_be_gone() {
    let mut engine = engine();
    for name in ["low-1", "low-2"] {
        engine.step(0, Event::Pod(pod(name, "1", "m", json!({}))));
    }
    engine.step(0, Event::Pod(pod("urgent", "2", "", json!({"priority": 100}))));
    assert_eq!(told(&decide(&mut engine, 0))[..2], ["evict low-1", "evict low-2"]);
    engine.step(1, Event::EvictFailed("low-2".into()));
    engine.step(2, Event::Pod(model::deleting(&pod("low-1", "1", "m", json!({})))));
    let again = told(&decide(&mut engine, 1_000));
    assert_eq!(again, ["evict low-2", "nominate urgent m"], "the other is on its way");
    engine.step(1_001, Event::PodGone("low-1".into()));
    assert_eq!(decide(&mut engine, 1_002), [], "one of them is there still");
    engine.step(1_003, Event::PodGone("low-2".into()));
    assert_eq!(told(&decide(&mut engine, 1_003)), ["bind urgent@5"]);
}

#[test]
fn who_makes_way_takes_room_until_it_is_gone() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    let urgent = pod("urgent", "2", "", json!({"priority": 100}));
    engine.step(0, Event::Pod(urgent.clone()));
    decide(&mut engine, 0);
    let said = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "x"}], "nominatedNodeName": "m"});
    engine.step(1, Event::Pod(model::with_status(&urgent, said)));
    let target = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}], "phase": "Running"});
    engine.step(2, Event::Pod(model::with_status(&pod("low", "2", "m", json!({})), target.clone())));
    assert_eq!(told(&decide(&mut engine, 2)), Vec::<String>::new());
    let ending = model::deleting(&model::with_status(&pod("low", "2", "m", json!({})), target));
    engine.step(3, Event::Pod(ending));
    assert_eq!(told(&decide(&mut engine, 3)), Vec::<String>::new());
    let namespace = json!({"metadata": {"name": "other"}});
    engine.step(4, Event::Namespace(Arc::new(serde_json::from_value(namespace).unwrap())));
    assert!(!told(&decide(&mut engine, 400)).iter().any(|effect| effect.starts_with("bind")));
    assert!(!told(&decide(&mut engine, 400_000)).iter().any(|effect| effect.starts_with("bind")));
}

#[test]
fn a_bind_is_told_even_when_the_watch_is_faster_than_the_answer() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("a", "2", "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 0)), ["bind a@5"]);
    engine.step(1, Event::Pod(pod("a", "2", "m", json!({}))));
    assert_eq!(told(&engine.step(2, ended("a", BindOutcome::Bound(12)))), ["scheduled a m"]);
    engine.snapshot.validate();
}

fn member(name: &str, cpu: &str, node: &str, extra: serde_json::Value) -> Arc<Pod> {
    let mut member = (*pod(name, cpu, node, extra)).clone();
    member.metadata.labels.insert("gantry.dev/pod-group".into(), "g".into());
    Arc::new(member)
}

fn group(min: u32, phase: &str, scheduled: u32) -> Event {
    let group = json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": {"minMember": min},
        "status": {"phase": phase, "scheduled": scheduled}});
    Event::Group(Arc::new(serde_json::from_value(group).unwrap()))
}

#[test]
fn a_pod_group_says_how_its_gang_stands() {
    let mut engine = engine();
    engine.step(0, group(2, "", 0));
    engine.step(0, Event::Pod(member("a", "1", "", json!({}))));
    let waits = "explain a: waits for its pod group g: 1 of the 2 pods that must start together exist";
    assert_eq!(told(&decide(&mut engine, 0)), [waits, "group g: Pending 0"]);
    engine.step(1, group(2, "Pending", 0));
    engine.step(1, Event::Pod(member("b", "2", "", json!({}))));
    let effects = told(&decide(&mut engine, 1));
    assert_eq!(effects.last().map(String::as_str), Some("group g: Unschedulable 0"));
    engine.step(2, Event::Node(node("m", 20, "4")));
    let effects = told(&decide(&mut engine, 1_000));
    assert_eq!(effects, ["bind a+b@5 of g", "group g: Scheduling 0"]);
    for name in ["a", "b"] {
        engine.step(1_001, ended(name, BindOutcome::Bound(30)));
    }
    assert_eq!(told(&decide(&mut engine, 1_001)), ["group g: Scheduled 2"]);
    engine.step(1_002, group(2, "Scheduled", 2));
    assert_eq!((decide(&mut engine, 1_002), engine.has_ready()), (vec![], false));
}

#[test]
fn a_member_that_ended_did_start_with_the_others() {
    let mut engine = engine();
    engine.step(0, group(2, "Scheduled", 2));
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(member(name, "1", "m", json!({}))));
    }
    engine.step(1, Event::Pod(model::with_status(&member("a", "1", "m", json!({})), json!({"phase": "Succeeded"}))));
    engine.step(1, Event::Pod(member("c", "1", "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 1)), ["bind c@5"], "it goes by itself, in the room of the one that ended");
}

#[test]
fn room_that_was_made_is_kept_over_a_restart_whatever_the_order_of_the_list() {
    let urgent = pod("urgent", "2", "", json!({"priority": 1000}));
    let urgent = model::with_status(&urgent, json!({"nominatedNodeName": "m"}));
    let going = model::deleting(&pod("going", "2", "m", json!({})));
    // The other machine would be chosen if room were made once more: its pod is the less important one.
    let other = pod("other", "2", "n", json!({"priority": -5}));
    for list in [[&urgent, &going, &other], [&going, &other, &urgent]] {
        let mut engine = engine();
        engine.step(0, Event::Node(node("n", 6, CPUS)));
        engine.step(0, Event::Allocation(allocation("n", 6, 0, None)));
        engine.step(0, Event::AllPods(list.map(Arc::clone).to_vec()));
        engine.step(0, Event::Reached(Watch::Pods, 10));
        let effects = told(&decide(&mut engine, 0));
        assert_eq!(effects.len(), 1, "it waits for what goes already: {effects:?}");
        assert!(effects[0].starts_with("explain urgent: "), "{effects:?}");
        engine.step(1, Event::PodGone("going".to_owned()));
        assert_eq!(told(&decide(&mut engine, 1)), ["bind urgent@5"]);
    }
}
