//! Decides a pod's quality-of-service class from its containers' requests and limits, as Kubernetes defines it.

use crate::kinds::value::items;
use gantry_apimachinery::quantity::Quantity;
use serde_json::Value;

/// `Guaranteed`: every container limits cpu and memory and requests as much. `BestEffort`: nobody asks for anything.
/// `Burstable`: the rest.
pub fn of(spec: &Value) -> &'static str {
    if spec["resources"].as_object().is_some_and(|own| !own.is_empty()) {
        return class(std::iter::once(&spec["resources"]));
    }
    let containers = items(spec, "containers").iter().chain(items(spec, "initContainers"));
    class(containers.map(|container| &container["resources"]))
}

fn class<'a>(all: impl Iterator<Item = &'a Value>) -> &'static str {
    let (mut asked, mut guaranteed) = (false, true);
    for resources in all {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(resources, "requests", name), amount(resources, "limits", name));
            asked |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (asked, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn amount(resources: &Value, list: &str, name: &str) -> Option<Quantity> {
    let quantity: Quantity = resources[list][name].as_str()?.parse().ok()?;
    (!quantity.is_zero()).then_some(quantity)
}
