//! What keeps an object that is to go: finalizers, who set them, dependents, and what is left in a namespace. Pure.

use crate::render::cell;
use serde_json::Value;

/// Objects that are named one by one.
const NAMED: usize = 10;

pub fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub fn waits_for_dependents(object: &Value) -> bool {
    finalizers(object).any(|name| name == "foregroundDeletion")
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let of_namespace = object["spec"]["finalizers"].as_array().filter(|_| object["kind"] == "Namespace");
    let own = object["metadata"]["finalizers"].as_array();
    own.into_iter().chain(of_namespace).flatten().filter_map(Value::as_str)
}

/// Since when it is to go, and each finalizer with who set it.
pub fn why_it_stays(object: &Value) -> Vec<String> {
    let mut told = vec![format!("it is to be deleted since {}", cell(&object["metadata"]["deletionTimestamp"]))];
    for finalizer in finalizers(object) {
        let mut line = format!("finalizer {finalizer} holds it");
        if let Some((manager, time)) = set_by(object, finalizer) {
            line.push_str(&format!(", set by {manager} at {time}"));
        }
        if let Some(meaning) = meaning(finalizer) {
            line.push_str(&format!(": {meaning}"));
        }
        told.push(line);
    }
    told
}

/// The field manager that owns the finalizer, and when it wrote last.
fn set_by(object: &Value, finalizer: &str) -> Option<(String, String)> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let key = format!("v:{}", Value::from(finalizer));
    let owner = entries.iter().find(|entry| entry["fieldsV1"]["f:metadata"]["f:finalizers"].get(&key).is_some())?;
    Some((cell(&owner["manager"]), cell(&owner["time"])))
}

fn meaning(finalizer: &str) -> Option<&'static str> {
    Some(match finalizer {
        "kubernetes" => "the namespace controller deletes what is in it first",
        "foregroundDeletion" => "its dependents go first",
        "orphan" => "the garbage collector takes its dependents off it first",
        "kubernetes.io/pvc-protection" => "a pod uses the claim",
        "kubernetes.io/pv-protection" => "the volume is bound to a claim",
        "batch.kubernetes.io/job-tracking" => "the job controller has not counted the pod yet",
        "service.kubernetes.io/load-balancer-cleanup" => "its load balancer goes first",
        "customresourcecleanup.apiextensions.k8s.io" => "its custom objects go first",
        _ => return None,
    })
}

/// Those that go before their owner.
pub fn dependents(owner: &Value, all: &[(String, Value)]) -> Vec<String> {
    let owned = all.iter().filter(|(_, object)| {
        let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        references.into_iter().any(|reference| &reference["uid"] == owner && reference["blockOwnerDeletion"] == true)
    });
    named("it waits for its dependent", owned.map(|(kind, object)| with_finalizers(kind, object)).collect())
}

/// What is left in a namespace that is to go.
pub fn remains(all: &[(String, Value)]) -> Vec<String> {
    let mut left: Vec<&(String, Value)> = all.iter().filter(|(kind, _)| !kind.starts_with("event")).collect();
    // What something holds comes first: it is what the rest waits for.
    left.sort_by_key(|(_, object)| finalizers(object).next().is_none());
    named("left in it:", left.into_iter().map(|(kind, object)| with_finalizers(kind, object)).collect())
}

fn with_finalizers(kind: &str, object: &Value) -> String {
    let mut text = format!("{kind}/{}", cell(&object["metadata"]["name"]));
    let held: Vec<&str> = finalizers(object).collect();
    if !held.is_empty() {
        let going = if is_going(object) { "held by" } else { "which will be held by" };
        text.push_str(&format!(", {going} {}", held.join(", ")));
    }
    text
}

fn named(what: &str, mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    let mut lines: Vec<String> = all.into_iter().map(|name| format!("{what} {name}")).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_finalizer_is_told_with_who_set_it_since_when_and_what_for() {
        let object = json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion", "acme.io/dns"],
            "managedFields": [
                {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}},
                {"manager": "dns-operator", "time": "2025-12-01T08:00:00Z",
                 "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, "v:\"acme.io/dns\"": {}}}}}]}});
        let expect = [
            "it is to be deleted since 2026-01-01T00:00:00Z",
            "finalizer foregroundDeletion holds it: its dependents go first",
            "finalizer acme.io/dns holds it, set by dns-operator at 2025-12-01T08:00:00Z",
        ];
        assert_eq!(why_it_stays(&object), expect);
        assert!(waits_for_dependents(&object) && is_going(&object));
        assert!(!is_going(&json!({"metadata": {}})));
    }

    #[test]
    fn dependents_that_block_are_named() {
        let owned = |name: &str, uid: &str, blocks: bool| {
            let owners = json!([{"uid": uid, "blockOwnerDeletion": blocks}]);
            ("pod".to_owned(), json!({"metadata": {"name": name, "ownerReferences": owners}}))
        };
        let all = [owned("a", "1", true), owned("b", "1", false), owned("c", "2", true)];
        assert_eq!(dependents(&json!("1"), &all), ["it waits for its dependent pod/a"]);
    }

    #[test]
    fn what_is_left_in_a_namespace_begins_with_what_is_held() {
        let object = |kind: &str, name: &str, finalizers: Value| {
            (kind.to_owned(), json!({"metadata": {"name": name, "finalizers": finalizers, "deletionTimestamp": "t"}}))
        };
        let mut all: Vec<_> = (0..12).map(|n| object("secret", &format!("s{n:02}"), json!([]))).collect();
        all.push(object("thing.acme.io", "x", json!(["acme.io/dns"])));
        all.push(object("event", "e", json!([])));
        let lines = remains(&all);
        assert_eq!(lines[0], "left in it: thing.acme.io/x, held by acme.io/dns");
        assert_eq!((lines.len(), lines[10].as_str()), (11, "and 3 more"));
    }
}
