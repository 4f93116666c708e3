//! Pods by the hundred: made, deleted and resized through the API server that stays. It decides what a pod looks like; each write is
//! tried again until it is answered, so that a fault costs none.

use crate::arena::{Arena, PATIENCE};
use anyhow::{Context, ensure};
use futures::{TryStreamExt, stream};
use gantry_conformance::{Kubectl, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

/// Requests under way.
const AT_ONCE: usize = 24;
const TRIES: usize = 200;

pub struct Crowd<'a> {
    pub arena: &'a Arena,
    pub kubectl: &'a Kubectl,
    pub namespace: &'a str,
}

/// A pod that runs until it is deleted.
pub fn pod(name: &str, cpu_m: usize) -> Value {
    let resources = json!({"requests": {"cpu": format!("{cpu_m}m"), "memory": "64Mi"}});
    let container = json!({"name": "c", "image": "registry.example.com/c:1", "resources": resources});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"name": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}})
}

/// The pod with one more field of its spec.
pub fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

pub fn labelled(mut pod: Value, key: &str, value: &str) -> Value {
    pod["metadata"]["labels"][key] = value.into();
    pod
}

impl Crowd<'_> {
    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    pub fn create(&self, pods: impl IntoIterator<Item = Value>) -> anyhow::Result<()> {
        let path = self.pods();
        let requests = pods.into_iter().map(|pod| ("POST", path.clone(), pod));
        self.send(requests)
    }

    /// With their own grace, as a person deletes.
    pub fn delete<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> anyhow::Result<()> {
        let path = self.pods();
        self.send(names.into_iter().map(|name| ("DELETE", format!("{path}/{name}"), Value::Null)))
    }

    /// What they request from now on.
    pub fn resize<'n>(&self, sizes: impl IntoIterator<Item = (&'n str, usize)>) -> anyhow::Result<()> {
        let path = self.pods();
        self.send(sizes.into_iter().map(|(name, cpu_m)| {
            let container = json!({"name": "c", "resources": {"requests": {"cpu": format!("{cpu_m}m")}}});
            ("PATCH", format!("{path}/{name}/resize"), json!({"spec": {"containers": [container]}}))
        }))
    }

    fn send(&self, requests: impl IntoIterator<Item = (&'static str, String, Value)>) -> anyhow::Result<()> {
        let all = stream::iter(requests.into_iter().map(Ok));
        let sent = all.try_for_each_concurrent(AT_ONCE, |(method, path, body)| async move {
            send(&self.arena.client, method, &path, &body).await.with_context(|| format!("{method} {path}"))
        });
        self.arena.runtime.block_on(sent)
    }

    /// One pod as the API tells it now.
    pub fn get(&self, name: &str) -> anyhow::Result<Value> {
        self.kubectl.json(&["get", "pod", name])
    }

    /// Why the pod waits, once somebody has said it, with this in it.
    pub fn says(&self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        wait_for(&format!("{name} to be told {words:?}"), PATIENCE, || {
            let pod = self.get(name)?;
            let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let told = conditions.iter().find(|c| c["type"] == "PodScheduled").context("nobody has said anything")?;
            ensure!(told["status"] == "False" && told["reason"] == "Unschedulable", "{told}");
            let message = told["message"].as_str().unwrap_or_default();
            ensure!(words.iter().all(|word| message.contains(word)), "it says {message:?}");
            Ok(())
        })
    }

    /// Every pod of the namespace is gone, without waiting for the machines.
    pub fn leave(&self) -> anyhow::Result<()> {
        let path = format!("{}?gracePeriodSeconds=0", self.pods());
        wait_for("the pods to be gone", PATIENCE, || {
            self.send([("DELETE", path.clone(), Value::Null)])?;
            let left = self.kubectl.ok(&["get", "pods", "-o", "name"])?.lines().count();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
    }
}

/// What was done already, by a try whose answer was lost, is done.
async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
    let mut last = None;
    for _ in 0..TRIES {
        let mut request = http::Request::builder().method(method).uri(path);
        request = match method {
            "PATCH" => request.header("Content-Type", "application/strategic-merge-patch+json"),
            _ => request.header("Content-Type", "application/json"),
        };
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        match client.request::<Value>(request.body(bytes)?).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if method == "POST" && status.code == 409 => return Ok(()),
            Err(kube::Error::Api(status)) if method != "POST" && status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status))
                if (400..500).contains(&status.code) && ![408, 409, 429].contains(&status.code) =>
            {
                return Err(kube::Error::Api(status).into());
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(last.map_or_else(|| anyhow::anyhow!("never sent"), Into::into))
}

/// Numbers that look drawn and are the same every time.
pub fn drawn(index: usize, most: usize) -> usize {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from((mixed >> 33) % most as u64).unwrap_or(0)
}
