//! Questions and their answers.

use serde_json::{Value, json};

use super::*;
use crate::api::{PodGroup, PriorityClass};
use crate::explain::report::{GangState, MakingRoom, Report, Victims};

fn from<T: serde::de::DeserializeOwned>(object: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(object).unwrap())
}

fn question(name: &str, spec: Value) -> Event {
    Event::Review(from(json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": spec})))
}

/// The answers of one turn, by the questions' names.
fn answers(engine: &mut Engine, now_ms: u64) -> BTreeMap<String, Result<Report, String>> {
    let effects = decide(engine, now_ms);
    let answers = effects.into_iter().filter_map(|effect| match effect {
        Effect::Answer { review, answer } => Some((review.metadata.name.clone(), answer.map(|report| *report))),
        _ => None,
    });
    answers.collect()
}

fn ask(engine: &mut Engine, now_ms: u64, spec: Value) -> Result<Report, String> {
    engine.step(now_ms, question("q", spec));
    answers(engine, now_ms).remove("q").unwrap()
}

fn template(cpu: &str, extra: Value) -> Value {
    let pod = pod("p", cpu, "", extra);
    let scheduler = &pod.spec.scheduler_name;
    let mut spec = json!({"schedulerName": scheduler, "containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    spec["priorityClassName"] = json!(pod.spec.priority_class_name);
    json!({"spec": spec})
}

#[test]
fn replicas_are_counted_and_leave_nothing_behind() {
    let mut engine = engine();
    let report = ask(&mut engine, 0, json!({"template": template("600m", json!({})), "replicas": 5})).unwrap();
    let fits = report.fits.clone().unwrap();
    assert_eq!((fits.asked, fits.fit, fits.machines, fits.on[0].replicas), (5, 3, 1, 3));
    assert_eq!((report.machines, report.feasible), (1, 1), "as it was before the first");
    assert_eq!(report.filters[0].removed, 1, "about the one that does not fit");
    assert_eq!(report.nearest[0].lacks, ["short of cpu: wants 0.6, 0.2 free (0.4 more)"]);
    assert_eq!(
        report.summary(),
        "3 of 5 would fit; the next would not: 0/1 machines: 1 short of cpu: wants 0.6, 0.2 free"
    );
    assert_eq!(machine(engine.snapshot(), "m"), (0, 0));
}

#[test]
fn one_template_a_turn() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.step(0, question(name, json!({"template": template("1", json!({})), "replicas": 1})));
    }
    engine.step(0, question("pod", json!({"podName": "none"})));
    let first: Vec<_> = answers(&mut engine, 0).into_keys().collect();
    assert_eq!((first, engine.has_ready()), (vec!["a".to_owned(), "pod".to_owned()], true));
    assert_eq!(answers(&mut engine, 0).into_keys().collect::<Vec<_>>(), ["b"]);
    assert!(!engine.has_ready());
}

#[test]
fn a_few_pods_a_turn() {
    let mut engine = engine();
    for at in 0..10 {
        engine.step(0, question(&format!("q{at}"), json!({"podName": "none"})));
    }
    let answered: Vec<usize> = (0..3).map(|_| answers(&mut engine, 0).len()).collect();
    assert_eq!((answered, engine.has_ready()), (vec![4, 4, 2], false));
}

#[test]
fn a_template_has_the_priority_of_its_class() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("low", "2", "m", json!({}))));
    let class: Arc<PriorityClass> =
        from(json!({"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "PreemptLowerPriority"}));
    engine.step(0, Event::Class(class));
    let high = || json!({"template": template("1", json!({"priorityClassName": "high"})), "replicas": 1});
    let report = ask(&mut engine, 0, high()).unwrap();
    let preemption = report.preemption.unwrap();
    assert_eq!((report.priority, preemption.possible, preemption.victims.victims), (100, true, vec!["low".to_owned()]));
    engine.step(0, Event::ClassGone("high".to_owned()));
    assert_eq!(ask(&mut engine, 0, high()).unwrap_err(), "there is no PriorityClass high");
    let other = template("1", json!({"schedulerName": "theirs"}));
    assert_eq!(
        ask(&mut engine, 0, json!({"template": other})).unwrap_err(),
        "a pod of this template is left to the scheduler theirs, which its schedulerName asks for; this one is default-scheduler"
    );
}

#[test]
fn who_does_not_wait_is_told_why() {
    let mut engine = engine();
    let why = |engine: &mut Engine| ask(engine, 0, json!({"podName": "p"})).unwrap_err();
    assert_eq!(why(&mut engine), "pod ns/p does not wait: it does not exist, or has ended");
    engine.step(0, Event::Pod(pod("p", "1", "", json!({"schedulingGates": [{"name": "g"}]}))));
    assert_eq!(
        why(&mut engine),
        "pod ns/p is held back by its scheduling gate g: whoever set it takes it away when it may start"
    );
    engine.step(0, Event::Pod(pod("p", "1", "m", json!({}))));
    assert_eq!(why(&mut engine), "pod ns/p has its machine: m");
}

#[test]
fn those_that_make_way_are_named_within_the_namespace_only() {
    let mut engine = engine();
    let mut elsewhere = (*pod("b", "1", "m", json!({}))).clone();
    elsewhere.metadata.namespace = "other".to_owned();
    for low in [pod("a", "1", "m", json!({})), Arc::new(elsewhere)] {
        engine.step(0, Event::Pod(low));
    }
    engine.step(0, Event::Pod(pod("high", "2", "", json!({"priority": 5}))));
    assert_eq!(told(&decide(&mut engine, 0))[..2], ["evict a", "evict b"]);
    let report = ask(&mut engine, 1_000, json!({"podName": "high"})).unwrap();
    let victims = Victims { victims: vec!["a".to_owned()], victims_elsewhere: 1 };
    let expect = MakingRoom { machine: "m".to_owned(), victims, kept_for_seconds: None };
    assert_eq!(report.making_room, Some(expect));
    let text = serde_json::to_string(&report).unwrap();
    assert!(!text.contains("other"), "{text}");
}

#[test]
fn a_gang_is_told_with_how_many_fit() {
    let mut engine = engine();
    let member = |name: &str| {
        let mut member = (*pod(name, "900m", "", json!({}))).clone();
        member.metadata.labels.insert("gantry.dev/pod-group".to_owned(), "g".to_owned());
        Event::Pod(Arc::new(member))
    };
    let group: Arc<PodGroup> = from(json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": {"minMember": 3}}));
    engine.step(0, Event::Group(group));
    engine.step(0, member("a"));
    engine.step(0, member("b"));
    decide(&mut engine, 0);
    let state = |engine: &mut Engine| ask(engine, 0, json!({"podName": "a"})).unwrap();
    let gang = GangState { name: "g".to_owned(), min_member: Some(3), has_object: true, exist: 2, placed: 0, fit: 2 };
    let report = state(&mut engine);
    assert_eq!((report.gang, report.queue.unwrap().state.as_str()), (Some(gang.clone()), "Gang"));
    engine.step(0, member("c"));
    let mut effects = told(&decide(&mut engine, 0));
    assert_eq!(effects.pop().as_deref(), Some("group g: Unschedulable 0"));
    assert!(effects.iter().all(|effect| effect.contains("room for each of them, but not for all")), "{effects:?}");
    let report = state(&mut engine);
    assert_eq!(report.gang, Some(GangState { exist: 3, ..gang }));
    // What two of them leave is too little for the third.
    let removed: Vec<_> = report.filters.iter().map(|filter| filter.removed).collect();
    assert_eq!((report.feasible, removed), (1, vec![1]));
    assert_eq!(report.nearest[0].lacks, ["short of cpu: wants 0.9, 0.2 free (0.7 more)"]);
    assert_eq!(machine(engine.snapshot(), "m"), (0, 0));
}

#[test]
fn one_that_fits_nowhere_does_not_hide_how_many_of_its_gang_fit() {
    let mut engine = engine();
    let member = |name: &str, cpu: &str| {
        let mut member = (*pod(name, cpu, "", json!({}))).clone();
        member.metadata.labels.insert("gantry.dev/pod-group".to_owned(), "g".to_owned());
        Event::Pod(Arc::new(member))
    };
    let group: Arc<PodGroup> = from(json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": {"minMember": 2}}));
    engine.step(0, Event::Group(group));
    engine.step(0, member("a", "64"));
    engine.step(0, member("b", "1500m"));
    engine.step(0, member("c", "1"));
    decide(&mut engine, 0);
    let report = ask(&mut engine, 0, json!({"podName": "b"})).unwrap();
    assert_eq!(report.gang.unwrap().fit, 1);
    assert_eq!(
        (report.feasible, report.nearest[0].lacks[0].as_str()),
        (1, "short of cpu: wants 64, 0.5 free (63.5 more)")
    );
    // One that fits nowhere by itself is told of with the machines as they are.
    let report = ask(&mut engine, 0, json!({"podName": "a"})).unwrap();
    assert_eq!((report.feasible, report.filters[0].removed), (0, 1));
}
