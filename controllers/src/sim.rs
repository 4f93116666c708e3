//! A small world for tests: a map of objects that plans are applied to as the API server would, with a scheduler and agents
//! that do what they are told. Decides nothing about controllers; it refuses what the real server would refuse.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::patch;
use gantry_apimachinery::schema::Schema;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{Patch, Propagation};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::plan::{Plan, Step, Verb, Write};

type Id = (&'static str, String, String);

#[derive(Clone, Debug)]
pub struct World {
    objects: BTreeMap<Id, Value>,
    revision: u64,
    pub now: Timestamp,
    /// Creates of these kinds are refused.
    pub refuse: Option<&'static str>,
}

impl World {
    pub fn new() -> Self {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        World { objects: BTreeMap::new(), revision: 0, now, refuse: None }
    }

    pub fn pass(&mut self, secs: i64) {
        self.now = self.now.add_secs(secs);
    }

    fn id(kind: &Kind, namespace: &str, name: &str) -> Id {
        let plural = kinds::by_resource(kind.group, kind.version, kind.plural).unwrap().plural;
        (plural, namespace.to_owned(), name.to_owned())
    }

    fn stamp(&mut self, object: &mut Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
    }

    pub fn raw(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&Self::id(kind, namespace, name))
    }

    pub fn get<T: DeserializeOwned>(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.raw(kind, namespace, name).map(|v| Arc::new(serde_json::from_value(v.clone()).unwrap()))
    }

    pub fn list<T: DeserializeOwned>(&self, kind: &Kind) -> Vec<Arc<T>> {
        let of_kind = self.objects.iter().filter(|(id, _)| id.0 == kind.plural);
        of_kind.map(|(_, v)| Arc::new(serde_json::from_value(v.clone()).unwrap())).collect()
    }

    pub fn count(&self, kind: &Kind) -> usize {
        self.objects.keys().filter(|id| id.0 == kind.plural).count()
    }

    /// Creates as the server does: name, uid, version, generation, creation time.
    pub fn create(&mut self, kind: &Kind, mut body: Value) -> Result<String, String> {
        if self.refuse == Some(kind.plural) {
            return Err("quota".to_owned());
        }
        let meta = &mut body["metadata"];
        if meta["name"].is_null() {
            let prefix = meta["generateName"].as_str().unwrap();
            meta["name"] = json!(format!("{prefix}{:05}", self.revision));
        }
        let name = meta["name"].as_str().unwrap().to_owned();
        let namespace =
            if kind.namespaced { meta["namespace"].as_str().unwrap_or("ns").to_owned() } else { String::new() };
        if kind.namespaced {
            meta["namespace"] = json!(namespace);
        }
        meta["uid"] = json!(format!("uid-{}", self.revision + 1));
        meta["generation"] = json!(1);
        meta["creationTimestamp"] = json!(self.now);
        let id = Self::id(kind, &namespace, &name);
        if self.objects.contains_key(&id) {
            return Err("AlreadyExists".to_owned());
        }
        self.stamp(&mut body);
        self.objects.insert(id, body);
        Ok(name)
    }

    /// Changes an object as its user would.
    pub fn edit(&mut self, kind: &Kind, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        let id = Self::id(kind, namespace, name);
        let Some(mut object) = self.objects.get(&id).cloned() else { return };
        edit(&mut object);
        self.put(id, object);
    }

    fn put(&mut self, id: Id, mut object: Value) {
        let old = &self.objects[&id];
        if *old == object {
            return;
        }
        if old["spec"] != object["spec"] {
            object["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let graceful = id.0 == "pods" && !object["spec"]["nodeName"].is_null() && object["gone"].is_null();
        if !object["metadata"]["deletionTimestamp"].is_null() && !held && !graceful {
            self.objects.remove(&id);
            self.revision += 1;
            return;
        }
        self.stamp(&mut object);
        self.objects.insert(id, object);
    }

    pub fn delete(&mut self, kind: &Kind, namespace: &str, name: &str, propagation: Option<Propagation>) {
        let now = self.now;
        let finalizer = match propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        self.edit(kind, namespace, name, |object| {
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = json!(now);
            }
            if let Some(finalizer) = finalizer {
                let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                all.push(json!(finalizer));
                object["metadata"]["finalizers"] = json!(all);
            }
        });
    }

    /// Applies a plan: steps in order up to the first failure, then the status. Panics on what a controller must not do.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), String> {
        let mut result = Ok(());
        for step in &plan.steps {
            let writes = match step {
                Step::One(write) => std::slice::from_ref(write),
                Step::All(writes) | Step::SlowStart(writes) => writes.as_slice(),
            };
            for write in writes {
                result = result.and(self.write(write));
            }
            if result.is_err() {
                break;
            }
        }
        plan.status.iter().map(|status| self.write(status)).fold(result, Result::and)
    }

    fn write(&mut self, write: &Write) -> Result<(), String> {
        let id = Self::id(write.kind, &write.namespace, &write.name);
        match &write.verb {
            Verb::Create(body) => self.create(write.kind, body.clone()).map(drop),
            Verb::Delete(options) => {
                let Some(object) = self.objects.get(&id) else { return Ok(()) };
                if options.uid.as_ref().is_some_and(|uid| object["metadata"]["uid"] != json!(uid)) {
                    return Ok(());
                }
                if write.kind.plural == "pods" && options.grace_period_seconds == Some(0) {
                    self.objects.get_mut(&id).unwrap()["gone"] = json!(true);
                }
                self.delete(write.kind, &write.namespace, &write.name, options.propagation);
                Ok(())
            }
            Verb::Patch { subresource, patch } => {
                let Some(old) = self.objects.get(&id).cloned() else { return Ok(()) };
                let mut new = old.clone();
                match patch {
                    Patch::Merge(body) => {
                        let version = &body["metadata"]["resourceVersion"];
                        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
                            return Err(format!("conflict on {id:?}"));
                        }
                        patch::merge::apply(&mut new, body);
                    }
                    Patch::Json(operations) => {
                        patch::json::apply(&mut new, operations).map_err(|e| format!("{id:?}: {e}"))?;
                    }
                    Patch::Strategic(body) => {
                        let ty = Schema::builtin().kind(write.kind.group, write.kind.version, write.kind.kind).unwrap();
                        patch::strategic::apply(&mut new, body, ty).unwrap();
                    }
                    Patch::Apply { .. } => panic!("controllers do not apply"),
                }
                match subresource {
                    Some("status") => {
                        let status = new["status"].clone();
                        new = old;
                        new["status"] = status;
                    }
                    _ => assert_eq!(new["status"], old["status"], "status is written through its subresource"),
                }
                self.put(id, new);
                Ok(())
            }
            Verb::Replace { subresource: "finalize", body } => {
                if body["spec"]["finalizers"].as_array().is_some_and(Vec::is_empty) {
                    self.objects.remove(&id);
                }
                Ok(())
            }
            Verb::Replace { .. } => panic!("no such subresource"),
        }
    }

    /// Schedulers and agents: every pod is placed, runs, and is ready unless `broken` says otherwise; one that was told to go
    /// goes. Returns whether anything changed.
    pub fn agents(&mut self, broken: impl Fn(&Value) -> bool) -> bool {
        let before = self.revision;
        let now = self.now;
        let pods: Vec<Id> = self.objects.keys().filter(|id| id.0 == "pods").cloned().collect();
        for id in pods {
            let ready = !broken(&self.objects[&id]);
            self.edit(&kinds::POD, &id.1, &id.2, |pod| {
                if !pod["metadata"]["deletionTimestamp"].is_null() {
                    pod["gone"] = json!(true);
                    return;
                }
                if pod["spec"]["nodeName"].is_null() {
                    pod["spec"]["nodeName"] = pinned(pod).unwrap_or_else(|| json!("n1"));
                }
                if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                    return;
                }
                let is = if ready { "True" } else { "False" };
                if pod["status"]["conditions"][0]["status"] != is {
                    let ip = pod["status"]["podIP"].as_str().map_or_else(|| address(pod), str::to_owned);
                    pod["status"] = json!({"phase": "Running", "podIP": ip,
                        "conditions": [{"type": "Ready", "status": is, "lastTransitionTime": now}]});
                }
            });
        }
        self.revision != before
    }

    /// Ends every running pod that `choose` picks.
    pub fn end(&mut self, phase: &str, choose: impl Fn(&Value) -> bool) {
        let now = self.now;
        let pods: Vec<Id> = self.objects.keys().filter(|id| id.0 == "pods").cloned().collect();
        for id in pods {
            let pod = &self.objects[&id];
            if pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null() && choose(pod) {
                self.edit(&kinds::POD, &id.1, &id.2, |pod| {
                    pod["status"]["phase"] = json!(phase);
                    pod["status"]["conditions"][0]["status"] = json!("False");
                    pod["status"]["containerStatuses"] =
                        json!([{"restartCount": 0, "state": {"terminated": {"finishedAt": now}}}]);
                });
            }
        }
    }
}

fn address(pod: &Value) -> String {
    let number: u32 = pod["metadata"]["uid"].as_str().and_then(|uid| uid[4..].parse().ok()).unwrap_or(1);
    format!("10.244.{}.{}", number / 250, number % 250 + 1)
}

fn pinned(pod: &Value) -> Option<Value> {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    pod.pointer(path).cloned()
}
