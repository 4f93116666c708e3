//! A pod as the store has it, of which a bind takes apart only what it reads and changes. Nearly all of a pod goes through as the
//! text that it is: building its values and writing them again would cost more than the rest of the bind.
//!
//! Decides what a bound pod says. It never decides whether the pod may be bound.

use super::claim;
use crate::http::Outcome;
use bytes::Bytes;
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use gantry_store::KeyValue;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A version of a pod.
#[derive(Clone, Debug)]
pub struct Text {
    /// As it is stored, or with its resource version.
    pub bytes: Bytes,
    pub revision: u64,
}

impl From<KeyValue> for Text {
    fn from(kv: KeyValue) -> Self {
        Self { bytes: kv.value, revision: kv.mod_revision.0 }
    }
}

type Parts<'a> = BTreeMap<&'a str, &'a RawValue>;

/// Its members, and those of its metadata and spec.
pub struct PodText<'a> {
    top: Parts<'a>,
    metadata: Parts<'a>,
    spec: Parts<'a>,
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| Status::internal(format!("stored pod: {error}")).into())
}

/// The members, without what is null: that is said nowhere.
fn members(text: &str) -> Outcome<Parts<'_>> {
    let mut members: Parts = read(text)?;
    members.retain(|_, raw| raw.get() != "null");
    Ok(members)
}

fn parts<'a>(of: &Parts<'a>, name: &str) -> Outcome<Parts<'a>> {
    of.get(name).map_or_else(|| Ok(Parts::new()), |raw| members(raw.get()))
}

fn raw(value: &impl serde::Serialize) -> Outcome<Box<RawValue>> {
    to_raw_value(value).map_err(|error| Status::internal(error).into())
}

impl<'a> PodText<'a> {
    pub fn read(bytes: &'a [u8]) -> Outcome<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| Status::internal(format!("stored pod: {error}")))?;
        let top = members(text)?;
        let (mut metadata, spec) = (parts(&top, "metadata")?, parts(&top, "spec")?);
        metadata.remove("resourceVersion");
        Ok(Self { top, metadata, spec })
    }

    pub fn uid(&self) -> Outcome<Cow<'a, str>> {
        self.metadata.get("uid").map_or(Ok(Cow::Borrowed("")), |uid| read(uid.get()))
    }

    /// Which state of its spec this is.
    pub fn generation(&self) -> Outcome<i64> {
        self.metadata.get("generation").map_or(Ok(0), |generation| read(generation.get()))
    }

    pub fn is_deleted(&self) -> bool {
        self.metadata.contains_key("deletionTimestamp")
    }

    /// The machine it is on; empty: none.
    pub fn node(&self) -> Outcome<Cow<'a, str>> {
        self.spec.get("nodeName").map_or(Ok(Cow::Borrowed("")), |node| read(node.get()))
    }

    pub fn is_gated(&self) -> Outcome<bool> {
        let gates = self.spec.get("schedulingGates");
        gates.map_or(Ok(false), |gates| Ok(!read::<Vec<IgnoredAny>>(gates.get())?.is_empty()))
    }

    /// The name of its at-most-one claim.
    pub fn claim(&self) -> Outcome<Option<String>> {
        let said = ["annotations", "labels"].into_iter().filter_map(|map| self.metadata.get(map));
        if !said.into_iter().any(|map| map.get().contains(claim::OPT_IN)) {
            return Ok(None);
        }
        let metadata: Value = serde_json::to_value(&self.metadata).map_err(Status::internal)?;
        Ok(claim::identity(&json!({"metadata": metadata})))
    }

    /// The pod on that machine, with its condition, and with these annotations on top of its own.
    pub fn bound(self, node: &str, annotations: &Map<String, Value>, now: Timestamp) -> Outcome<Vec<u8>> {
        let annotated = match annotations.is_empty() {
            true => None,
            false => {
                let own = self.metadata.get("annotations");
                let mut all: Map<String, Value> = own.map_or(Ok(Map::new()), |own| read(own.get()))?;
                all.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
                Some(raw(&all)?)
            }
        };
        let node = raw(&node)?;
        let status = parts(&self.top, "status")?;
        let conditions = conditions(&status, now)?;
        let (mut metadata, mut spec, mut status): (Parts, Parts, Parts) = (self.metadata, self.spec, status);
        metadata.extend(annotated.as_deref().map(|annotated| ("annotations", annotated)));
        spec.insert("nodeName", &node);
        status.insert("conditions", &conditions);
        let (metadata, spec, status) = (raw(&metadata)?, raw(&spec)?, raw(&status)?);
        let mut top: Parts = self.top;
        top.extend([("metadata", &*metadata), ("spec", &*spec), ("status", &*status)]);
        serde_json::to_vec(&top).map_err(|error| Status::internal(error).into())
    }
}

