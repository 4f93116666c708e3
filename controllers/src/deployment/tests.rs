//! Rollouts in the small world, with the replica-set controller beside: bounds are never broken, every history settles, and
//! what kubectl relies on (revisions, conditions, undo, pause) is there.

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::revision::{HISTORY, REVISION};
use super::types::{Deployment, Observed};
use crate::edge::Failure;
use crate::objects::{HASH_LABEL, Pod, ReplicaSet};
use crate::plan::Plan;
use crate::replicaset;
use crate::sim::World;

fn deployment(replicas: i32, surge: Value, unavailable: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "ns", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {"replicas": replicas, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}}})
}

fn observe(world: &World) -> Observed {
    let mut observed = Observed {
        deployment: world.get(&kinds::DEPLOYMENT, "ns", "web").unwrap(),
        sets: world.list(&kinds::REPLICA_SET),
        ..Observed::default()
    };
    for pod in world.list::<Pod>(&kinds::POD).iter().filter(|pod| !pod.is_finished()) {
        if let Some(owner) = pod.owner() {
            *observed.running.entry(owner.uid.clone()).or_default() += 1;
        }
    }
    observed
}

fn look(world: &World) -> Plan {
    reconcile(&observe(world), world.now)
}

/// One look of the deployment controller and one of the replica-set controller at each set.
fn step(world: &mut World) -> bool {
    let plan = look(world);
    world.apply(&plan).unwrap();
    let mut quiet = plan.is_settled();
    for set in world.list::<ReplicaSet>(&kinds::REPLICA_SET) {
        let pods = world.list::<Pod>(&kinds::POD);
        let pods = pods.into_iter().filter(|p| p.owner().is_some_and(|o| o.uid == set.metadata.uid)).collect();
        let plan = replicaset::reconcile(&replicaset::Observed { set, pods, ..Default::default() }, world.now);
        world.apply(&plan).unwrap();
        quiet &= plan.is_settled();
    }
    quiet
}

fn settle(world: &mut World) {
    for _ in 0..200 {
        let quiet = step(world);
        let moved = world.agents(|_| false);
        world.pass(1);
        if quiet && !moved {
            return;
        }
    }
    panic!("never settles");
}

fn set_image(world: &mut World, image: &str) {
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image)
    });
}

fn status(world: &World) -> Value {
    world.raw(&kinds::DEPLOYMENT, "ns", "web").unwrap()["status"].clone()
}

fn condition(world: &World, kind: &str) -> Value {
    let status = status(world);
    status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind).cloned().unwrap_or_default()
}

/// The live set's image and all pods' images.
fn images(world: &World) -> Vec<String> {
    let mut pods: Vec<&str> = Vec::new();
    let all: Vec<Value> = world.list::<Value>(&kinds::POD).iter().map(|p| (**p).clone()).collect();
    pods.extend(all.iter().filter_map(|p| p["spec"]["containers"][0]["image"].as_str()));
    pods.iter().map(|i| (*i).to_owned()).collect()
}

fn sets(world: &World) -> Vec<(String, i32)> {
    let mut all: Vec<_> = world
        .list::<ReplicaSet>(&kinds::REPLICA_SET)
        .iter()
        .map(|s| (s.metadata.annotations[REVISION].clone(), s.replicas()))
        .collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rollouts_keep_their_bounds_and_settle(
        replicas in 1..12_i32,
        surge in 0..4_i32,
        unavailable in 0..4_i32,
        slow in prop::collection::vec(any::<bool>(), 30),
        images in prop::collection::vec(1..4_u8, 1..4),
    ) {
        prop_assume!(surge + unavailable > 0);
        let mut world = World::new();
        world.create(&kinds::DEPLOYMENT, deployment(replicas, json!(surge), json!(unavailable))).unwrap();
        settle(&mut world);
        for image in images {
            let image = format!("v{image}");
            set_image(&mut world, &image);
            for slow in &slow {
                step(&mut world);
                let pods = world.list::<Pod>(&kinds::POD);
                let active = i32::try_from(pods.iter().filter(|p| p.is_active()).count()).unwrap();
                let available = i32::try_from(pods.iter().filter(|p| p.is_active() && p.is_ready()).count()).unwrap();
                prop_assert!(active <= replicas + surge, "{active} pods of {replicas}+{surge}");
                prop_assert!(available >= replicas - unavailable.min(replicas), "{available} of {replicas}-{unavailable}");
                if !slow {
                    world.agents(|_| false);
                }
                world.pass(1);
            }
            settle(&mut world);
            prop_assert!(look(&world).is_settled());
            prop_assert!(self::images(&world).iter().all(|i| *i == image), "an old pod is left");
            prop_assert_eq!(self::images(&world).len(), usize::try_from(replicas).unwrap());
            prop_assert_eq!(condition(&world, "Progressing")["reason"].clone(), json!("NewReplicaSetAvailable"));
        }
    }

    #[test]
    fn scaling_in_the_middle_of_a_rollout_settles(
        before in 1..10_i32, after in 0..14_i32, steps in 0..6_usize,
    ) {
        let mut world = World::new();
        world.create(&kinds::DEPLOYMENT, deployment(before, json!("25%"), json!("25%"))).unwrap();
        settle(&mut world);
        set_image(&mut world, "v2");
        for _ in 0..steps {
            step(&mut world);
            world.agents(|_| false);
        }
        world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["replicas"] = json!(after));
        settle(&mut world);
        prop_assert_eq!(images(&world), vec!["v2".to_owned(); usize::try_from(after).unwrap()]);
        prop_assert!(look(&world).is_settled());
    }
}

