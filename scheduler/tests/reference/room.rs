//! Room on a machine and in its zone, by band.

use super::World;
use super::machine::cordoned;
use super::manifest::{Amounts, amount, amounts, label, name, plus, text};
use super::readings::{ZONE_FREE_COUNTS_LENT, ZONE_TOTAL_COUNTS_CORDONED};
use super::requests::of_pod;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    Production,
    /// No label on the class, or no class: plain Kubernetes.
    Ordinary,
    Batch,
    BestEffort,
}

impl Band {
    /// Counted against allocatable; the others live on what is lent, too.
    pub fn is_reserved(self) -> bool {
        matches!(self, Band::Production | Band::Ordinary)
    }
}

/// The PriorityClass's label names the band, never its number.
pub fn band(world: &World, pod: &Value) -> Band {
    let class = class(world, pod).and_then(|class| label(class, "gantry.dev/band"));
    match class {
        Some("production") => Band::Production,
        Some("batch") => Band::Batch,
        Some("best-effort") => Band::BestEffort,
        _ => Band::Ordinary,
    }
}

pub fn class<'a>(world: &'a World, pod: &Value) -> Option<&'a Value> {
    let wanted = text(&pod["spec"]["priorityClassName"]);
    world.classes.iter().find(|class| name(class) == wanted)
}

pub fn suffices(world: &World, pod: &Value, node: &Value) -> bool {
    lacking(world, pod, node).is_empty()
}

/// The resources of which a machine has too little. What a pod does not request cannot be short, except its own place
/// among the machine's `pods`.
pub fn lacking(world: &World, pod: &Value, node: &Value) -> Vec<String> {
    let allocatable = amounts(&node["status"]["allocatable"]);
    let all = taken(world, node, |_| true);
    let reserved = taken(world, node, Band::is_reserved);
    let mut short = Vec::new();
    if world.bound_to(node).len() as i128 + 1 > amount(&allocatable, "pods") {
        short.push("pods".to_owned());
    }
    for (resource, request) in of_pod(pod).into_iter().filter(|(_, request)| *request > 0) {
        let owned = amount(&allocatable, &resource);
        let reserved_is_over = amount(&reserved, &resource) + request > owned;
        let all_is_over = amount(&all, &resource) + request > owned + lent(world, node, &resource);
        if all_is_over || (band(world, pod).is_reserved() && reserved_is_over) {
            short.push(resource);
        }
    }
    short
}

/// What a machine's batch may take beyond what it owns: cpu and memory only.
pub fn lent(world: &World, node: &Value, resource: &str) -> i128 {
    let object = world.lendable.iter().find(|object| name(object) == name(node));
    match object {
        Some(object) if ["cpu", "memory"].contains(&resource) => {
            amount(&amounts(&object["spec"]["lendable"]), resource)
        }
        _ => 0,
    }
}

/// What the machine's pods of some bands take together.
pub fn taken(world: &World, node: &Value, counts: impl Fn(Band) -> bool) -> Amounts {
    let pods = world.bound_to(node).into_iter().filter(|pod| counts(band(world, pod)));
    pods.fold(Amounts::new(), |sum, pod| plus(&sum, &of_pod(pod)))
}

/// Batch and best-effort leave 1 % of the zone's cpu and memory free for production. Machines without the zone's label
/// are a zone of their own.
pub fn zone_keeps_its_reserve(world: &World, pod: &Value, node: &Value) -> bool {
    if band(world, pod).is_reserved() {
        return true;
    }
    let request = of_pod(pod);
    ["cpu", "memory"].iter().filter(|resource| amount(&request, resource) > 0).all(|resource| {
        let (free, total) = free_in_zone(world, node, resource);
        free - amount(&request, resource) >= total / 100
    })
}

/// What a machine's zone has free of a resource, and what it has in all.
pub fn free_in_zone(world: &World, node: &Value, resource: &str) -> (i128, i128) {
    let zone = |node| label(node, "topology.kubernetes.io/zone");
    let (mut free, mut total) = (0, 0);
    for machine in world.nodes.iter().filter(|machine| zone(machine) == zone(node)) {
        let allocatable = amount(&amounts(&machine["status"]["allocatable"]), resource);
        if !cordoned(machine) {
            let lent = if ZONE_FREE_COUNTS_LENT { lent(world, machine, resource) } else { 0 };
            free += (allocatable + lent - amount(&taken(world, machine, |_| true), resource)).max(0);
        }
        if !cordoned(machine) || ZONE_TOTAL_COUNTS_CORDONED {
            total += allocatable;
        }
    }
    (free, total)
}
