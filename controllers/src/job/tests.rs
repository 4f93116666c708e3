//! Jobs run to their end with every pod counted once, whatever fails in between.

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::accounting::FINALIZER;
use super::core::reconcile;
use super::pods::INDEX;
use super::roster::Roster;
use super::rosters::Rosters;
use super::types::{Job, Observed};
use crate::edge::Key;
use crate::objects::Pod;
use crate::plan::{Plan, Step, Write};
use crate::sim::World;

mod indexed;

fn job(spec: Value) -> Value {
    let mut body = json!({"metadata": {"name": "sum", "namespace": "ns"}, "spec": {"parallelism": 1, "completions": 1,
        "backoffLimit": 6, "selector": {"matchLabels": {"job": "sum"}}, "template": {"metadata": {"labels": {"job": "sum"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    spec.as_object().unwrap().iter().for_each(|(k, v)| body["spec"][k] = v.clone());
    body
}

fn world(spec: Value) -> World {
    let mut world = World::new();
    world.create(&kinds::JOB, job(spec)).unwrap();
    world
}

fn get(world: &World) -> std::sync::Arc<Job> {
    world.get(&kinds::JOB, "ns", "sum").unwrap()
}

fn look(world: &World) -> Plan {
    look_with(world, Observed::default())
}

/// A look with more to it than the job and its pods.
fn look_with(world: &World, more: Observed) -> Plan {
    let job = get(world);
    let pods = world.list::<Pod>(&kinds::POD);
    let orphans = pods.iter().filter(|pod| pod.owner().is_none()).cloned().collect();
    let own = pods.into_iter().filter(|pod| pod.owner().is_some_and(|owner| owner.uid == *job.uid()));
    let observed = Observed { job: Some(job.clone()), orphans, ..more };
    reconcile(&observed, &Roster::of(own), world.now)
}

/// Looks until nothing is left to do without time or pods moving.
fn quiet(world: &mut World) {
    for _ in 0..50 {
        let plan = look(world);
        if plan.is_settled() {
            return;
        }
        world.apply(&plan).unwrap();
    }
    panic!("never settles");
}

/// Runs everything: pods start, those that `fails` picks fail and the rest succeed, until nothing moves.
fn run(world: &mut World, fails: impl Fn(&Value) -> bool) {
    for _ in 0..120 {
        quiet(world);
        if get(world).finished().is_some() && !world.agents(|_| false) {
            return;
        }
        world.agents(|_| false);
        world.end("Failed", &fails);
        world.end("Succeeded", |p| !fails(p));
        world.pass(30);
    }
}

fn conditions(world: &World) -> Vec<String> {
    let of = |c: &crate::objects::Condition| format!("{}={} {}", c.kind, c.status, c.reason);
    get(world).status.conditions.iter().map(of).collect()
}

fn counts(world: &World) -> (i32, i32, i32) {
    let status = &get(world).status;
    (status.active, status.succeeded, status.failed)
}

/// A plan's creates alone.
fn creates(mut plan: Plan) -> Plan {
    plan.steps.retain(|step| matches!(step, Step::SlowStart(_)));
    Plan { steps: plan.steps, ..Plan::default() }
}

/// The indexes that active pods work on.
fn active_indexes(world: &World) -> Vec<usize> {
    let pods = world.list::<Pod>(&kinds::POD);
    let mut all: Vec<usize> = pods.iter().filter(|p| p.is_active()).filter_map(|p| super::pods::index(p)).collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_end_is_counted_once(
        completions in 1..9_i32,
        parallelism in 1..6_i32,
        indexed in any::<bool>(),
        failures in 0..4_usize,
        chaos in prop::collection::vec(0..6_u8, 0..40),
    ) {
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        let mut world = world(json!({"completions": completions, "parallelism": parallelism, "completionMode": mode}));
        let (mut left, mut doubled) = (failures, false);
        for step in chaos {
            match step {
                // A controller that stops half way through a plan.
                0 => {
                    let mut plan = look(&world);
                    plan.steps.truncate(1);
                    plan.status = None;
                    drop(world.apply(&plan));
                }
                1 if left > 0 => {
                    let first = world.list::<Pod>(&kinds::POD).iter().find(|p| p.phase() == "Running").map(|p| p.name().to_owned());
                    if let Some(name) = first {
                        world.end("Failed", |p| p["metadata"]["name"] == json!(name));
                        left -= 1;
                    }
                }
                2 => {
                    let first = world.list::<Pod>(&kinds::POD).iter().find(|p| p.phase() == "Running").map(|p| p.name().to_owned());
                    world.end("Succeeded", |p| Some(p["metadata"]["name"].as_str().unwrap()) == first.as_deref());
                }
                3 => drop(world.agents(|_| false)),
                // Creates whose answers were lost, and again from the same copy.
                4 => {
                    let plan = creates(look(&world));
                    world.apply(&plan).unwrap();
                    world.apply(&plan).unwrap();
                    doubled |= plan.writes().next().is_some();
                }
                _ => world.apply(&look(&world)).unwrap(),
            }
            world.pass(20);
            // What was doubled is taken back before anything else.
            let mut settled = world.clone();
            if doubled {
                quiet(&mut settled);
            }
            let active = settled.list::<Pod>(&kinds::POD).iter().filter(|p| p.is_active()).count();
            prop_assert!(active <= usize::try_from(parallelism).unwrap());
            prop_assert!(active_indexes(&settled).windows(2).all(|two| two[0] != two[1]), "one pod for each index");
        }
        run(&mut world, |_| false);
        let (active, succeeded, failed) = counts(&world);
        let failures = i32::try_from(failures - left).unwrap();
        // A pod that was one too many may end before it is taken back; it counts unless it was let go already.
        prop_assert!(active == 0 && failed <= failures && (doubled || failed == failures));
        prop_assert!(succeeded == completions || doubled && !indexed && succeeded > completions);
        prop_assert!(get(&world).condition("Complete").is_some());
        prop_assert!(look(&world).is_settled());
        prop_assert!(world.list::<Pod>(&kinds::POD).iter().all(|p| p.metadata.finalizers.is_empty()));
        if indexed {
            let last = completions - 1;
            let all = match completions { 1 => "0".to_owned(), 2 => "0,1".to_owned(), _ => format!("0-{last}") };
            prop_assert_eq!(&get(&world).status.completed_indexes, &all);
        }
    }
}

#[test]
fn no_finalizer_goes_before_its_end_is_stored() {
    let mut world = world(json!({}));
    quiet(&mut world);
    world.agents(|_| false);
    world.end("Succeeded", |_| true);
    let plan = look(&world);
    let Step::One(first) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(first.kind, &kinds::JOB, "the status is the first write");
    // Another writer was faster: nothing after the refused status happens.
    world.edit(&kinds::JOB, "ns", "sum", |j| j["metadata"]["labels"] = json!({"a": "b"}));
    assert!(world.apply(&plan).is_err());
    assert_eq!(world.list::<Pod>(&kinds::POD)[0].metadata.finalizers, [FINALIZER]);
}

#[test]
fn a_job_completes_as_users_know_it() {
    let mut world = world(json!({"completions": 3, "parallelism": 2}));
    run(&mut world, |_| false);
    assert_eq!(conditions(&world), ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]);
    let status = get(&world).status.clone();
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    assert_eq!(counts(&world), (0, 3, 0));
}

#[test]
fn a_job_fails_after_its_limit() {
    let mut world = world(json!({"backoffLimit": 2}));
    run(&mut world, |_| true);
    assert_eq!(conditions(&world), ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]);
    assert_eq!(counts(&world), (0, 0, 3));
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let mut world = world(json!({"backoffLimit": 2}));
    world.edit(&kinds::JOB, "ns", "sum", |j| j["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure"));
    quiet(&mut world);
    world.agents(|_| false);
    for (restarts, ends) in [(1, false), (2, true)] {
        let name = world.list::<Pod>(&kinds::POD)[0].name().to_owned();
        world
            .edit(&kinds::POD, "ns", &name, |p| p["status"]["containerStatuses"] = json!([{"restartCount": restarts}]));
        quiet(&mut world);
        assert_eq!(get(&world).condition("FailureTarget").is_some(), ends);
    }
}

#[test]
fn failures_back_off_and_time_runs_out() {
    let mut world = world(json!({"activeDeadlineSeconds": 25}));
    quiet(&mut world);
    world.agents(|_| false);
    world.end("Failed", |_| true);
    quiet(&mut world);
    assert_eq!(look(&world).requeue.unwrap().as_secs(), 10, "ten seconds after the first failure");
    world.pass(10);
    quiet(&mut world);
    assert_eq!(world.count(&kinds::POD), 2);
    world.agents(|_| false);
    world.pass(15);
    quiet(&mut world);
    world.agents(|_| false);
    quiet(&mut world);
    assert_eq!(conditions(&world).last().unwrap(), "Failed=True DeadlineExceeded");
    assert_eq!(counts(&world), (0, 0, 2), "the pod that was stopped counts as failed");
}

#[test]
fn a_suspended_job_stops_uncounted_and_goes_on() {
    let mut world = world(json!({"completions": 2, "parallelism": 2, "backoffLimit": 0}));
    quiet(&mut world);
    world.agents(|_| false);
    world.edit(&kinds::JOB, "ns", "sum", |j| j["spec"]["suspend"] = json!(true));
    quiet(&mut world);
    world.agents(|_| false);
    quiet(&mut world);
    assert_eq!((world.count(&kinds::POD), counts(&world)), (0, (0, 0, 0)));
    assert_eq!(
        (conditions(&world), get(&world).status.start_time),
        (vec!["Suspended=True JobSuspended".to_owned()], None)
    );
    world.edit(&kinds::JOB, "ns", "sum", |j| j["spec"]["suspend"] = json!(false));
    run(&mut world, |_| false);
    assert_eq!((conditions(&world)[0].as_str(), counts(&world)), ("Suspended=False JobResumed", (0, 2, 0)));
}

#[test]
fn a_work_queue_ends_with_its_first_success() {
    let mut world = world(json!({"completions": null, "parallelism": 3}));
    quiet(&mut world);
    world.agents(|_| false);
    let first = world.list::<Pod>(&kinds::POD)[0].name().to_owned();
    world.end("Succeeded", |p| p["metadata"]["name"] == json!(first));
    quiet(&mut world);
    assert_eq!((world.count(&kinds::POD), get(&world).finished().is_some()), (3, false));
    world.end("Succeeded", |_| true);
    quiet(&mut world);
    assert_eq!((counts(&world), get(&world).condition("Complete").is_some()), ((0, 3, 0), true));
}

#[test]
fn a_finished_job_goes_after_its_time() {
    let mut world = world(json!({"ttlSecondsAfterFinished": 60}));
    run(&mut world, |_| false);
    let end = get(&world).finished().unwrap().last_transition_time.unwrap();
    world.now = end;
    assert_eq!(look(&world).requeue.unwrap().as_secs(), 60);
    world.pass(60);
    world.apply(&look(&world)).unwrap();
    assert!(get(&world).metadata.is_deleting());
}

#[test]
fn at_most_five_hundred_pods_wait_for_a_machine() {
    let mut world = world(json!({"completions": 2000, "parallelism": 2000}));
    quiet(&mut world);
    assert_eq!(world.count(&kinds::POD), 500);
    world.agents(|_| false);
    quiet(&mut world);
    assert_eq!(world.count(&kinds::POD), 1000);
}

/// What is left of the job: pods that its accounting still holds.
fn left(world: &World) -> Vec<std::sync::Arc<Pod>> {
    let job: Option<std::sync::Arc<Job>> = world.get(&kinds::JOB, "ns", "sum");
    let rosters = Rosters::default();
    world.list(&kinds::POD).iter().for_each(|pod| rosters.change(None, Some(pod), 0));
    rosters.left_behind(&Key::new("ns", "sum"), job.as_deref().map(Object::uid))
}

#[test]
fn a_job_that_is_gone_holds_no_pod_back() {
    let mut world = world(json!({"completions": 3, "parallelism": 2}));
    quiet(&mut world);
    world.agents(|_| false);
    assert!(left(&world).is_empty(), "the job is there");
    world.delete(&kinds::JOB, "ns", "sum", None);
    // As the garbage collector does; the agents stop what they ran.
    for pod in world.list::<Pod>(&kinds::POD) {
        world.delete(&kinds::POD, "ns", pod.name(), None);
    }
    world.agents(|_| false);
    assert_eq!(world.count(&kinds::POD), 2, "held by the finalizer");
    let gone = Observed { left: left(&world), ..Observed::default() };
    let pod = &gone.left[0].metadata;
    let plan = reconcile(&gone, &Roster::default(), world.now);
    let release = |name: &str, uid: &str| {
        let operations = json!([{"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER},
            {"op": "remove", "path": "/metadata/finalizers/0"}]);
        Write::json(&kinds::POD, "ns", name, operations)
    };
    let Step::All(writes) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!((plan.steps.len(), writes.len()), (1, 2));
    assert_eq!(writes[0], release(&pod.name, pod.uid.as_str()));
    world.apply(&plan).unwrap();
    assert_eq!(world.count(&kinds::POD), 0);
}

#[test]
fn a_new_job_of_the_name_lets_the_old_pods_go_and_keeps_its_own() {
    let mut world = world(json!({}));
    quiet(&mut world);
    let old = world.list::<Pod>(&kinds::POD)[0].clone();
    world.delete(&kinds::JOB, "ns", "sum", None);
    world.create(&kinds::JOB, job(json!({}))).unwrap();
    let look = |world: &World| look_with(world, Observed { left: left(world), ..Observed::default() });
    for _ in 0..5 {
        world.apply(&look(&world)).unwrap();
    }
    assert!(look(&world).is_settled());
    let held: Vec<bool> = world.list::<Pod>(&kinds::POD).iter().map(|p| super::accounting::holds(p)).collect();
    let owners: Vec<bool> =
        world.list::<Pod>(&kinds::POD).iter().map(|p| p.owner().unwrap().uid == *get(&world).uid()).collect();
    assert_eq!((held.clone(), held.iter().filter(|h| **h).count()), (owners, 1));
    assert_eq!(super::held_for(&old), Some("sum"));
    let mut other = (*old).clone();
    other.metadata.owner_references[0].kind = "ReplicaSet".to_owned();
    assert_eq!(super::held_for(&other), None, "another controller's");
}

#[test]
fn pods_that_lost_their_job_wait_only_for_one_that_adopts_them() {
    let mut world = world(json!({}));
    quiet(&mut world);
    let name = world.list::<Pod>(&kinds::POD)[0].name().to_owned();
    world.edit(&kinds::POD, "ns", &name, |p| p["metadata"]["ownerReferences"] = json!([]));
    let unclaimed = |world: &World| super::unclaimed(world.list(&kinds::POD), &world.list(&kinds::JOB)).len();
    assert_eq!(super::held_for(&world.list::<Pod>(&kinds::POD)[0]), Some(""));
    assert_eq!(unclaimed(&world), 0, "the job adopts it again");
    world.edit(&kinds::JOB, "ns", "sum", |j| {
        j["metadata"]["finalizers"] = json!(["orphan"]);
        j["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(unclaimed(&world), 1, "a job that is being deleted adopts none");
}
