//! Who waits, and for what: for victims, for a machine, for news, for another pod's end. And what must not make anybody wait.

use super::*;
use crate::api::PriorityClass;

fn class(name: &str, band: &str) -> Event {
    let class = json!({"metadata": {"name": name, "labels": {"gantry.dev/band": band}}});
    Event::Class(Arc::new(serde_json::from_value::<PriorityClass>(class).unwrap()))
}

fn with_priority(name: &str, cpu: &str, node: &str, priority: i64) -> Arc<Pod> {
    pod(name, cpu, node, json!({"priority": priority}))
}

/// Two machines, each with a pod of low priority that takes all of it.
fn two_full_machines() -> Engine {
    let mut engine = engine();
    engine.step(0, Event::Node(node("n", 5, CPUS)));
    engine.step(0, Event::Allocation(allocation("n", 5, 0, None)));
    for machine in ["m", "n"] {
        engine.step(0, Event::Pod(with_priority(&format!("low-{machine}"), CPUS, machine, -5)));
    }
    engine
}

/// An urgent pod came; which machine's pod must go for it.
fn urgent(engine: &mut Engine) -> &'static str {
    engine.step(1, Event::Pod(with_priority("urgent", CPUS, "", 9)));
    let effects = told(&decide(engine, 1));
    let victim = if effects.contains(&"evict low-m".to_owned()) { "m" } else { "n" };
    assert!(effects.contains(&format!("nominate urgent {victim}")), "{effects:?}");
    victim
}

fn evictions(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Evict { .. })).count()
}

#[test]
fn nobody_else_is_ended_while_the_victims_are_about_to_go() {
    for seed in 0..20 {
        let mut engine = two_full_machines();
        urgent(&mut engine);
        // The watch has not told of the deletion yet; the pod is looked at again for another reason.
        let again = pod("urgent", CPUS, "", json!({"priority": 9, "tolerations": [{"operator": "Exists"}]}));
        engine.step(2, Event::Pod(again));
        let effects = engine.step(2, Event::Decide { seed: seed << 20 | seed, most: 100 });
        assert_eq!(evictions(&effects), 0, "{:?}", told(&effects));
        assert_eq!(engine.nominated.len(), 1);
    }
}

#[test]
fn each_victim_is_asked_once_however_many_wait_for_it() {
    let mut engine = engine();
    engine.step(0, Event::Pod(with_priority("low", CPUS, "m", -5)));
    for name in ["one", "two"] {
        engine.step(1, Event::Pod(with_priority(name, "1", "", 9)));
    }
    let effects = decide(&mut engine, 1);
    assert_eq!(evictions(&effects), 1, "{:?}", told(&effects));
    assert_eq!(engine.nominated.len(), 2, "both have a place once it is gone");
    // It stays after all: whoever is decided next may ask again.
    engine.step(2, Event::EvictFailed("low".into()));
    assert!(engine.nominated.is_empty());
    assert_eq!(evictions(&decide(&mut engine, 10_000)), 1);
}

#[test]
fn who_waits_for_a_machine_that_would_not_do_any_more_looks_elsewhere() {
    let mut engine = two_full_machines();
    let machine = urgent(&mut engine);
    let mut cordoned = (*node(machine, 20, CPUS)).clone();
    cordoned.spec.unschedulable = true;
    engine.step(2, Event::Node(Arc::new(cordoned)));
    let other = if machine == "m" { "n" } else { "m" };
    let effects = told(&decide(&mut engine, 2));
    assert!(effects.contains(&format!("evict low-{other}")), "{effects:?}");
}

#[test]
fn a_machine_is_kept_only_for_who_could_ever_fit() {
    let mut engine = engine();
    let mut node = (*node("m", 20, CPUS)).clone();
    node.status.allocatable.insert("example.com/gpu".into(), "4".parse().unwrap());
    engine.step(0, Event::Node(Arc::new(node)));
    engine.step(0, Event::Pod(pod("running", "1", "m", json!({}))));
    let gpus = json!({"containers": [{"resources": {"requests": {"cpu": "1", "example.com/gpu": "8"}}}]});
    engine.step(0, Event::Pod(pod("hopeless", "1", "", gpus.clone())));
    decide(&mut engine, 0);
    let patient = json!({"containers": gpus["containers"], "tolerations": [{"operator": "Exists"}]});
    engine.step(20_000, Event::PodGone("running".into()));
    engine.step(20_000, Event::Pod(pod("hopeless", "1", "", patient)));
    decide(&mut engine, 20_000);
    assert!(engine.nominated.is_empty());
    engine.step(20_001, Event::Pod(pod("small", CPUS, "", json!({}))));
    assert_eq!(told(&decide(&mut engine, 20_001)), ["bind small@5"]);
}

