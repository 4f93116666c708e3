//! Gangs: who belongs to them, and that nobody of theirs is left behind, whatever happens between.

use super::*;

pub(super) fn of(gang: &str, name: &str, cpu: &str, extra: serde_json::Value) -> Arc<Pod> {
    let mut member = (*pod(name, cpu, "", extra)).clone();
    if !gang.is_empty() {
        member.metadata.labels.insert("gantry.dev/pod-group".into(), gang.into());
    }
    Arc::new(member)
}

pub(super) fn comes(engine: &mut Engine, now_ms: u64, gang: &str, name: &str, cpu: &str) {
    engine.step(now_ms, Event::Pod(of(gang, name, cpu, json!({}))));
}

pub(super) fn group(gang: &str, min: u32) -> Event {
    let group = json!({"metadata": {"namespace": "ns", "name": gang}, "spec": {"minMember": min}});
    Event::Group(Arc::new(serde_json::from_value(group).unwrap()))
}

pub(super) fn machine_comes(engine: &mut Engine, now_ms: u64, name: &str, cpu: &str) {
    let mut node = (*node(name, 5, cpu)).clone();
    node.metadata.labels = serde_json::from_value(json!({"host": name})).unwrap();
    engine.step(now_ms, Event::Node(Arc::new(node)));
    engine.step(now_ms, Event::Allocation(allocation(name, 5, 0, None)));
}

/// One that knows these machines, with so many CPUs each.
pub(super) fn with(machines: &[(&str, &str)]) -> Engine {
    let mut engine = Engine::new("default-scheduler");
    for (name, cpu) in machines {
        machine_comes(&mut engine, 0, name, cpu);
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    engine
}

/// The binds that are decided now, without what is said of pods and groups.
pub(super) fn binds(effects: &[Effect]) -> Vec<String> {
    told(effects).into_iter().filter(|effect| effect.starts_with("bind")).collect()
}

/// Decides, and lets all binds succeed, until nobody is ready. Says who was bound.
pub(super) fn drive(engine: &mut Engine, now_ms: u64) -> Vec<Arc<str>> {
    let mut bound = Vec::new();
    let mut effects = decide(engine, now_ms);
    loop {
        let mut next = Vec::new();
        for effect in effects {
            let Effect::Bind { binds, .. } = effect else { continue };
            for bind in binds {
                let outcome = BindOutcome::Bound(bind.allocation_version + 1_000);
                next.extend(engine.step(now_ms, ended(&bind.pod.uid, outcome)));
                bound.push(bind.pod.uid.clone());
            }
        }
        if next.is_empty() && !engine.has_ready() {
            return bound;
        }
        next.extend(decide(engine, now_ms));
        effects = next;
    }
}

#[test]
fn of_a_large_group_nobody_is_left_behind() {
    let mut engine = with(&[("m0", "100")]);
    engine.step(0, group("g", 2));
    for at in 0..1_000 {
        comes(&mut engine, 0, "g", &format!("p{at:04}"), "1");
    }
    assert_eq!(drive(&mut engine, 0).len(), 100);
    for machine in 1..10 {
        machine_comes(&mut engine, 20_000, &format!("m{machine}"), "100");
    }
    let mut bound = 0;
    for second in 20..60 {
        bound += drive(&mut engine, second * 1_000).len();
    }
    assert_eq!(bound, 900);
}

#[test]
fn more_than_can_start_together_are_told_so() {
    let mut engine = with(&[("m", "4")]);
    let mut member = (*of("g", "a", "1", json!({}))).clone();
    member.metadata.labels.insert("gantry.dev/min-member".into(), "600".into());
    engine.step(0, Event::Pod(Arc::new(member)));
    let said = "explain a: pod group g wants 600 pods at once, more than the 512 that can start together";
    assert_eq!(told(&decide(&mut engine, 0)), [said]);
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
fn a_member_that_waits_for_news_does_not_count_twice() {
    let mut engine = with(&[("m", "4"), ("n", "1")]);
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(super::member(name, "1", "m", json!({}))));
    }
    // Some version of m that is not understood yet: whoever fits nowhere else waits for the news.
    engine.step(0, Event::Allocation(allocation("m", 13, 2, Some(1))));
    comes(&mut engine, 0, "g", "c", "2");
    assert_eq!(decide(&mut engine, 0).len(), 1, "the group is told");
    for name in ["a", "b"] {
        engine.step(1, Event::PodGone(name.into()));
    }
    comes(&mut engine, 1, "g", "d", "1");
    assert_eq!(binds(&decide(&mut engine, 1)), Vec::<String>::new());
    engine.step(2, Event::Reached(Watch::Pods, 13));
    assert_eq!(drive(&mut engine, 10_000).len(), 2);
}

#[test]
fn a_gang_that_meets_news_on_its_way_goes_when_it_has_arrived() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, Event::Allocation(allocation("m", 13, 2, Some(1))));
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        comes(&mut engine, 0, "g", name, "1");
    }
    let told = told(&decide(&mut engine, 0));
    assert!(!told.iter().any(|effect| effect.starts_with("explain")), "nothing is wrong with them: {told:?}");
    engine.step(1, Event::Reached(Watch::Pods, 13));
    assert_eq!(drive(&mut engine, 1_000).len(), 2);
}

