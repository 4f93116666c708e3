//! Random small clusters from a seed, dense with rules that meet: few labels, few zones, half of the machines without a
//! topology key, every kind of constraint often enough to decide. The same seed gives the same cluster.

use super::World;
use super::generate_pods::{bound_pod, pending_pod};
use super::manifest::name;
use super::room;
use proptest::prelude::{Strategy, any};
use serde_json::{Value, json};

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const RACK: &str = "example.com/rack";
pub const GPU: &str = "example.com/gpu";

/// For proptest: a world by seed. A failure shrinks with `shrink::shrink`, not by seed.
pub fn worlds() -> impl Strategy<Value = World> {
    any::<u64>().no_shrink().prop_map(world)
}

/// What a cluster is mostly about, so that the finer rules of each kind get to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Mixed,
    Spread,
    Near,
    Room,
}

impl Theme {
    /// The usual chance in mixed clusters, `heavy` where this is the theme, and a quarter where another thing is.
    pub fn chance(self, dice: &mut Dice, of: Theme, usual: u64, heavy: u64) -> bool {
        dice.chance(match self {
            Theme::Mixed => usual,
            theme if theme == of => heavy,
            _ => usual / 4,
        })
    }
}

/// 1–12 machines, up to 40 bound pods, 1–6 pending ones.
pub fn world(seed: u64) -> World {
    let dice = &mut Dice(seed);
    let theme =
        *dice.pick(&[Theme::Mixed, Theme::Mixed, Theme::Spread, Theme::Spread, Theme::Near, Theme::Room, Theme::Room]);
    // In some clusters every machine has every topology key, and in some the machines are so small that the zone is
    // full while a machine still has something to lend.
    let tidy = dice.chance(if theme == Theme::Spread { 75 } else { 50 });
    let crowded = theme.chance(dice, Theme::Room, 20, 60);
    let mut world = World { namespaces: namespaces(), classes: classes(), ..World::default() };
    for i in 0..dice.between(1, 12) {
        let node = node(dice, i, tidy, crowded, theme);
        if dice.chance(if crowded { 90 } else { 60 }) {
            world.lendable.push(lendable(dice, name(&node)));
        }
        world.nodes.push(node);
    }
    for i in 0..dice.between(0, 40) {
        let mut pod = bound_pod(dice, i, theme);
        if let Some(machine) = machine_for(dice, &world, &pod, theme) {
            pod["spec"]["nodeName"] = machine.into();
            world.pods.push(pod);
        }
    }
    for i in 0..dice.between(1, 6) {
        let pod = pending_pod(dice, i, &world, theme);
        world.pods.push(pod);
    }
    for i in 0..dice.between(0, 3) {
        world.budgets.push(budget(dice, i));
    }
    world
}

/// Mostly a machine with room; sometimes any, as after its allocatable shrank.
fn machine_for(dice: &mut Dice, world: &World, pod: &Value, theme: Theme) -> Option<String> {
    for _ in 0..4 {
        let node = dice.pick(&world.nodes);
        if room::suffices(world, pod, node) || theme.chance(dice, Theme::Room, 4, 12) {
            return Some(name(node).to_owned());
        }
    }
    None
}

fn node(dice: &mut Dice, i: i64, tidy: bool, crowded: bool, theme: Theme) -> Value {
    let name = format!("m{i:02}");
    let mut labels = json!({HOST: name});
    if tidy || dice.chance(50) {
        labels[ZONE] = (*dice.pick(&["z0", "z1", "z2"])).into();
    }
    if tidy || dice.chance(50) {
        labels[RACK] = (*dice.pick(&["r0", "r1"])).into();
    }
    if dice.chance(75) {
        labels["disk"] = (*dice.pick(&["ssd", "hdd"])).into();
    }
    if dice.chance(60) {
        labels["size"] = (*dice.pick(&["1", "2", "3", "large"])).into();
    }
    if dice.chance(5) {
        labels.as_object_mut().map(|labels| labels.remove(HOST));
    }
    let cordoned = dice.chance(if theme == Theme::Room { 20 } else { 12 });
    let mut taints = Vec::new();
    if cordoned && dice.chance(60) {
        taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
    }
    for (key, percent) in [("dedicated", 25), ("flaky", 15)] {
        if dice.chance(percent) {
            let effect = *dice.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"]);
            taints.push(json!({"key": key, "value": dice.pick(&["web", "gpu", ""]), "effect": effect}));
        }
    }
    let cpu = if crowded { dice.between(3, 9) } else { dice.between(12, 40) } * 100;
    let memory = dice.between(8, 32) * 128;
    let roomy = if [Theme::Spread, Theme::Near].contains(&theme) { 4 } else { 1 };
    let mut allocatable = json!({
        "cpu": format!("{}m", cpu * roomy), "memory": format!("{}Mi", memory * roomy),
        "ephemeral-storage": "10Gi", "pods": dice.pick(if roomy > 1 { &["110"] } else { &["4", "8", "110", "110"] }),
    });
    if dice.chance(45) {
        allocatable[GPU] = dice.between(1, 2).to_string().into();
    }
    if dice.chance(40) {
        allocatable["hugepages-2Mi"] = format!("{}Mi", dice.between(2, 8) * 2).into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {"allocatable": allocatable, "capacity": allocatable,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn lendable(dice: &mut Dice, machine: &str) -> Value {
    let cpu = format!("{}m", dice.between(0, 18) * 100);
    let memory = format!("{}Mi", dice.between(0, 12) * 128);
    json!({
        "apiVersion": "gantry.dev/v1", "kind": "BatchCapacity", "metadata": {"name": machine},
        "spec": {"lendable": {"cpu": cpu, "memory": memory}},
    })
}

/// `a` and `b` belong together, `c` stands alone, and `d` has no labels at all.
fn namespaces() -> Vec<Value> {
    let namespace = |name: &str, labels: Value| {
        let metadata = json!({"name": name, "labels": labels});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    };
    let team = |team: &str| json!({"team": team});
    vec![
        namespace("a", team("red")),
        namespace("b", team("red")),
        namespace("c", team("blue")),
        namespace("d", json!({})),
    ]
}

fn classes() -> Vec<Value> {
    let class = |name: &str, value: i64, labels: Value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name, "labels": labels}, "value": value,
        })
    };
    let band = |band: &str| json!({"gantry.dev/band": band});
    vec![
        class("production", 1_000_000, band("production")),
        class("production-low", 900_000, band("production")),
        class("batch", -1000, band("batch")),
        class("best-effort", -10_000, band("best-effort")),
        class("important", 1000, json!({})),
        class("system-cluster-critical", 2_000_000_000, json!({})),
    ]
}

fn budget(dice: &mut Dice, i: i64) -> Value {
    let selector = match dice.between(0, 4) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": dice.pick(&["web", "db", "cache"])}}),
    };
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("budget-{i}"), "namespace": dice.pick(&["a", "b", "c"])},
        "spec": {"selector": selector}, "status": {"disruptionsAllowed": dice.between(0, 2)},
    })
}

/// A small pseudo-random sequence (splitmix64), so that a seed means the same cluster on every machine and version.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Both ends included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.roll() % (high - low + 1) as u64) as i64
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[(self.roll() % from.len() as u64) as usize]
    }
}