#[test]
fn a_held_claim_is_told_and_puts_no_machine_in_doubt() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(pod(name, "1", "", json!({}))));
    }
    assert_eq!(told(&decide(&mut engine, 0)), ["bind a@5"]);
    let held = BindOutcome::ClaimHeld("the at-most-one claim is held by another pod".into());
    assert_eq!(
        told(&engine.step(1, ended("a", held))),
        ["explain a: the at-most-one claim is held by another pod", "bind b@5"]
    );
}

#[test]
fn nothing_is_due_while_enough_is_under_way() {
    let mut engine = Engine::new("default-scheduler");
    for machine in 0..8 {
        let name = format!("m-{machine}");
        engine.step(0, Event::Node(node(&name, 5, "100")));
        engine.step(0, Event::Allocation(allocation(&name, 5, 0, None)));
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    engine.step(0, Event::Pod(pod("first", "1", "", json!({}))));
    decide(&mut engine, 0);
    engine.step(1, ended("first", BindOutcome::Gone));
    assert!(engine.next_due_ms().is_some(), "it is tried again");
    for number in 0..600 {
        engine.step(2, Event::Pod(pod(&format!("p-{number}"), "1", "", json!({}))));
    }
    while engine.has_ready() {
        decide(&mut engine, 2);
    }
    assert_eq!((engine.has_ready(), engine.next_due_ms()), (false, None), "only an answer changes anything");
}

#[test]
fn a_pod_takes_its_place_anew_when_its_class_changes_its_band() {
    let mut engine = engine();
    engine.step(0, class("bulk", ""));
    for (name, class) in [("bulk", "bulk"), ("plain", "")] {
        engine.step(0, Event::Pod(pod(name, CPUS, "", json!({"priorityClassName": class}))));
    }
    engine.step(0, Event::Pod(pod("running", CPUS, "m", json!({}))));
    decide(&mut engine, 0);
    engine.step(1, class("bulk", "production"));
    engine.step(1, Event::PodGone("running".into()));
    assert_eq!(told(&decide(&mut engine, 1))[0], "bind bulk@5");
}

#[test]
fn a_standby_keeps_no_news() {
    let mut engine = engine();
    for number in 0..100 {
        let claim = json!({"metadata": {"namespace": "ns", "name": format!("c-{number}")}});
        engine.step(0, Event::Storage(Stored::Claim(Arc::new(serde_json::from_value(claim).unwrap()))));
        engine.step(0, Event::Pod(pod(&format!("p-{number}"), "1", "m", json!({}))));
    }
    assert!(!engine.news.is_empty());
    engine.stand_by();
    assert!(engine.news.is_empty() && !engine.has_ready());
}

#[test]
fn a_sleeper_whose_class_was_let_go_is_woken_all_the_same() {
    let mut engine = engine();
    for number in 0..=4_200 {
        let wants = json!({"nodeSelector": {"k": format!("v{number}")}});
        engine.step(0, Event::Pod(pod(&format!("p-{number}"), "1", "", wants)));
    }
    while engine.has_ready() {
        decide(&mut engine, 0);
    }
    let mut other = (*node("other", 20, CPUS)).clone();
    other.metadata.labels.insert("k".into(), "v0".into());
    engine.step(1, Event::Node(Arc::new(other)));
    engine.step(1, Event::Allocation(allocation("other", 20, 0, None)));
    let mut effects = Vec::new();
    for now_ms in [1, 1_000] {
        effects.extend(told(&decide(&mut engine, now_ms)));
    }
    assert!(effects.contains(&"bind p-0@20".to_owned()));
}
