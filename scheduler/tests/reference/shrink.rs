//! Makes a cluster that shows a difference smaller, as long as it still shows it.

use super::World;
use super::manifest::{name, node_of};
use serde_json::Value;

/// Parts of a pod or machine that may be left out one at a time.
const OPTIONAL: &[&str] = &[
    "/spec/affinity/nodeAffinity",
    "/spec/affinity/podAffinity",
    "/spec/affinity/podAntiAffinity",
    "/spec/affinity",
    "/spec/topologySpreadConstraints",
    "/spec/tolerations",
    "/spec/nodeSelector",
    "/spec/initContainers",
    "/spec/overhead",
    "/spec/resources",
    "/spec/taints",
    "/spec/priorityClassName",
    "/status/containerStatuses",
    "/status/initContainerStatuses",
    "/metadata/deletionTimestamp",
    "/metadata/labels",
];

/// The smallest cluster on the way down for which `fails` still holds. `fails(world)` must hold at the start.
pub fn shrink(world: &World, fails: impl Fn(&World) -> bool) -> World {
    let mut smallest = world.clone();
    loop {
        let next = smaller(&smallest).find(|candidate| fails(candidate));
        match next {
            Some(next) => smallest = next,
            None => return smallest,
        }
    }
}

type Part = fn(&mut World) -> &mut Vec<Value>;

const PARTS: &[Part] = &[|w| &mut w.pods, |w| &mut w.nodes, |w| &mut w.lendable, |w| &mut w.budgets];

/// Every cluster that is one step smaller: an object less, or one of its parts less.
fn smaller(world: &World) -> impl Iterator<Item = World> {
    let objects = |part: &Part| part(&mut world.clone()).len();
    let whole = PARTS.iter().flat_map(move |part| {
        (0..objects(part)).map(move |i| {
            let mut less = world.clone();
            part(&mut less).remove(i);
            // Who was bound to a machine goes with it.
            let names: Vec<String> = less.nodes.iter().map(|node| name(node).to_owned()).collect();
            less.pods.retain(|pod| node_of(pod).is_empty() || names.iter().any(|name| name == node_of(pod)));
            less
        })
    });
    let parts = PARTS[..2].iter().flat_map(move |part| {
        let steps = (0..objects(part)).flat_map(|i| OPTIONAL.iter().map(move |path| (i, *path)));
        steps.filter_map(move |(i, path)| {
            let mut less = world.clone();
            remove(&mut part(&mut less)[i], path).then_some(less)
        })
    });
    whole.chain(parts)
}

/// Whether there was something to take away.
fn remove(object: &mut Value, path: &str) -> bool {
    let Some((parent, field)) = path.rsplit_once('/') else { return false };
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.is_some_and(|parent| parent.remove(field).is_some_and(|removed| !removed.is_null()))
}
