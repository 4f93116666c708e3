//! Ownership: which objects a controller may claim, adopt or must let go, the owner reference it writes, and the pod it
//! makes from a template. Never does I/O.

use std::sync::Arc;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_client::ObjectRef;
use serde_json::{Value, json};

use crate::objects::Pod;
use crate::plan::Write;

/// Which of the candidates are the owner's.
#[derive(Debug)]
pub struct Claim<T> {
    pub owned: Vec<Arc<T>>,
    /// Adoptions and releases.
    pub writes: Vec<Write>,
}

/// Kubernetes' claim rule for pods: an owned one that no longer matches is let go, one without an owner that matches is
/// adopted (unless either side is being deleted), everything else is somebody else's.
pub fn claim(owner: &ObjectMeta, kind: &'static Kind, pods: &[Arc<Pod>], matches: impl Fn(&Pod) -> bool) -> Claim<Pod> {
    claim_kind(owner, kind, &kinds::POD, pods, matches)
}

/// The same for any kind of dependent.
pub fn claim_kind<T: Object>(
    owner: &ObjectMeta,
    owner_kind: &'static Kind,
    kind: &'static Kind,
    candidates: &[Arc<T>],
    matches: impl Fn(&T) -> bool,
) -> Claim<T> {
    let mut claim = Claim { owned: Vec::new(), writes: Vec::new() };
    let deleting = owner.deletion_timestamp.is_some();
    for object in candidates {
        let meta = object.meta();
        match meta.controller() {
            Some(reference) if reference.uid != owner.uid => {}
            Some(_) if matches(object) => claim.owned.push(object.clone()),
            Some(_) if deleting => {}
            Some(_) => claim.writes.push(release(kind, meta, owner)),
            None if deleting || meta.deletion_timestamp.is_some() || !matches(object) => {}
            None => {
                claim.writes.push(adopt(kind, meta, owner, owner_kind));
                claim.owned.push(object.clone());
            }
        }
    }
    claim
}

/// The controlling owner reference.
pub fn owner_reference(kind: &Kind, owner: &ObjectMeta) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true})
}

fn adopt(kind: &'static Kind, meta: &ObjectMeta, owner: &ObjectMeta, owner_kind: &Kind) -> Write {
    let mut references: Vec<Value> = meta.owner_references.iter().map(|r| json!(r)).collect();
    references.push(owner_reference(owner_kind, owner));
    rewrite_owners(kind, meta, references)
}

fn release(kind: &'static Kind, meta: &ObjectMeta, owner: &ObjectMeta) -> Write {
    let keep = meta.owner_references.iter().filter(|r| r.uid != owner.uid);
    rewrite_owners(kind, meta, keep.map(|r| json!(r)).collect())
}

/// Replaces the owner references; the version and uid make it fail when the object is no longer the one seen.
pub fn rewrite_owners(kind: &'static Kind, meta: &ObjectMeta, references: Vec<Value>) -> Write {
    let references = if references.is_empty() { Value::Null } else { Value::Array(references) };
    let body = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version,
        "ownerReferences": references}});
    Write::merge(kind, &meta.namespace, &meta.name, body)
}

/// What events are about.
pub fn reference(kind: &Kind, meta: &ObjectMeta) -> ObjectRef {
    ObjectRef {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.to_string(),
        resource_version: meta.resource_version.clone(),
        field_path: String::new(),
    }
}

/// The pod that a controller creates from its template: named after the owner, with its labels, annotations and
/// finalizers from the template, owned by the controller.
pub fn pod_from_template(template: &Value, owner: &ObjectMeta, kind: &Kind) -> Value {
    let mut metadata = json!({"generateName": generate_name(&owner.name), "namespace": owner.namespace,
        "ownerReferences": [owner_reference(kind, owner)]});
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")).filter(|v| !v.is_null()) {
            metadata[field] = value.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"].clone()})
}

/// `NAME-` as long as that leaves room for the random part.
pub fn generate_name(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if prefix.len() > 247 { owner.chars().take(247).collect() } else { prefix }
}

/// Takes one finalizer off, whatever others come or go meanwhile; refused when it is no longer where it was seen.
pub fn remove_finalizer(kind: &'static Kind, meta: &ObjectMeta, finalizer: &str) -> Option<Write> {
    let index = meta.finalizers.iter().position(|f| f == finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    let operations = json!([
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ]);
    Some(Write::json(kind, &meta.namespace, &meta.name, operations))
}