#[test]
fn a_rollout_is_numbered_and_can_be_undone() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(3, json!(1), json!(1))).unwrap();
    settle(&mut world);
    assert_eq!(sets(&world), [("1".into(), 3)]);
    let first = world.list::<ReplicaSet>(&kinds::REPLICA_SET)[0].clone();
    assert_eq!(first.metadata.labels[HASH_LABEL], first.spec.selector.match_labels[HASH_LABEL]);
    assert_eq!(first.metadata.annotations["kubernetes.io/change-cause"], "first");
    set_image(&mut world, "v2");
    settle(&mut world);
    assert_eq!(sets(&world), [("1".into(), 0), ("2".into(), 3)]);
    // As kubectl does it: the old set's template without the hash.
    set_image(&mut world, "v1");
    settle(&mut world);
    assert_eq!(sets(&world), [("2".into(), 0), ("3".into(), 3)]);
    let again = world.get::<ReplicaSet>(&kinds::REPLICA_SET, "ns", first.name()).unwrap();
    assert_eq!((&*again.metadata.annotations[REVISION], &*again.metadata.annotations[HISTORY]), ("3", "1"));
    let deployment = world.get::<Deployment>(&kinds::DEPLOYMENT, "ns", "web").unwrap();
    assert_eq!(deployment.metadata.annotations[REVISION], "3");
    assert_eq!(status(&world)["observedGeneration"], json!(deployment.metadata.generation));
}

#[test]
fn a_restarted_controller_or_a_defaulted_template_rolls_nothing() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(2, json!(1), json!(0))).unwrap();
    settle(&mut world);
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| {
        d["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        d["spec"]["template"]["spec"]["securityContext"] = json!({});
    });
    settle(&mut world);
    assert_eq!(sets(&world), [("1".into(), 2)]);
}

#[test]
fn old_sets_above_the_limit_are_dropped() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(1, json!(1), json!(0))).unwrap();
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["revisionHistoryLimit"] = json!(2));
    for image in 1..=5 {
        set_image(&mut world, &format!("v{image}"));
        settle(&mut world);
    }
    assert_eq!(sets(&world), [("3".into(), 0), ("4".into(), 0), ("5".into(), 1)]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(2, json!(1), json!(0))).unwrap();
    settle(&mut world);
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["paused"] = json!(true));
    set_image(&mut world, "v2");
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["replicas"] = json!(3));
    settle(&mut world);
    assert_eq!(images(&world), ["v1", "v1", "v1"]);
    assert_eq!(condition(&world, "Progressing")["reason"], "DeploymentPaused");
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["paused"] = json!(false));
    settle(&mut world);
    assert_eq!(images(&world), ["v2", "v2", "v2"]);
    assert_eq!(condition(&world, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[test]
fn recreate_never_runs_two_versions() {
    let mut world = World::new();
    let mut body = deployment(3, Value::Null, Value::Null);
    body["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(&kinds::DEPLOYMENT, body).unwrap();
    settle(&mut world);
    set_image(&mut world, "v2");
    for _ in 0..20 {
        step(&mut world);
        let mut versions = images(&world);
        versions.dedup();
        assert!(versions.len() <= 1, "{versions:?}");
        world.agents(|_| false);
        world.pass(1);
    }
    assert_eq!(images(&world), ["v2", "v2", "v2"]);
}

#[test]
fn a_stuck_rollout_says_so_after_its_deadline() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(2, json!(1), json!(0))).unwrap();
    settle(&mut world);
    assert_eq!(condition(&world, "Available")["status"], "True");
    set_image(&mut world, "bad");
    let broken = |pod: &Value| pod["spec"]["containers"][0]["image"] == "bad";
    for _ in 0..5 {
        step(&mut world);
        world.agents(broken);
        world.pass(1);
    }
    assert!(look(&world).requeue.is_some_and(|after| after.as_secs() > 590), "it looks again at the deadline");
    world.pass(601);
    step(&mut world);
    let progressing = condition(&world, "Progressing");
    assert_eq!(
        (progressing["status"].as_str(), progressing["reason"].as_str()),
        (Some("False"), Some("ProgressDeadlineExceeded"))
    );
    assert_eq!(images(&world).iter().filter(|i| *i == "v1").count(), 2, "the old pods stay");
    assert!(look(&world).is_settled());
    // A better image gets it going again.
    set_image(&mut world, "v3");
    settle(&mut world);
    assert_eq!(condition(&world, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[test]
fn a_name_that_is_taken_asks_for_another_hash() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(1, json!(1), json!(0))).unwrap();
    let failure = Some(Failure { already_exists: true, kind: "replicasets", ..Failure::default() });
    let observed = Observed { collided: true, failure, ..observe(&world) };
    world.apply(&reconcile(&observed, world.now)).unwrap();
    assert_eq!(status(&world)["collisionCount"], 1);
    assert_eq!(world.count(&kinds::REPLICA_SET), 0);
    settle(&mut world);
    assert_eq!(sets(&world), [("1".into(), 1)]);
}

#[test]
fn what_is_scaled_is_said_as_users_know_it() {
    let mut world = World::new();
    world.create(&kinds::DEPLOYMENT, deployment(2, json!(1), json!(1))).unwrap();
    let said = |plan: &Plan| -> Vec<String> {
        let done = plan.writes().filter_map(|w| w.announce.as_ref()?.done.clone());
        done.map(|(reason, text)| format!("{reason}: {text}")).collect()
    };
    let name = super::revision::name_and_hash(&observe(&world).deployment).0;
    assert_eq!(said(&look(&world)), [format!("ScalingReplicaSet: Scaled up replica set {name} from 0 to 2")]);
    settle(&mut world);
    world.edit(&kinds::DEPLOYMENT, "ns", "web", |d| d["spec"]["replicas"] = json!(1));
    assert_eq!(said(&look(&world)), [format!("ScalingReplicaSet: Scaled down replica set {name} from 2 to 1")]);
}
