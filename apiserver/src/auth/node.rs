//! What a node agent may do: its own machine, the pods on it, and what those pods refer to. Decides by the pods that the cache
//! has on that machine; an agent that learns of a pod earlier tries again.

use super::authz::{Attributes, READ};
use crate::cache::Object;
use crate::core::Core;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::kinds::{POD, SERVICE_ACCOUNT};
use serde_json::Value;

/// An agent sees and writes its own machine and the pods on it, and reads what those pods use.
pub fn allows(core: &Core, name: &str, what: &Attributes<'_>) -> bool {
    const READABLE: [&str; 8] = [
        "services",
        "endpointslices",
        "endpoints",
        "namespaces",
        "serviceaccounts",
        "priorityclasses",
        "runtimeclasses",
        "nodes",
    ];
    match (what.group, what.resource, what.subresource, what.verb) {
        ("", "nodes", "", "create") => what.name.is_empty() || what.name == name,
        ("", "nodes", "" | "status", "patch" | "update" | "get") => what.name == name,
        ("", "pods", "", "list" | "watch") => what.node_selector == Some(name),
        ("", "pods", "", "create") => true,
        ("", "pods", "" | "status", "get" | "patch" | "update" | "delete") => {
            let pod = core.cached(&POD, what.namespace, what.name);
            // A pod that is gone answers 404, not 403: the agent must learn that it is gone.
            pod.is_none_or(|pod| pod_node(core, &pod) == Some(name))
        }
        ("", "configmaps" | "secrets", "", verb) => {
            READ.contains(&verb) && !what.name.is_empty() && uses(core, name, what)
        }
        ("", "serviceaccounts", "token", "create") => {
            any_pod(core, name, what.namespace, |pod| str_at(pod, "spec.serviceAccountName") == what.name)
        }
        ("authentication.k8s.io", "tokenreviews", "", "create") => true,
        ("authorization.k8s.io", "subjectaccessreviews", "", "create") => true,
        ("certificates.k8s.io", "certificatesigningrequests", "", verb) => verb == "create" || READ.contains(&verb),
        ("coordination.k8s.io", "leases", "", "create") => what.namespace == "kube-node-lease",
        ("coordination.k8s.io", "leases", "", _) => what.namespace == "kube-node-lease" && what.name == name,
        ("gantry.dev", _, "", verb) => READ.contains(&verb),
        (_, "events", "", "create" | "patch" | "update") => true,
        (_, resource, "", verb) => READ.contains(&verb) && READABLE.contains(&resource),
        _ => false,
    }
}

/// Kubernetes' reason when an agent asks for what no pod of its machine is about.
pub fn unrelated(name: &str, what: &Attributes<'_>) -> Option<String> {
    const RELATED: [&str; 4] = ["secrets", "configmaps", "pods", "serviceaccounts"];
    let related = what.group.is_empty() && RELATED.contains(&what.resource) && !what.name.is_empty();
    related.then(|| format!("no relationship found between node {name:?} and this object"))
}

/// The machine that a cached pod is bound to, read from its selectable field.
fn pod_node<'a>(core: &Core, pod: &'a Object) -> Option<&'a str> {
    let at = core.stored_kind(&POD).resource.selectable.iter().position(|field| field.path == "spec.nodeName")?;
    pod.fields.get(at).map(|node| &**node)
}

/// Whether a pod of the namespace on the machine is such a one.
fn any_pod(core: &Core, node: &str, namespace: &str, such: impl Fn(&Value) -> bool) -> bool {
    let pods = core.stored_kind(&POD).resource.on_node(node);
    let here = pods.tree.values().filter(|pod| &*pod.namespace == namespace);
    here.filter_map(|pod| pod.value().ok()).any(|pod| such(&pod))
}

/// Whether a pod on the machine refers to the ConfigMap or Secret, itself or through its account.
fn uses(core: &Core, node: &str, what: &Attributes<'_>) -> bool {
    any_pod(core, node, what.namespace, |pod| {
        if what.resource == "configmaps" {
            return refers(pod, &CONFIG_MAP, what.name);
        }
        let account = core.cached(&SERVICE_ACCOUNT, what.namespace, str_at(pod, "spec.serviceAccountName"));
        let account = account.and_then(|account| account.value().ok()).unwrap_or_default();
        refers(pod, &SECRET, what.name) || pulls_with(&pod["spec"], what.name) || pulls_with(&account, what.name)
    })
}

/// Where a pod names an object of one kind.
struct Places {
    volume: &'static str,
    projected: &'static str,
    env_from: &'static str,
    env: &'static str,
}

const CONFIG_MAP: Places = Places {
    volume: "configMap.name",
    projected: "configMap.name",
    env_from: "configMapRef.name",
    env: "valueFrom.configMapKeyRef.name",
};
const SECRET: Places = Places {
    volume: "secret.secretName",
    projected: "secret.name",
    env_from: "secretRef.name",
    env: "valueFrom.secretKeyRef.name",
};

fn refers(pod: &Value, places: &Places, name: &str) -> bool {
    let any = |list: &[Value], path: &str| list.iter().any(|item| str_at(item, path) == name);
    let spec = &pod["spec"];
    let mounted = items(spec, "volumes").iter().any(|volume| {
        str_at(volume, places.volume) == name || any(items(volume, "projected.sources"), places.projected)
    });
    let containers = ["containers", "initContainers", "ephemeralContainers"].map(|list| items(spec, list));
    mounted
        || containers.into_iter().flatten().any(|container| {
            any(items(container, "envFrom"), places.env_from) || any(items(container, "env"), places.env)
        })
}

/// Whether a pod's spec or an account pulls images with the secret.
fn pulls_with(owner: &Value, secret: &str) -> bool {
    items(owner, "imagePullSecrets").iter().any(|item| str_at(item, "name") == secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_place_that_names_an_object_counts() {
        let check = |spec: Value, map: bool, secret: bool| {
            let pod = json!({ "spec": spec });
            let found = (refers(&pod, &CONFIG_MAP, "x"), refers(&pod, &SECRET, "x") || pulls_with(&pod["spec"], "x"));
            assert_eq!(found, (map, secret), "{pod}");
        };
        let env = |reference: &str| json!([{"name": "V", "valueFrom": {reference: {"name": "x", "key": "k"}}}]);
        check(json!({"containers": [{"name": "x"}], "volumes": [{"name": "x", "emptyDir": {}}]}), false, false);
        check(json!({"volumes": [{"configMap": {"name": "x"}}]}), true, false);
        check(json!({"volumes": [{"secret": {"secretName": "x"}}]}), false, true);
        check(json!({"volumes": [{"projected": {"sources": [{}, {"secret": {"name": "x"}}]}}]}), false, true);
        check(json!({"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}]}}]}), true, false);
        check(json!({"initContainers": [{"env": env("secretKeyRef")}]}), false, true);
        check(json!({"containers": [{"env": env("configMapKeyRef")}]}), true, false);
        check(json!({"containers": [{}, {"envFrom": [{"configMapRef": {"name": "x"}}]}]}), true, false);
        check(json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}), false, true);
        check(json!({"imagePullSecrets": [{"name": "x"}]}), false, true);
    }
}
