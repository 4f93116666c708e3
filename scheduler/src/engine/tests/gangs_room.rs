//! Room for gangs: others are ended for all of their pods or for none, and it is theirs until it is not wanted any more.

use super::gangs::{binds, drive, group, machine_comes, of, with};
use super::*;
use crate::explain::report::Report;

fn class(name: &str) -> Event {
    let class = json!({"metadata": {"name": name, "labels": {"gantry.dev/band": name}}});
    Event::Class(Arc::new(serde_json::from_value(class).unwrap()))
}

fn batch(name: &str, cpu: &str, node: &str) -> Arc<Pod> {
    pod(name, cpu, node, json!({"priorityClassName": "batch", "priority": -1_000}))
}

/// One that is not of the batch band, from which the last of a zone is kept.
fn small(name: &str) -> Arc<Pod> {
    pod(name, "1", "", json!({"priority": -1_000}))
}

fn production(gang: &str, name: &str, extra: serde_json::Value) -> Arc<Pod> {
    let mut spec = json!({"priorityClassName": "production", "priority": 1_000});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    of(gang, name, "1", spec)
}

/// Two machines of two CPUs, on each of which batch pods of one CPU run: so many in all.
fn full(machines: &[(&str, &str)], pods: &[(&str, &str)]) -> Engine {
    let mut engine = with(machines);
    for band in ["batch", "production"] {
        engine.step(0, class(band));
    }
    for (name, node) in pods {
        engine.step(0, Event::Pod(batch(name, "1", node)));
    }
    engine.step(0, group("g", 2));
    engine
}

fn gang(engine: &mut Engine, now_ms: u64) -> Vec<String> {
    for name in ["a", "b"] {
        engine.step(now_ms, Event::Pod(production("g", name, json!({}))));
    }
    told(&decide(engine, now_ms))
}

fn evicted(told: &[String]) -> Vec<&str> {
    told.iter().filter_map(|effect| effect.strip_prefix("evict ")).collect()
}

#[test]
fn room_is_made_for_all_of_a_gang_and_kept_for_it() {
    let mut engine = full(&[("m", "2")], &[("low-1", "m"), ("low-2", "m")]);
    let said = gang(&mut engine, 0);
    assert_eq!(evicted(&said).len(), 2, "{said:?}");
    assert!(["a", "b"].iter().all(|name| said.contains(&format!("nominate {name} m"))), "{said:?}");
    for (at_ms, name) in [(1_000, "low-1"), (3_000, "low-2")] {
        engine.step(at_ms, Event::Pod(model::deleting(&batch("low-2", "1", "m"))));
        engine.step(at_ms, Event::Pod(small(&format!("next-{name}"))));
        assert_eq!(binds(&decide(&mut engine, at_ms)), Vec::<String>::new());
        engine.step(at_ms, Event::PodGone(name.into()));
        if name == "low-1" {
            let said = told(&decide(&mut engine, at_ms));
            assert!(said.iter().all(|effect| effect.starts_with("explain")), "one of the two is on its way: {said:?}");
        }
    }
    assert_eq!(binds(&decide(&mut engine, 3_000)), ["bind a+b@5 of g"]);
}

#[test]
fn a_gang_of_which_one_fits_has_room_made_for_the_other_only() {
    let mut engine = full(&[("m", "1"), ("n", "1")], &[("low", "n")]);
    assert_eq!(evicted(&gang(&mut engine, 0)), ["low"]);
    engine.step(1, Event::Pod(small("next")));
    assert_eq!(binds(&decide(&mut engine, 1)), Vec::<String>::new(), "the free machine is kept as well");
    engine.step(1_000, Event::PodGone("low".into()));
    assert_eq!(binds(&decide(&mut engine, 1_000)), ["bind a+b@5 of g"]);
}

#[test]
fn nobody_is_ended_for_a_part_of_a_gang() {
    let mut engine = full(&[("m", "2")], &[("low", "m")]);
    engine.step(0, Event::Pod(pod("same", "1", "m", json!({"priorityClassName": "production", "priority": 5}))));
    assert_eq!(evicted(&gang(&mut engine, 0)), Vec::<&str>::new(), "production is not ended for production");
    assert_eq!(machine(&engine.snapshot, "m"), (2_000, 2), "and nothing is held");
    let mut engine = full(&[("m", "2")], &[("low-1", "m"), ("low-2", "m")]);
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(production("g", name, json!({"preemptionPolicy": "Never"}))));
    }
    assert_eq!(evicted(&told(&decide(&mut engine, 0))), Vec::<&str>::new());
}

