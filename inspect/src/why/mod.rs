//! `gantry why`: what an object waits for, what keeps it from going, and why a write is refused.
//!
//! This part asks for what the explanations need; what they say is decided in the parts below, without asking.

mod holds;
mod pods;
mod refusal;
mod state;

use crate::access::{Access, query};
use crate::get::explain;
use crate::render::cell;
use crate::resources::{Resource, Resources};
use crate::{Misused, Scope};
use serde_json::Value;

pub use refusal::refused;

/// How far back it is looked for an object that is not there.
const BEFORE: &[&str] = &["-3s", "-10s", "-30s", "-1m", "-2m", "-4m30s"];
/// Pods of a workload that are explained one by one.
const PODS: usize = 3;
const EVENTS: usize = 3;

/// The text to print about one object.
pub async fn why(access: &Access, what: &str, name: &str, scope: &Scope) -> anyhow::Result<String> {
    let resources = access.resources().await?;
    let resource = resources.find(what)?;
    if scope.all_namespaces {
        return Err(Misused("an object is of one namespace: say which with -n, and leave out -A".into()).into());
    }
    let namespace = if resource.namespaced { access.namespace(scope) } else { String::new() };
    let path = resource.path(&namespace, name);
    let object = match access.get(&path).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return gone(access, &path, error).await,
        Err(error) => return Err(explain(error, "")),
    };
    let asked = Asked { access, resources: &resources, resource, namespace: &namespace, object: &object };
    let mut told = asked.told().await;
    told.extend(asked.events().await);
    let title = format!("{}/{}", resource.singular_name(), qualified(&object));
    if told.is_empty() {
        return Ok(format!("{title}: nothing holds it, and nothing is reported."));
    }
    Ok(std::iter::once(format!("{title}:"))
        .chain(told.into_iter().map(|line| format!("  {line}")))
        .collect::<Vec<_>>()
        .join("\n"))
}

fn qualified(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", cell(&metadata["name"])),
        None => cell(&metadata["name"]),
    }
}

async fn gone(access: &Access, path: &str, error: gantry_client::ApiError) -> anyhow::Result<String> {
    for ago in BEFORE {
        if let Some(object) = access.look(&format!("{path}{}", query(&[("at", ago)]))).await {
            let what = format!("it is not there any more; it was {} ago", ago.trim_start_matches('-'));
            let how =
                format!("`gantry get … --at {ago}` shows it, and `gantry diff … --since {ago}` what happened since");
            return Ok(format!("{}: {what}.\n  {how}", qualified(&object)));
        }
    }
    Err(explain(error, ""))
}

/// One question.
struct Asked<'a> {
    access: &'a Access,
    resources: &'a Resources,
    resource: &'a Resource,
    namespace: &'a str,
    object: &'a Value,
}

impl Asked<'_> {
    async fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let object = self.object;
        if holds::is_going(object) {
            told.extend(holds::why_it_stays(object));
            if holds::waits_for_dependents(object) {
                let own = &object["metadata"]["uid"];
                told.extend(holds::dependents(own, &self.neighbours().await));
            }
        }
        match (self.resource.group.as_str(), self.resource.kind.as_str()) {
            ("", "Namespace") if holds::is_going(object) => {
                told.extend(state::bad_conditions(
                    object,
                    &["NamespaceContentRemaining", "NamespaceFinalizersRemaining"],
                ));
                told.extend(holds::remains(&self.content(&cell(&object["metadata"]["name"])).await));
            }
            ("", "Pod") => told.extend(self.pod(object).await),
            ("", "PersistentVolumeClaim") => told.extend(self.claim().await),
            ("", "Service") => told.extend(self.service().await),
            ("apps" | "batch", _) | ("", "ReplicationController") => told.extend(self.workload().await),
            _ => told.extend(state::bad_conditions(object, &[])),
        }
        told
    }

    /// Everything in a namespace, with what it is.
    async fn content(&self, namespace: &str) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for kind in self.resources.listed(true) {
            let items = self.access.items(kind, namespace, "").await;
            all.extend(items.into_iter().map(|item| (kind.singular_name(), item)));
        }
        all
    }

    /// Where dependents may be: in the same namespace, or anywhere.
    async fn neighbours(&self) -> Vec<(String, Value)> {
        let mut all = self.content(self.namespace).await;
        if self.namespace.is_empty() {
            for kind in self.resources.listed(false) {
                let items = self.access.items(kind, "", "").await;
                all.extend(items.into_iter().map(|item| (kind.singular_name(), item)));
            }
        }
        all
    }

    async fn pod(&self, pod: &Value) -> Vec<String> {
        let node = match pod["spec"]["nodeName"].as_str() {
            Some(name) => self.access.look(&format!("/api/v1/nodes/{name}")).await,
            None => None,
        };
        pods::why(pod, node.as_ref())
    }

    async fn claim(&self) -> Vec<String> {
        let class = match self.object["spec"]["storageClassName"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => self.access.look(&format!("/apis/storage.k8s.io/v1/storageclasses/{name}")).await,
            None => None,
        };
        let pods = match self.resources.find("pods.v1") {
            Ok(pods) => self.access.items(pods, self.namespace, "").await,
            Err(_) => Vec::new(),
        };
        state::claim(self.object, class.as_ref(), &pods)
    }

    async fn service(&self) -> Vec<String> {
        let name = cell(&self.object["metadata"]["name"]);
        let (Ok(slices), Ok(pods)) =
            (self.resources.find("endpointslices.discovery.k8s.io"), self.resources.find("pods.v1"))
        else {
            return Vec::new();
        };
        let of_service = query(&[("labelSelector", &format!("kubernetes.io/service-name={name}"))]);
        let slices = self.access.items(slices, self.namespace, &of_service).await;
        let pods = match state::selector(&self.object["spec"]["selector"]) {
            Some(selector) => self.access.items(pods, self.namespace, &query(&[("labelSelector", &selector)])).await,
            None => Vec::new(),
        };
        state::service(self.object, &slices, &pods)
    }

    /// A workload says what it knows, and its pods the rest.
    async fn workload(&self) -> Vec<String> {
        let object = self.object;
        let mut told = state::bad_conditions(object, &["ReplicaFailure", "Failed", "FailureTarget", "Suspended"]);
        told.extend(state::behind(object));
        let selector = &object["spec"]["selector"];
        let labels = if selector["matchLabels"].is_object() { &selector["matchLabels"] } else { selector };
        let (Some(selector), Ok(pods)) = (state::selector(labels), self.resources.find("pods.v1")) else { return told };
        let pods = self.access.items(pods, self.namespace, &query(&[("labelSelector", &selector)])).await;
        let mut left = 0;
        let mut explained = 0;
        for pod in pods.iter().filter(|pod| !pods::is_well(pod)) {
            if explained == PODS {
                left += 1;
                continue;
            }
            explained += 1;
            told.push(format!("pod {}:", cell(&pod["metadata"]["name"])));
            told.extend(self.pod(pod).await.into_iter().map(|line| format!("  {line}")));
        }
        if left > 0 {
            told.push(format!("and {left} more pods that are not well"));
        }
        told
    }

    /// The newest warnings about the object.
    async fn events(&self) -> Vec<String> {
        let Ok(events) = self.resources.find("events.v1") else { return Vec::new() };
        let uid = cell(&self.object["metadata"]["uid"]);
        let of_object = query(&[("fieldSelector", &format!("involvedObject.uid={uid}"))]);
        state::warnings(&self.access.items(events, self.namespace, &of_object).await, EVENTS)
    }
}