/// Those that there are, and that the pod was scheduled.
fn conditions(status: &Parts<'_>, now: Timestamp) -> Outcome<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Condition<'a> {
        #[serde(borrow, rename = "type", default)]
        of: Cow<'a, str>,
    }
    let mut all: Vec<&RawValue> = status.get("conditions").map_or(Ok(Vec::new()), |all| read(all.get()))?;
    let mut kept = Vec::with_capacity(all.len() + 1);
    for condition in all.drain(..) {
        if read::<Condition>(condition.get())?.of != "PodScheduled" {
            kept.push(condition);
        }
    }
    let scheduled = raw(
        &json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now.to_string()}),
    )?;
    kept.push(&scheduled);
    raw(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(pod: &Value, annotations: Value) -> Value {
        let text = pod.to_string();
        let annotations = annotations.as_object().unwrap();
        let bytes = PodText::read(text.as_bytes()).unwrap().bound("n1", annotations, Timestamp::from_secs(0)).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_bound_pod_is_the_pod_but_for_its_machine_and_condition() {
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "resourceVersion": "7", "labels": {"é\"\n": "x"}, "annotations": {"a": "1", "b": "\\"}},
            "spec": {"containers": [{"name": "c", "command": ["\u{1F600}", "\u{7}"]}], "x": 1.5},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}]}});
        let mut expect = pod.clone();
        expect["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        expect["spec"]["nodeName"] = json!("n1");
        expect["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}, scheduled]);
        assert_eq!(bound(&pod, json!({})), expect);
        expect["metadata"]["annotations"] = json!({"a": "2", "b": "\\", "c": "3"});
        assert_eq!(bound(&pod, json!({"a": "2", "c": "3"})), expect);
        let bare = bound(&json!({"metadata": {"name": "p"}}), json!({"a": "1"}));
        let expect = json!({"metadata": {"name": "p", "annotations": {"a": "1"}}, "spec": {"nodeName": "n1"},
            "status": {"conditions": [scheduled]}});
        assert_eq!(bare, expect);
    }

    #[test]
    fn what_a_bind_asks_is_read_from_the_text() {
        let check = |pod: Value, expect: (&str, bool, &str, bool, Option<&str>)| {
            let text = pod.to_string();
            let pod = PodText::read(text.as_bytes()).unwrap();
            let claim = pod.claim().unwrap();
            let (uid, node) = (pod.uid().unwrap(), pod.node().unwrap());
            assert_eq!((&*uid, pod.is_deleted(), &*node, pod.is_gated().unwrap(), claim.as_deref()), expect, "{text}");
        };
        check(json!({}), ("", false, "", false, None));
        check(
            json!({"metadata": {"deletionTimestamp": null, "labels": null}, "spec": {"nodeName": null}, "status": null}),
            ("", false, "", false, None),
        );
        check(
            json!({"metadata": {"uid": "u", "deletionTimestamp": "x"}, "spec": {"nodeName": "n", "schedulingGates": []}}),
            ("u", true, "n", false, None),
        );
        check(
            json!({"metadata": {"name": "p", "labels": {claim::OPT_IN: "true"}}, "spec": {"schedulingGates": [{"name": "g"}]}}),
            ("", false, "", true, Some("pod-p")),
        );
        check(json!({"metadata": {"name": "p", "annotations": {"x": claim::OPT_IN}}}), ("", false, "", false, None));
        assert!(PodText::read(b"[1]").is_err());
    }
}
