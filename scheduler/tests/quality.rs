//! What sampling costs: the same pods in the same order, placed by walks that stop early and by walks that look at every machine.
//! Where the cluster is full, the room that is left over must differ by at most one per cent of the cluster.
//!
//! With `GANTRY_QUALITY=json` it prints what it found for a plot.

use std::collections::HashMap;
use std::sync::Arc;

use gantry_scheduler::api::{Node, NodeAllocation, Pod, PriorityClass};
use gantry_scheduler::class::Profile;
use gantry_scheduler::engine::{BindOutcome, Effect, Engine, Event};
use gantry_scheduler::snapshot::Watch;
use serde_json::{Value, json};

const MACHINES: usize = 1_000;
/// One in twenty, as in a cluster of ten thousand.
const ENOUGH: usize = 50;
/// After so many pods in a row that find no place the cluster counts as full.
const REFUSED: usize = 200;

/// A generator of the kind "multiply and shift"; the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(object).expect("the test's objects are readable"))
}

/// Three classes of machines in three zones.
fn cluster(enough: Option<usize>) -> Engine {
    let profile = Profile { enough, ..Profile::default() };
    let mut engine = Engine::with_profiles(HashMap::from([("default-scheduler".to_owned(), profile)]));
    let class = json!({"metadata": {"name": "batch", "labels": {"gantry.dev/band": "batch"}}, "value": -1000});
    engine.step(0, Event::Class(read::<PriorityClass>(class)));
    for at in 0..MACHINES {
        let name = format!("node-{at}");
        let (cpu, memory) = [("16", "64Gi"), ("32", "64Gi"), ("32", "256Gi")][at % 3];
        let node = json!({"metadata": {"name": name, "resourceVersion": "1",
            "labels": {"topology.kubernetes.io/zone": format!("zone-{}", at % 7 % 3)}},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}});
        let allocation = json!({"metadata": {"name": name, "resourceVersion": "1"}, "by": "Node"});
        engine.step(0, Event::Allocation(read::<NodeAllocation>(allocation)));
        engine.step(0, Event::Node(read::<Node>(node)));
    }
    engine.step(0, Event::Reached(Watch::Pods, 1));
    engine
}

fn pod(at: usize, dice: &mut Dice, class: &str) -> Arc<Pod> {
    let cpu = [100, 250, 500, 1_000, 2_000, 4_000][dice.below(6) as usize];
    let memory = cpu * [1, 2, 4, 8][dice.below(4) as usize];
    let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    let spec = json!({"schedulerName": "default-scheduler", "priorityClassName": class,
        "containers": [{"resources": {"requests": requests}}]});
    read(json!({"metadata": {"namespace": "ns", "name": format!("p{at}"), "uid": format!("p{at}")}, "spec": spec}))
}

/// The part of CPU and of memory that nobody uses once the cluster is full, in thousandths, and the pods placed.
fn stranded(enough: Option<usize>, class: &str, seed: u64) -> (i64, i64, usize) {
    let mut engine = cluster(enough);
    let mut dice = Dice(seed);
    let (mut refused, mut placed, mut revision) = (0, 0, 2);
    for at in 0.. {
        if refused >= REFUSED {
            break;
        }
        let pod = pod(at, &mut dice, class);
        engine.step(1, Event::Pod(pod.clone()));
        let effects = engine.step(1, Event::Decide { seed: dice.below(1 << 40), most: 1 });
        let binds =
            effects.into_iter().find_map(|e| if let Effect::Bind { binds, .. } = e { Some(binds) } else { None });
        let Some(binds) = binds else {
            refused += 1;
            engine.step(1, Event::PodGone(pod.metadata.uid.to_string()));
            continue;
        };
        refused = 0;
        placed += 1;
        revision += 1;
        for bind in binds {
            engine.step(1, Event::Bind { uid: bind.pod.uid.clone(), outcome: BindOutcome::Bound(revision) });
        }
    }
    let (snapshot, mut used) = (engine.snapshot(), (0, 0));
    for machine in snapshot.machines() {
        let on = snapshot.room().used(machine);
        used = (used.0 + on.cpu_m, used.1 + on.memory);
    }
    let all = snapshot.room().total();
    (1_000 - used.0 * 1_000 / all.cpu_m, 1_000 - used.1 * 1_000 / all.memory, placed)
}

#[test]
fn sampling_strands_at_most_one_per_cent_more_than_looking_everywhere() {
    let json = std::env::var("GANTRY_QUALITY").is_ok();
    for class in ["batch", ""] {
        for seed in [1, 2] {
            let (cpu, memory, placed) = stranded(Some(ENOUGH), class, seed);
            let (best_cpu, best_memory, best_placed) = stranded(Some(usize::MAX), class, seed);
            if json {
                let band = if class.is_empty() { "ordinary" } else { class };
                let row = json!({"band": band, "seed": seed, "machines": MACHINES, "enough": ENOUGH,
                    "sampled": {"cpu": cpu, "memory": memory, "placed": placed},
                    "exhaustive": {"cpu": best_cpu, "memory": best_memory, "placed": best_placed}});
                println!("{row}");
            }
            assert!(cpu <= best_cpu + 10, "{class} {seed}: {cpu} ‰ of CPU are left over, {best_cpu} ‰ at best");
            assert!(memory <= best_memory + 10, "{class} {seed}: {memory} ‰ of memory, {best_memory} ‰ at best");
        }
    }
}
