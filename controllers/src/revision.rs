//! ControllerRevisions: the numbered history of a workload's template, as `kubectl rollout history` and `undo` read it.
//! Decides which revision is current and which are dropped; never changes a pod.

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::names;
use gantry_client::DeleteOptions;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::objects::Template;
use crate::owner;
use crate::plan::Write;

/// The label by which pods and revisions find each other.
pub const HASH_LABEL: &str = "controller-revision-hash";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    pub metadata: ObjectMeta,
    /// The patch that brings the template back; compared by meaning.
    pub data: Template,
    pub revision: i64,
}

impl Object for ControllerRevision {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ControllerRevision {
    pub fn hash(&self) -> &str {
        self.metadata.labels.get(HASH_LABEL).map_or("", String::as_str)
    }
}

/// What the history says and what it lacks.
#[derive(Debug)]
pub struct History {
    /// The hash that up-to-date pods carry.
    pub hash: String,
    pub writes: Vec<Write>,
}

/// The patch that a revision of this template holds.
fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The current revision of `template` among the owner's: found, renumbered to the highest, or to be created.
/// `collisions` changes the name when it is somebody else's.
pub fn current(
    owner: &ObjectMeta,
    kind: &'static Kind,
    template: &Template,
    collisions: i32,
    revisions: &[Arc<ControllerRevision>],
) -> History {
    let value = template.value();
    let data = Template::new(&data_of(&value));
    let highest = revisions.iter().map(|r| r.revision).max().unwrap_or(0);
    let same = revisions.iter().filter(|r| r.data.means_the_same(&data)).max_by_key(|r| r.revision);
    if let Some(found) = same {
        let mut writes = Vec::new();
        if found.revision < highest {
            let meta = &found.metadata;
            let body = json!({"metadata": {"resourceVersion": meta.resource_version}, "revision": highest + 1});
            writes.push(Write::merge(&kinds::CONTROLLER_REVISION, &meta.namespace, &meta.name, body));
        }
        return History { hash: found.hash().to_owned(), writes };
    }
    let hash = names::safe_hash(format!("{}{collisions}", template.canonical()).as_bytes());
    let mut labels: BTreeMap<String, Value> = value
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    labels.insert(HASH_LABEL.to_owned(), json!(hash));
    let mut annotations = owner.annotations.clone();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    let body = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": format!("{}-{hash}", owner.name), "namespace": owner.namespace, "labels": labels,
            "annotations": annotations, "ownerReferences": [owner::owner_reference(kind, owner)]},
        "data": data_of(&value), "revision": highest + 1});
    History { writes: vec![Write::create(&kinds::CONTROLLER_REVISION, &owner.namespace, body)], hash }
}

/// Deletes the oldest revisions above `limit` that are neither current nor on a pod.
pub fn surplus(revisions: &[Arc<ControllerRevision>], live: &BTreeSet<&str>, limit: usize) -> Vec<Write> {
    let mut unused: Vec<_> = revisions.iter().filter(|r| !live.contains(r.hash())).collect();
    let excess = unused.len().saturating_sub(limit);
    unused.sort_by_key(|r| r.revision);
    let delete = |r: &&Arc<ControllerRevision>| {
        let options = DeleteOptions::uid(r.metadata.uid.to_string());
        Write::delete(&kinds::CONTROLLER_REVISION, &r.metadata.namespace, &r.metadata.name, options)
    };
    unused.iter().take(excess).map(delete).collect()
}
