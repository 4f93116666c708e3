//! Decides what a write to one part of a running pod may change: its ephemeral containers, or its resources.

use super::{quality, unheeded, validate};
use crate::kinds::value::{at, child, items, items_mut, object_mut, remove, str_at};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

/// On pods that an agent runs without being asked by the API.
const MIRROR: &str = "kubernetes.io/config.mirror";
const LISTS: [&str; 2] = ["containers", "initContainers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Of the new pod, its ephemeral containers.
pub fn only_ephemeral_containers(new: &mut Value, old: &Value) {
    let given = remove(&mut new["spec"], "ephemeralContainers");
    put_back(new, old);
    match given {
        Some(containers) => new["spec"]["ephemeralContainers"] = containers,
        None => drop(remove(&mut new["spec"], "ephemeralContainers")),
    }
}

/// Of the new pod, what its containers ask for and how they are resized.
pub fn only_resources(new: &mut Value, old: &Value) {
    let given = new["spec"].clone();
    put_back(new, old);
    for list in LISTS {
        for container in items_mut(&mut new["spec"], list) {
            let wish = items(&given, list).iter().find(|wish| wish["name"] == container["name"]);
            let Some(wish) = wish else { continue };
            for field in ["resources", "resizePolicy"] {
                match wish.get(field) {
                    Some(value) => container[field] = value.clone(),
                    None => drop(remove(container, field)),
                }
            }
        }
    }
}

fn put_back(new: &mut Value, old: &Value) {
    let managed = remove(&mut new["metadata"], "managedFields");
    *new = old.clone();
    if let Some(managed) = managed {
        child(new, "metadata")["managedFields"] = managed;
    }
}

/// They are added, and never changed.
pub fn ephemeral_containers(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if is_static(old) {
        errors.forbidden("", "static pods do not support ephemeral containers");
        return;
    }
    validate::spec(&new["spec"], "spec", errors);
    unheeded::refuse_ephemeral(&new["spec"], errors);
    let targets = |name: &str| LISTS.iter().any(|list| items(&new["spec"], list).iter().any(|one| one["name"] == name));
    for (position, container) in items(&new["spec"], "ephemeralContainers").iter().enumerate() {
        let target = str_at(container, "targetContainerName");
        if !target.is_empty() && !targets(target) {
            errors.not_found(format!("spec.ephemeralContainers[{position}].targetContainerName"), target);
        }
    }
    for before in items(old, "spec.ephemeralContainers") {
        let now = items(new, "spec.ephemeralContainers").iter().find(|now| now["name"] == before["name"]);
        let why = match now {
            None => format!("existing ephemeral containers {:?} may not be removed", str_at(before, "name")),
            Some(now) if now != before => {
                format!("existing ephemeral containers {:?} may not be changed", str_at(before, "name"))
            }
            Some(_) => continue,
        };
        errors.forbidden("spec.ephemeralContainers", why);
    }
}

/// A running pod asks for more or less processor or memory, in the same class of service.
pub fn resize(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if is_static(old) {
        errors.forbidden("", "static pods cannot be resized");
        return;
    }
    if str_at(old, "spec.os.name") == "windows" {
        errors.forbidden("", "windows pods cannot be resized");
        return;
    }
    if !can_resize(old) {
        errors.forbidden("spec", "Pod running on node without support for resize");
        return;
    }
    validate::spec(&new["spec"], "spec", errors);
    let class = quality::of(&new["spec"]);
    if class != quality::of(&old["spec"]) {
        errors.invalid("spec", class, "Pod QOS Class may not change as a result of resizing");
    }
    for list in LISTS {
        for (position, now) in items(&new["spec"], list).iter().enumerate() {
            let before = &old["spec"][list][position];
            let path = format!("spec.{list}[{position}].resources");
            container(list, now, before, &path, errors);
        }
    }
}

fn container(list: &str, now: &Value, before: &Value, path: &str, errors: &mut FieldErrors) {
    let is_sidecar = now["restartPolicy"] == "Always";
    if list == "initContainers" && !is_sidecar && now["resources"] != before["resources"] {
        errors.forbidden(path, "resources for non-sidecar init containers are immutable");
        return;
    }
    for (kind, singular) in [("limits", "limits"), ("requests", "requests")] {
        let given = |container: &Value, name: &str| at(&container["resources"][kind], name).is_some();
        let lost = RESIZABLE.iter().any(|name| given(before, name) && !given(now, name));
        if lost {
            errors.forbidden(format!("{path}.{kind}"), format!("resource {singular} cannot be removed"));
        }
    }
    if fixed(&now["resources"]) != fixed(&before["resources"]) {
        errors.forbidden("spec", "only cpu and memory resources are mutable");
    }
}

/// What of a container's resources stays.
fn fixed(resources: &Value) -> Value {
    let mut resources = resources.clone();
    let all = object_mut(&mut resources);
    for kind in ["limits", "requests"] {
        if let Some(amounts) = all.get_mut(kind).and_then(Value::as_object_mut) {
            RESIZABLE.iter().for_each(|name| drop(amounts.remove(*name)));
        }
    }
    all.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    resources
}

/// Whether a container of a pod that runs asks for something else than before.
pub fn is_resized(new: &Value, old: &Value) -> bool {
    let wishes = |pod: &Value| -> Vec<Value> {
        let all = LISTS.iter().flat_map(|list| items(&pod["spec"], list));
        all.map(|container| container["resources"].clone()).collect()
    };
    !str_at(old, "spec.nodeName").is_empty() && wishes(new) != wishes(old)
}

/// An agent that resizes reports what its containers have.
fn can_resize(pod: &Value) -> bool {
    let reports = |status: &Value| at(status, "resources").is_some();
    str_at(pod, "status.phase") != "Running" || items(pod, "status.containerStatuses").iter().all(reports)
}

fn is_static(pod: &Value) -> bool {
    at(pod, "metadata.annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::{Pod, Strategy};
    use super::*;
    use crate::kinds::testing::{created, errors_of, updated};
    use serde_json::json;

    fn pod(change: impl FnOnce(&mut Value)) -> Value {
        let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
        let mut object = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
            "containers": [{"name": "c", "image": "i:1", "resources": resources}]}});
        change(&mut object["spec"]);
        created(&Pod, &object)
    }

    fn outcome(subresource: &str, change: impl FnOnce(&mut Value)) -> (Value, String) {
        let old = pod(|_| {});
        let mut new = old.clone();
        change(&mut new);
        let new = updated(&Pod, &new, &old, Some(subresource));
        let text = errors_of(&Pod, &new, Some(&old), Some(subresource));
        (new, text)
    }

    #[test]
    fn a_debugger_is_added_and_nothing_else() {
        let (new, text) = outcome("ephemeralcontainers", |pod| {
            pod["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "busybox", "targetContainerName": "c"}]);
            pod["spec"]["containers"][0]["image"] = json!("other");
            pod["metadata"]["labels"] = json!({"a": "b"});
        });
        assert_eq!(text, "[]");
        assert_eq!(new["spec"]["ephemeralContainers"][0]["imagePullPolicy"], "Always");
        assert_eq!((&new["spec"]["containers"][0]["image"], new["metadata"].get("labels")), (&json!("i:1"), None));
    }

    #[test]
    fn a_wrong_debugger_is_named() {
        let check = |container: Value, expect: &str| {
            let (_, text) = outcome("ephemeralcontainers", |pod| pod["spec"]["ephemeralContainers"] = json!([container]));
            assert_eq!(text, expect);
        };
        check(
            json!({"name": "d", "image": "i", "targetContainerName": "x"}),
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
        );
        check(
            json!({"name": "d", "image": "i", "resources": {"limits": {"cpu": "1"}}}),
            "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
        );
        let debugged = pod(|spec| spec["containers"][0]["name"] = json!("c"));
        let mut old = debugged.clone();
        old["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "i"}]);
        let text = errors_of(&Pod, &debugged, Some(&old), Some("ephemeralcontainers"));
        let expect = "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed";
        assert_eq!(text, expect);
    }

    #[test]
    fn a_pod_is_resized_within_its_class() {
        let check = |resources: Value, expect: &str| {
            let (new, text) = outcome("resize", |pod| {
                pod["spec"]["containers"][0]["resources"] = resources.clone();
                pod["spec"]["containers"][0]["image"] = json!("other");
            });
            assert_eq!(text, expect);
            assert_eq!(new["spec"]["containers"][0]["image"], "i:1", "nothing else changes");
        };
        check(json!({"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}), "[]");
        check(
            json!({"requests": {"cpu": "150m"}}),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        );
        check(
            json!({"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "200m"}}),
            "spec: Forbidden: only cpu and memory resources are mutable",
        );
        let same = json!({"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "200m", "memory": "1Gi"}});
        check(same, "spec: Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing");
    }

    #[test]
    fn a_resize_that_no_agent_acts_upon_is_said() {
        let old = pod(|_| {});
        let mut new = old.clone();
        assert!(Pod.warnings(&new, Some(&old)).is_empty());
        new["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("1");
        assert_eq!(Pod.warnings(&new, Some(&old)), ["spec.containers[*].resources: stored, but not acted upon yet"]);
    }

    #[test]
    fn a_pod_that_runs_is_resized_by_an_agent_that_can() {
        let check = |status: Value, expect: &str| {
            let mut old = pod(|_| {});
            old["status"] = json!({"phase": "Running", "containerStatuses": [status]});
            assert_eq!(errors_of(&Pod, &old, Some(&old), Some("resize")), expect);
        };
        check(json!({"name": "c"}), "spec: Forbidden: Pod running on node without support for resize");
        check(json!({"name": "c", "resources": {"requests": {"cpu": "100m"}}}), "[]");
    }

    #[test]
    fn static_pods_stay() {
        let mut old = pod(|_| {});
        old["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        let check = |subresource: &str, expect: &str| {
            assert_eq!(errors_of(&Pod, &old, Some(&old), Some(subresource)), expect);
        };
        check("resize", "Forbidden: static pods cannot be resized");
        check("ephemeralcontainers", "Forbidden: static pods do not support ephemeral containers");
    }
}
