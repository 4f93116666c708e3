//! The decision core alone, without I/O: placements a second and the spread of one decision, by size of the cluster and kind of
//! pod. Prints one line of JSON a row; `cargo xtask bench scheduler` reads them.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops where something is wrong")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use gantry_scheduler::api::{Node, NodeAllocation, Pod};
use gantry_scheduler::engine::{BindOutcome, Effect, Engine, Event};
use gantry_scheduler::snapshot::Watch;
use serde_json::{Value, json};

/// Pods that each machine holds before the measurement; a third of them are as the row's pods are, the others of no rule.
const PER_MACHINE: usize = 30;
/// Templates of a row's pods.
const TEMPLATES: usize = 100;
const ZONES: usize = 3;
/// Numbers of the measured pods, beyond those of any that is placed.
const MEASURED: usize = 1_000_000_000;
/// Objects that are made before the clock of building goes on.
const CHUNK: usize = 1_000;

struct Row {
    shape: &'static str,
    machines: usize,
    pods: usize,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let matches = |arg: &str, name: &str| arg.strip_suffix('*').map_or(name == arg, |begin| name.starts_with(begin));
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| matches(arg, name));
    let mut rows = Vec::new();
    for shape in ["basic", "batch", "spread", "affinity", "anti-affinity", "preferred", "mix"] {
        rows.push(Row { shape, machines: 10_000, pods: 20_000 });
    }
    for machines in [100, 1_000, 50_000] {
        for shape in ["basic", "mix"] {
            rows.push(Row { shape, machines, pods: 20_000.min(machines * 10) });
        }
    }
    for row in rows.iter().filter(|row| wanted(&format!("{}-{}", row.shape, row.machines))) {
        println!("{}", measure(row));
    }
}

fn node(at: usize) -> Arc<Node> {
    let name = format!("node-{at}");
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", at % ZONES),
        "topology.gantry.dev/rack": format!("rack-{}", at / 40)});
    let node = json!({"metadata": {"name": name, "labels": labels, "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}}});
    Arc::new(serde_json::from_value(node).unwrap())
}

fn allocation(at: usize) -> Arc<NodeAllocation> {
    let allocation =
        json!({"metadata": {"name": format!("node-{at}"), "resourceVersion": "1"}, "writes": 0, "by": "Node"});
    Arc::new(serde_json::from_value(allocation).unwrap())
}

fn rule(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

/// A pod of the shape: what is asked for beside CPU and memory.
fn pod(shape: &str, at: usize, node: &str) -> Arc<Pod> {
    let template = at % TEMPLATES;
    let app = format!("{shape}-{template}");
    let zone = "topology.kubernetes.io/zone";
    let host = "kubernetes.io/hostname";
    let spread = |required: bool| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": zone,
            "whenUnsatisfiable": if required { "DoNotSchedule" } else { "ScheduleAnyway" },
            "labelSelector": {"matchLabels": {"app": app}}}]})
    };
    let affinity = |kind: &str, key: &str| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule(&app, key)]}}});
    let preferred = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": rule(&app, host)}]}}});
    let extra = match (shape, template % 5) {
        ("spread", _) | ("mix", 0) => spread(true),
        ("affinity", _) | ("mix", 1) => affinity("podAffinity", zone),
        ("anti-affinity", _) | ("mix", 2) => affinity("podAntiAffinity", host),
        ("preferred", _) | ("mix", 3) => preferred,
        _ => json!({}),
    };
    let mut spec = json!({"schedulerName": "default-scheduler", "nodeName": node, "priorityClassName": if shape == "batch" { "batch" } else { "" },
        "containers": [{"name": "c", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}}}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    let pod = json!({"metadata": {"namespace": format!("team-{}", template % 20), "name": format!("{app}-{at}"),
        "uid": format!("00000000-0000-4000-8000-{at:012}"), "labels": {"app": app}, "ownerReferences": owners},
        "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// Whether a template's pods are all in one zone, because they want to be where the others are.
fn in_one_zone(shape: &str, template: usize) -> bool {
    matches!((shape, template % 5), ("affinity", _) | ("mix", 1))
}

/// The pod in a place of a machine. What has rules obeys them: at most one of a template a machine, spread over the zones or in one.
fn placed(row: &Row, at: usize) -> Arc<Pod> {
    let (machine, place) = (at % row.machines, at / row.machines);
    let template = (machine + place) % TEMPLATES;
    let of_row = match in_one_zone(row.shape, template) {
        true => machine % ZONES == template % ZONES,
        false => place < PER_MACHINE / 3,
    };
    pod(if of_row { row.shape } else { "placed" }, at * TEMPLATES + template, &format!("node-{machine}"))
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A cluster with its pods on it, and how long it took to take them in: what is told is made while the clock stands.
fn cluster(row: &Row) -> (Engine, Duration) {
    let mut engine = Engine::new("default-scheduler");
    let class = json!({"metadata": {"name": "batch", "labels": {"gantry.dev/band": "batch"}}, "value": -1000});
    engine.step(0, Event::Class(Arc::new(serde_json::from_value(class).unwrap())));
    let machines = (0..row.machines).flat_map(|at| [Event::Allocation(allocation(at)), Event::Node(node(at))]);
    let pods = (0..row.machines * PER_MACHINE).map(|at| Event::Pod(placed(row, at)));
    let mut events = machines.chain(pods).chain([Event::Reached(Watch::Pods, 1)]);
    let mut took = Duration::ZERO;
    loop {
        let chunk: Vec<Event> = events.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            return (engine, took);
        }
        let start = Instant::now();
        for event in chunk {
            engine.step(0, event);
        }
        took += start.elapsed();
    }
}

fn measure(row: &Row) -> Value {
    let before = resident_bytes();
    let (mut engine, build) = cluster(row);
    let snapshot = resident_bytes().saturating_sub(before);
    for at in 0..row.pods {
        engine.step(1, Event::Pod(pod(row.shape, MEASURED + at, "")));
    }
    let mut times = Vec::with_capacity(row.pods);
    let (mut bound, mut revision) = (0, 2);
    let begin = Instant::now();
    let mut answering = Duration::ZERO;
    while bound < row.pods {
        let start = Instant::now();
        let effects = engine.step(2, Event::Decide { seed: bound as u64 * 7919, most: 1 });
        times.push(start.elapsed());
        assert!(!effects.is_empty(), "{} after {bound}: nothing was decided", row.shape);
        let start = Instant::now();
        for effect in effects {
            let Effect::Bind { binds, .. } = effect else {
                panic!("{}: {effect:?}", row.shape);
            };
            revision += 1;
            for bind in binds {
                bound += 1;
                let outcome = BindOutcome::Bound(revision);
                engine.step(2, Event::Bind { uid: bind.pod.uid.clone(), outcome });
            }
        }
        answering += start.elapsed();
    }
    let total = begin.elapsed();
    times.sort();
    // The least that so many thousandths of all do not exceed.
    let us = |part: usize| times[(times.len() * part).div_ceil(1000) - 1].as_nanos() as f64 / 1000.0;
    json!({"shape": row.shape, "machines": row.machines, "placed": row.machines * PER_MACHINE, "pods": row.pods,
        "per_second": (row.pods as f64 / total.as_secs_f64()).round(),
        "decisions_per_second": (row.pods as f64 / (total - answering).as_secs_f64()).round(),
        "p50_us": us(500), "p99_us": us(990), "p999_us": us(999), "snapshot_bytes": snapshot,
        "build_s": build.as_secs_f64()})
}
