//! How much a pod takes of a machine.

use super::manifest::{Amounts, amounts, larger, list, node_of, plus};
use serde_json::Value;

/// The larger of what all containers take together and what the hungriest init container takes beside the sidecars that
/// were started before it; what the pod as a whole requests stands in for that (cpu, memory and huge pages); the
/// runtime's overhead comes on top.
pub fn of_pod(pod: &Value) -> Amounts {
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for init in list(&pod["spec"]["initContainers"]) {
        if init["restartPolicy"] == "Always" {
            sidecars = plus(&sidecars, &of_container(pod, init, "initContainerStatuses"));
        } else {
            peak = larger(&peak, &plus(&sidecars, &amounts(&init["resources"]["requests"])));
        }
    }
    let mut running = sidecars;
    for container in list(&pod["spec"]["containers"]) {
        running = plus(&running, &of_container(pod, container, "containerStatuses"));
    }
    let mut total = larger(&peak, &running);
    for (resource, amount) in amounts(&pod["spec"]["resources"]["requests"]) {
        if resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-") {
            total.insert(resource, amount);
        }
    }
    plus(&total, &amounts(&pod["spec"]["overhead"]))
}

/// While a bound pod is being resized in place it holds the largest of what it wants, what it was given and what it runs
/// with. A wish that the machine can never grant does not count.
fn of_container(pod: &Value, container: &Value, statuses: &str) -> Amounts {
    let wanted = amounts(&container["resources"]["requests"]);
    let status = list(&pod["status"][statuses]).iter().find(|status| status["name"] == container["name"]);
    let Some(status) = status.filter(|_| !node_of(pod).is_empty()) else { return wanted };
    let held = larger(&amounts(&status["allocatedResources"]), &amounts(&status["resources"]["requests"]));
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    let infeasible = conditions.any(|it| it["type"] == "PodResizePending" && it["reason"] == "Infeasible");
    if infeasible && !held.is_empty() { held } else { larger(&wanted, &held) }
}
