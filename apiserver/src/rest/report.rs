//! A node agent's report of a pod's status: the steps of a patch, over the status alone. The rest of the pod, most of it, goes
//! through as the text that it is; building its values and writing them again would cost more than everything else here.
//!
//! Decides which patches are plain enough for that. All others, and every refusal, are the patch path's to decide.

use super::call::Call;
use super::ownership;
use super::patch::{Patch, typed};
use super::stored::Written;
use crate::admission;
use crate::cache::Object;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use bytes::Bytes;
use gantry_apimachinery::kinds::POD;
use gantry_apimachinery::status::{FieldErrors, Status};
use gantry_store::{Compare, MAX_VALUE_BYTES, Op, Revision, Txn};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ops::Range;

/// Writes the report. `None`: nothing was written, the patch path decides.
pub async fn report(call: &Call<'_>, patch: &Patch) -> Option<Written> {
    let about_pods = call.kind() == &POD && call.subresource == Some("status");
    if !about_pods || call.options.dry_run || !ownership::is_agent_report(call) || admission::has_outsiders(call.core) {
        return None;
    }
    let pod = call.served.resource.get(&call.path(call.name))?;
    let bytes = reported(call, patch, &pod)?;
    let key: Bytes = call.key(call.name).into();
    let compare = vec![Compare::unchanged(key.clone(), Revision(pod.revision))];
    let success = vec![Op::put(key, bytes.clone())];
    let reply = call.served.group.store.txn(Txn { compare, success, failure: Vec::new() }).await.ok()?;
    reply.succeeded.then(|| Written { bytes, revision: reply.revision.0, created: false, deleted: false })
}

/// The pod's new text, if the report is plain: it says the status of this very pod and nothing else, of a pod that neither ends
/// nor is deleted (an end frees what the pod took), and it changes something.
fn reported(call: &Call<'_>, patch: &Patch, pod: &Object) -> Option<Bytes> {
    if pod.deleting || !patch.says_status_alone(&pod.uid) {
        return None;
    }
    let text = pod.json();
    let (old, status) = without_spec(&text).ok()?;
    let patched = patch.apply(old.clone(), call.wire_type()).ok()?;
    let mut new = typed(call, patched, &old).ok()?;
    let strategy = call.served.strategy();
    strategy.prepare_update(&mut new, &old, &call.ctx());
    let mut errors = FieldErrors::new();
    strategy.validate(&new, Some(&old), &call.ctx(), &mut errors);
    if !errors.is_empty() || has_ended(&old) || has_ended(&new) || new["status"] == old["status"] {
        return None;
    }
    let status_text = serde_json::to_vec(&new["status"]).ok()?;
    let bytes = spliced(&text, [(pod.version_range(), b""), (status, &status_text)]);
    (bytes.len() <= MAX_VALUE_BYTES).then_some(bytes)
}

fn has_ended(pod: &Value) -> bool {
    matches!(str_at(pod, "status.phase"), "Succeeded" | "Failed")
}

/// The pod with only as much of its spec as the rules for a status read, and where its status stands in the text.
fn without_spec(text: &[u8]) -> Outcome<(Value, Range<usize>)> {
    #[derive(Deserialize)]
    struct Pod<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
        #[serde(borrow)]
        status: &'a RawValue,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow, default)]
        restart_policy: Cow<'a, str>,
    }
    let unreadable = |error| Status::internal(format!("stored pod: {error}"));
    let pod: Pod = serde_json::from_slice(text).map_err(unreadable)?;
    let status: Value = serde_json::from_str(pod.status.get()).map_err(unreadable)?;
    let start = pod.status.get().as_ptr() as usize - text.as_ptr() as usize;
    let range = start..start + pod.status.get().len();
    let spec = json!({"restartPolicy": pod.spec.restart_policy});
    Ok((json!({"apiVersion": POD.version, "kind": POD.kind, "metadata": {}, "spec": spec, "status": status}), range))
}

/// The text with other texts in place of two of its ranges, which do not overlap.
fn spliced(text: &[u8], mut changes: [(Range<usize>, &[u8]); 2]) -> Bytes {
    changes.sort_unstable_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(text.len() + changes.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in changes {
        out.extend_from_slice(&text[at..range.start]);
        out.extend_from_slice(new);
        at = range.end;
    }
    out.extend_from_slice(&text[at..]);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_replaced_in_whatever_order_they_stand() {
        let check = |changes: [(Range<usize>, &[u8]); 2], expect: &str| {
            assert_eq!(spliced(b"0123456789", changes), expect);
        };
        check([(2..4, b""), (6..7, b"six")], "0145six789");
        check([(6..7, b"six"), (2..4, b"")], "0145six789");
        check([(0..1, b"a"), (9..10, b"")], "a12345678");
    }

    #[test]
    fn a_pod_is_read_without_its_spec() {
        let text = br#"{"spec":{"containers":[{"name":"status"}],"restartPolicy":"Never"},"status":{"phase":"Running"},"z":1}"#;
        let (pod, range) = without_spec(text).unwrap();
        assert_eq!(&text[range], br#"{"phase":"Running"}"#);
        assert_eq!(pod["status"], json!({"phase": "Running"}));
        assert_eq!(pod["spec"], json!({"restartPolicy": "Never"}));
        assert!(without_spec(br#"{"spec":{}}"#).is_err());
        assert!(without_spec(b"[]").is_err());
    }
}
