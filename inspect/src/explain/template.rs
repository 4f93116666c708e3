//! Which pods a manifest would make, and how many. Pure.

use crate::Misused;
use serde_json::{Map, Value, json};

/// Taints that the DaemonSet controller has its pods tolerate.
// controllers/src/daemonset/placement.rs has the same; this crate links no controller.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And this one as well, of pods that share their machine's network.
const TOLERATED_OF_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// `Deployment web`.
    pub title: String,
    pub namespace: Option<String>,
    pub template: Value,
    pub replicas: u64,
    /// One pod on each machine that it chooses.
    pub is_daemon: bool,
}

/// The first document that makes pods.
pub fn find(documents: &[Value]) -> Result<Found, Misused> {
    let mut others = Vec::new();
    for document in documents.iter().filter(|document| !document.is_null()) {
        let items =
            document["items"].as_array().filter(|_| document["kind"].as_str().is_some_and(|k| k.ends_with("List")));
        for object in items.map_or_else(|| vec![document], |items| items.iter().collect()) {
            if let Some(found) = of(object) {
                return Ok(found);
            }
            others.push(title(object));
        }
    }
    Err(Misused(match others.as_slice() {
        [] => "the manifest is empty: a pod is needed, or something with a template of pods".to_owned(),
        [one] => format!("{one} makes no pods: a pod is needed, or something with a template of pods"),
        many => {
            format!("none of {} makes pods: a pod is needed, or something with a template of pods", many.join(", "))
        }
    }))
}

fn title(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().or(object["metadata"]["generateName"].as_str());
    let kind = object["kind"].as_str().unwrap_or("a document without a kind");
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"))
}

fn of(object: &Value) -> Option<Found> {
    let spec = &object["spec"];
    let number = |value: &Value| value.as_u64();
    let (template, replicas) = match object["kind"].as_str()? {
        "Pod" => (object, 1),
        "PodTemplate" => (&object["template"], 1),
        "CronJob" => {
            let job = &spec["jobTemplate"]["spec"];
            (&job["template"], at_once(job))
        }
        "Job" => (&spec["template"], at_once(spec)),
        _ => (&spec["template"], number(&spec["replicas"]).unwrap_or(1)),
    };
    if !template["spec"]["containers"].is_array() {
        return None;
    }
    let is_daemon = object["kind"] == "DaemonSet";
    let mut pod = template["spec"].clone();
    let own = pod.as_object_mut()?;
    // A pod that names its machine is asked about as if it did not.
    own.remove("nodeName");
    stand_in(own, &spec["volumeClaimTemplates"]);
    if is_daemon {
        tolerate(own);
    }
    let mut metadata = Map::new();
    for key in ["labels", "annotations"] {
        metadata.extend(template["metadata"].get(key).map(|value| (key.to_owned(), value.clone())));
    }
    Some(Found {
        title: title(object),
        namespace: object["metadata"]["namespace"].as_str().map(str::to_owned),
        template: json!({"metadata": metadata, "spec": pod}),
        replicas: replicas.max(1),
        is_daemon,
    })
}

/// How many pods of a Job there are at the same time.
fn at_once(job: &Value) -> u64 {
    let parallel = job["parallelism"].as_u64().unwrap_or(1);
    job["completions"].as_u64().map_or(parallel, |all| parallel.min(all))
}

/// A StatefulSet's pods mount a claim of each template, in place of a volume of that name. The claims are not made yet, and the
/// scheduler would find them missing: something that any machine has stands in for them, so that the mounts still name a volume.
fn stand_in(pod: &mut Map<String, Value>, claims: &Value) {
    for claim in claims.as_array().into_iter().flatten() {
        let name = &claim["metadata"]["name"];
        let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|volume| volume["name"] != *name);
            volumes.push(json!({"name": name, "emptyDir": {}}));
        }
    }
}

fn tolerate(pod: &mut Map<String, Value>) {
    let of_host = (pod.get("hostNetwork") == Some(&json!(true))).then_some(TOLERATED_OF_HOST);
    let tolerations = pod.entry("tolerations").or_insert_with(|| json!([]));
    if let Some(tolerations) = tolerations.as_array_mut() {
        let all = TOLERATED.iter().copied().chain(of_host);
        tolerations.extend(all.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::cell;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "a"}, "name": "left-out"}, "spec": {"containers": [{"name": "c"}], "nodeName": "m"}})
    }

    fn object(kind: &str, spec: Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "x", "namespace": "n"}, "spec": spec})
    }

    #[test]
    fn everything_that_makes_pods_is_understood() {
        let check = |object: Value, title: &str, replicas: u64| {
            let found = find(&[Value::Null, object]).unwrap();
            assert_eq!((found.title.as_str(), found.replicas), (title, replicas));
            assert_eq!(found.template["metadata"], json!({"labels": {"app": "a"}}), "{title}");
            assert_eq!(found.template["spec"]["containers"], json!([{"name": "c"}]), "{title}");
            assert_eq!(found.template["spec"].get("nodeName"), None, "{title}");
        };
        let mut pod = template();
        pod["kind"] = "Pod".into();
        check(pod, "Pod left-out", 1);
        check(object("Deployment", json!({"replicas": 3, "template": template()})), "Deployment x", 3);
        check(object("ReplicaSet", json!({"replicas": 0, "template": template()})), "ReplicaSet x", 1);
        check(object("Rollout", json!({"template": template()})), "Rollout x", 1);
        check(object("Job", json!({"parallelism": 5, "completions": 2, "template": template()})), "Job x", 2);
        let cron = json!({"jobTemplate": {"spec": {"parallelism": 4, "template": template()}}});
        check(object("CronJob", cron), "CronJob x", 4);
        let list = json!({"kind": "List", "items": [object("Service", json!({})), object("Deployment", json!({"template": template()}))]});
        check(list, "Deployment x", 1);
    }

    #[test]
    fn what_controllers_add_is_added() {
        let claims = json!([{"metadata": {"name": "data"}}]);
        let mut mounting = template();
        mounting["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "kept", "configMap": {"name": "c"}}]);
        let set = object("StatefulSet", json!({"template": mounting, "volumeClaimTemplates": claims}));
        let found = find(&[set]).unwrap();
        let expect = json!([{"name": "kept", "configMap": {"name": "c"}}, {"name": "data", "emptyDir": {}}]);
        assert_eq!((&found.template["spec"]["volumes"], found.is_daemon), (&expect, false));

        let tolerated = |host_network: bool| {
            let mut template = template();
            template["spec"]["hostNetwork"] = host_network.into();
            let found = find(&[object("DaemonSet", json!({"template": template}))]).unwrap();
            assert!(found.is_daemon && found.namespace.as_deref() == Some("n"));
            let all = found.template["spec"]["tolerations"].as_array().unwrap().clone();
            all.iter().map(|one| cell(&one["key"])).collect::<Vec<_>>()
        };
        assert_eq!(tolerated(false).len(), 6);
        assert_eq!(tolerated(true).len(), 7);
        assert_eq!(tolerated(true)[6], "node.kubernetes.io/network-unavailable");
    }

    #[test]
    fn a_manifest_without_pods_is_told_by_what_is_in_it() {
        let check = |documents: &[Value], expect: &str| {
            let told = find(documents).unwrap_err().0;
            assert!(told.starts_with(expect), "{told}");
        };
        check(&[], "the manifest is empty");
        check(&[object("Service", json!({}))], "Service x makes no pods");
        let two = [object("Service", json!({})), json!({"metadata": {}})];
        check(&two, "none of Service x, a document without a kind makes pods");
    }
}