#[test]
fn one_large_pod_makes_room_for_several() {
    let mut engine = full(&[("m", "2"), ("n", "2")], &[]);
    for (name, node) in [("large-1", "m"), ("large-2", "n")] {
        engine.step(0, Event::Pod(batch(name, "2", node)));
    }
    assert_eq!(evicted(&gang(&mut engine, 0)).len(), 1);
}

#[test]
fn a_budget_counts_over_all_machines() {
    let mut engine = full(&[("m", "1"), ("n", "1"), ("o", "1")], &[("free", "o")]);
    for (name, node) in [("kept-1", "m"), ("kept-2", "n")] {
        let mut kept = (*batch(name, "1", node)).clone();
        kept.metadata.labels.insert("app".into(), "db".into());
        engine.step(0, Event::Pod(Arc::new(kept)));
    }
    let budget = json!({"metadata": {"namespace": "ns", "name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": {"disruptionsAllowed": 1}});
    engine.step(0, Event::Budget(Arc::new(serde_json::from_value(budget).unwrap())));
    let said = gang(&mut engine, 0);
    assert_eq!((evicted(&said).len(), evicted(&said).contains(&"free")), (2, true));
}

#[test]
fn what_is_held_for_a_gang_is_given_back() {
    let gone = |engine: &mut Engine| drop(engine.step(10_000, Event::PodGone("a".into())));
    let relabelled = |engine: &mut Engine| drop(engine.step(10_000, Event::Pod(production("h", "a", json!({})))));
    let raised = |engine: &mut Engine| drop(engine.step(10_000, group("g", 3)));
    let stays = |engine: &mut Engine| drop(engine.step(10_000, Event::EvictFailed("low".into())));
    let over = |_: &mut Engine| {};
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Engine), u64);
    let cases: [Case<'_>; 5] = [
        ("gone", &gone, 10_000),
        ("relabelled", &relabelled, 10_000),
        ("raised", &raised, 10_000),
        ("stays", &stays, 10_000),
        ("over", &over, 200_000),
    ];
    for (case, what, at_ms) in cases {
        let mut engine = full(&[("m", "1"), ("n", "1")], &[("low", "n")]);
        assert_eq!(evicted(&gang(&mut engine, 0)), ["low"], "{case}");
        // The other cannot be had any more either.
        engine.step(1, Event::Pod(pod("low", "1", "n", json!({"priorityClassName": "production", "priority": 1_000}))));
        engine.step(1, Event::Pod(small("next")));
        assert_eq!(binds(&decide(&mut engine, 5_000)), Vec::<String>::new(), "{case}");
        what(&mut engine);
        engine.validate();
        let bound: Vec<_> = [0, 1_000, 20_000].iter().flat_map(|more| drive(&mut engine, at_ms + more)).collect();
        assert_eq!(bound, ["next".into()], "{case}");
    }
}

#[test]
fn it_is_told_whether_room_could_be_made_for_the_whole_gang() {
    let ask = |engine: &mut Engine| -> Report {
        let review = json!({"metadata": {"namespace": "ns", "name": "q", "uid": "q"}, "spec": {"podName": "a"}});
        engine.step(0, Event::Review(Arc::new(serde_json::from_value(review).unwrap())));
        let mut effects = Vec::new();
        engine.answer_reviews(0, &mut effects);
        engine.validate();
        let Some(Effect::Answer { answer: Ok(report), .. }) = effects.pop() else { panic!("no answer") };
        *report
    };
    let gang = |engine: &mut Engine| {
        for name in ["a", "b"] {
            engine.step(0, Event::Pod(production("g", name, json!({}))));
        }
    };
    let mut engine = full(&[("m", "2")], &[("low-1", "m"), ("low-2", "m")]);
    gang(&mut engine);
    let preemption = ask(&mut engine).preemption.unwrap();
    assert_eq!((preemption.possible, preemption.victims.victims.len()), (true, 2));
    assert_eq!(machine(&engine.snapshot, "m"), (2_000, 2));
    let mut engine = full(&[("m", "1")], &[("low-1", "m")]);
    gang(&mut engine);
    let preemption = ask(&mut engine).preemption.unwrap();
    assert_eq!((preemption.possible, preemption.why.contains("whole gang")), (false, true), "{}", preemption.why);
    machine_comes(&mut engine, 1, "n", "4");
    assert_eq!(ask(&mut engine).preemption, None);
}