#[test]
fn what_is_kept_for_a_member_is_not_in_its_way() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    engine.step(0, Event::Pod(of("", "a", "2", json!({"priority": 100}))));
    assert_eq!(told(&decide(&mut engine, 0))[..2], ["evict low", "nominate a m"]);
    engine.step(1, group("g", 1));
    engine.step(1, Event::Pod(of("g", "a", "2", json!({"priority": 100}))));
    engine.step(2, Event::PodGone("low".into()));
    assert_eq!(binds(&decide(&mut engine, 2_000)), ["bind a@5 of g"]);
}

#[test]
fn a_member_on_its_way_keeps_its_room_whoever_stays_elsewhere() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    engine.step(0, Event::Pod(of("", "a", "2", json!({"priority": 100}))));
    decide(&mut engine, 0);
    engine.step(1, group("g", 1));
    engine.step(1, Event::Pod(of("g", "a", "2", json!({"priority": 100}))));
    machine_comes(&mut engine, 1, "n", "2");
    assert_eq!(binds(&decide(&mut engine, 2_000)), ["bind a@5 of g"]);
    engine.step(2_001, Event::EvictFailed("low".into()));
    assert_eq!(machine(&engine.snapshot, "n"), (2_000, 1));
    assert_eq!(binds(&decide(&mut engine, 10_000)), Vec::<String>::new());
    engine.step(10_001, ended("a", BindOutcome::Bound(20)));
    assert_eq!((engine.pending(), machine(&engine.snapshot, "m")), (0, (2_000, 1)));
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
fn who_wants_to_be_near_a_gang_is_woken_when_it_is_placed() {
    let mut engine = with(&[("m", "4")]);
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"gantry.dev/pod-group": "g"}}, "topologyKey": "host"}]}}});
    engine.step(0, Event::Pod(of("", "near", "1", near)));
    decide(&mut engine, 0);
    engine.step(1, group("g", 2));
    for name in ["a", "b"] {
        comes(&mut engine, 1, "g", name, "1");
    }
    assert_eq!(drive(&mut engine, 1_000).len(), 3);
}

#[test]
fn a_gang_counts_for_its_team_at_once() {
    let mut engine = with(&[("m", "8")]);
    engine.step(0, group("g", 2));
    for name in ["a", "b"] {
        comes(&mut engine, 0, "g", name, "1");
    }
    comes(&mut engine, 0, "", "same-team", "1");
    let mut other = (*pod("z-other-team", "1", "", json!({}))).clone();
    other.metadata.namespace = "other".into();
    engine.step(0, Event::Pod(Arc::new(other)));
    assert_eq!(binds(&decide(&mut engine, 0)), ["bind a+b@5 of g"]);
    engine.step(1, ended("a", BindOutcome::Bound(12)));
    let next = engine.step(1, ended("b", BindOutcome::Bound(12)));
    assert_eq!(binds(&next), ["bind z-other-team+same-team@12"]);
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
fn room_for_one_of_them_wakes_a_gang() {
    let mut engine = with(&[("m1", "1")]);
    engine.step(0, group("g", 2));
    comes(&mut engine, 0, "g", "a", "1");
    engine.step(0, Event::Pod(of("g", "b", "1", json!({"nodeSelector": {"host": "m1"}}))));
    assert_eq!(binds(&decide(&mut engine, 0)), Vec::<String>::new());
    machine_comes(&mut engine, 1_000, "m2", "4");
    assert_eq!(drive(&mut engine, 2_000).len(), 2);
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

#[test]
fn a_question_about_a_gang_takes_no_room_from_it() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    engine.step(0, Event::Pod(of("", "a", "2", json!({"priority": 100}))));
    decide(&mut engine, 0);
    engine.step(1, group("g", 2));
    engine.step(1, Event::Pod(of("g", "a", "2", json!({"priority": 100}))));
    comes(&mut engine, 1, "g", "b", "1");
    machine_comes(&mut engine, 1, "n", "8");
    let review = json!({"metadata": {"namespace": "ns", "name": "q", "uid": "q"}, "spec": {"podName": "b"}});
    engine.step(1, Event::Review(Arc::new(serde_json::from_value(review).unwrap())));
    let mut effects = Vec::new();
    engine.answer_reviews(1, &mut effects);
    assert_eq!(
        (effects.len(), machine(&engine.snapshot, "m"), machine(&engine.snapshot, "n")),
        (1, (4_000, 2), (0, 0))
    );
    engine.validate();
}

#[test]
fn a_gang_that_is_made_again_does_not_count_on_those_that_are_going() {
    let mut engine = with(&[("m", "4")]);
    engine.step(0, group("g", 2));
    let old = ["a", "b"].map(|name| {
        let mut pod = (*of("g", name, "1", json!({}))).clone();
        pod.spec.node_name = "m".into();
        Arc::new(pod)
    });
    for pod in &old {
        engine.step(0, Event::Pod(pod.clone()));
    }
    for pod in &old {
        engine.step(1, Event::Pod(model::deleting(pod)));
    }
    comes(&mut engine, 2, "g", "c", "1");
    assert_eq!(binds(&decide(&mut engine, 2)), Vec::<String>::new(), "one of two");
    comes(&mut engine, 3, "g", "d", "1");
    assert_eq!(binds(&decide(&mut engine, 3)), ["bind c+d@5 of g"]);
}
