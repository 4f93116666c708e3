//! Requests that no client who is well sends, for everything here that reads them: each may refuse them, but not panic, and not take more
//! of the heap than a bound that follows from the input's length.

use crate::cel::{self, Decl};
use crate::fields::FieldSelector;
use crate::jsonpath::JsonPath;
use crate::patch::{apply, json as json_patch, merge, strategic};
use crate::quantity::Quantity;
use crate::schema::{self, Schema, Type};
use crate::time::Timestamp;
use crate::{cron, depth, labels, protobuf, re2};
use gantry_fuzzing::{input, most_bytes, text};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Bytes on the heap for each byte of the input, and for the shortest. An element of a list takes two bytes of JSON, and as much
/// memory as any other value, in a list that is copied when it grows; paths of problems come on top.
const EACH: usize = 400;
const LEAST: usize = 256 << 10;

fn bounded<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // Made by whoever needs it first.
    let _ = Schema::builtin();
    let (answer, most) = most_bytes(work);
    let bound = bytes * EACH + LEAST;
    assert!(most <= bound, "{bytes} bytes take {most} on the heap, more than {bound}");
    answer
}

fn pod_type() -> Type<'static> {
    Schema::builtin().kind("", "v1", "Pod").unwrap()
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "finalizers": ["acme.io/x"],
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "nginx:1", "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}, "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
            "tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"a": "b"}}})
}

fn pod_yaml() -> Vec<u8> {
    b"apiVersion: v1\nkind: Pod\nmetadata: &m {name: web, labels: {app: web}}\nspec:\n  containers:\n  - name: c\n    image: 'nginx:1'\n    args: [\"-a\", |-\n      b\n    ]\n  <<: *m\n".to_vec()
}

fn writer() -> apply::Writer<'static> {
    apply::Writer {
        manager: "fuzz",
        subresource: "",
        now: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        ignored: &[],
    }
}

/// What every decoder makes of it is valid for everything that follows.
fn decoded(bytes: &[u8], object: &Value) {
    bounded(bytes.len(), || protobuf::encode(object, pod_type()).len());
    let _ = depth::depth(object);
}

#[test]
fn the_bound_is_one() {
    let wide = format!("[{}0]", "0,".repeat(100_000));
    let (_, most) = most_bytes(|| schema::decode::untyped(wide.as_bytes()).is_ok());
    assert!(most > wide.len() * 8, "a list of numbers takes more than its text: {most}");
    let caught =
        std::panic::catch_unwind(|| bounded(10, || std::hint::black_box(vec![0u8; LEAST + 10 * EACH + 1]).len()));
    assert!(caught.is_err());
}

proptest! {
    #[test]
    fn json_bodies(bytes in input(pod().to_string().into_bytes())) {
        if let Ok(found) = bounded(bytes.len(), || schema::decode::from_json(&bytes, pod_type())) {
            decoded(&bytes, &found.object);
        }
        let _ = bounded(bytes.len(), || schema::decode::untyped(&bytes).is_ok());
    }

    #[test]
    fn yaml_bodies(bytes in input(pod_yaml())) {
        if let Ok(found) = bounded(bytes.len(), || schema::decode::from_yaml(&bytes, pod_type())) {
            decoded(&bytes, &found.object);
        }
    }

    #[test]
    fn protobuf_bodies(bytes in input(protobuf::encode(&pod(), pod_type()))) {
        if let Ok(object) = bounded(bytes.len(), || protobuf::decode(&bytes, pod_type())) {
            decoded(&bytes, &object);
        }
    }

    #[test]
    fn protobuf_messages(raw in input(protobuf::encode(&pod(), pod_type())[24..].to_vec())) {
        // Behind a right envelope, so that the message itself is read.
        let len = |n: usize| [(n & 0x7f) as u8 | 0x80, (n >> 7 & 0x7f) as u8 | 0x80, (n >> 14) as u8];
        let bytes = [b"k8s\0".to_vec(), vec![0x12], len(raw.len()).to_vec(), raw].concat();
        if let Ok(object) = bounded(bytes.len(), || protobuf::decode(&bytes, pod_type())) {
            decoded(&bytes, &object);
        }
    }

    #[test]
    fn json_patches(bytes in input(
        br#"[{"op":"copy","from":"/spec","path":"/spec/containers/-"},{"op":"test","path":"/metadata/name","value":"web"},
            {"op":"move","from":"/metadata/labels","path":"/x~1y"},{"op":"replace","path":"/spec/containers/0/image","value":[1]},
            {"op":"remove","path":"/spec/tolerations"},{"op":"add","path":"/spec/containers/0","value":{}}]"#.to_vec()))
    {
        if let Ok(patch) = serde_json::from_slice::<Value>(&bytes) {
            let mut object = pod();
            // Copies may make the document larger, up to their own bound.
            let (_, most) = most_bytes(|| json_patch::apply(&mut object, &patch).is_ok());
            prop_assert!(most < 32 << 20, "{most}");
        }
    }

    #[test]
    fn merge_and_strategic_patches(bytes in input(
        br#"{"metadata":{"labels":{"app":null},"$retainKeys":["name"]},"spec":{"$setElementOrder/containers":[{"name":"c"}],
            "containers":[{"name":"c","image":null,"$patch":"merge"},{"$patch":"replace"}],"$deleteFromPrimitiveList/x":[1],
            "tolerations":[{"$patch":"delete","key":"k"}]}}"#.to_vec()))
    {
        if let Ok(patch) = serde_json::from_slice::<Value>(&bytes) {
            bounded(bytes.len(), || merge::apply(&mut pod(), &patch));
            let _ = bounded(bytes.len(), || strategic::apply(&mut pod(), &patch, pod_type()).is_ok());
        }
    }

    #[test]
    fn server_side_apply(bytes in input(pod().to_string().into_bytes()), fields in input(
        br#"[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","time":"2026-01-01T00:00:00Z",
            "fieldsV1":{"f:metadata":{"f:finalizers":{".":{},"v:\"acme.io/x\"":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}}}]"#.to_vec()))
    {
        let mut live = pod();
        if let Ok(fields) = serde_json::from_slice::<Value>(&fields) {
            live["metadata"]["managedFields"] = fields;
        }
        if let Ok(applied) = schema::decode::from_json(&bytes, pod_type())
            && applied.object.is_object()
        {
            let merged = bounded(bytes.len() + 2_000, || apply::merge(Some(&live), &applied.object, pod_type(), &writer(), true));
            if let Ok(merged) = merged {
                let again = apply::merge(Some(&merged), &applied.object, pod_type(), &writer(), false);
                prop_assert!(again.is_ok(), "what one applied, the same applies again: {again:?}");
            }
        }
    }

    #[test]
    fn selectors(text in text(&["a", "app.kubernetes.io/name", "=", "==", "!=", "!", " in ", " notin ", "(", ")", ",", " ", "b-c", "\\", "metadata.name", "exists"])) {
        if let Ok(selector) = bounded(text.len(), || labels::parse(&text)) {
            let _ = selector.matches(&std::collections::BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        }
        let _ = bounded(text.len(), || FieldSelector::parse(&text).is_ok());
    }

    #[test]
    fn quantities(text in text(&["1", "0", "9", ".", "-", "+", "e", "E", "m", "u", "n", "k", "M", "Gi", "Ki", "Ei", "99999999999999999999", "e308"])) {
        if let Ok(quantity) = bounded(text.len(), || Quantity::parse(&text)) {
            let canonical = quantity.to_string();
            prop_assert_eq!(Quantity::parse(&canonical).map(|q| q.to_string()), Ok(canonical.clone()), "{}", text);
            let _ = (quantity.milli(), quantity.value(), quantity.approximate());
        }
    }

    #[test]
    fn times_and_schedules(text in text(&["2026-01-01", "T", "00:00:00", ".5", "Z", "+02:00", "-", "*", "/5", ",", "1-9", " ", "@every ", "1h", "@daily", "TZ=Europe/Berlin ", "99"])) {
        let _ = Timestamp::parse(&text).is_ok();
        let _ = bounded(text.len(), || cron::nanoseconds(&text));
    }

    #[test]
    fn json_paths(text in text(&[".", "..", "a", "['b']", "[0]", "[-1:]", "[*]", "*", "[?(@.", "==", "'x'", ")]", "{", "}", "metadata", "\\."])) {
        if let Ok(path) = bounded(text.len(), || JsonPath::parse(&text)) {
            let _ = path.find(&pod()).len();
        }
    }

    #[test]
    fn expressions_of_regular_languages(text in text(&["a", "(", ")", "[a-z]", "{0,1000}", "{9}", "*", "+", "?", "|", "^", "$", "\\w", "\\p{L}", "(?i)", ".", "(?P<n>"])) {
        if let Ok((regex, _)) = re2::compile(&text) {
            let _ = regex.is_match("abcabcabc");
        }
    }

    #[test]
    fn cel_expressions(text in text(&["self", ".", "x", "(", ")", "[", "]", "all(", "exists(", "map(", "i, ", "==", "!=", "&&", "||", "!", "1", "\"a\"", "+", "-", "*", "/", "%", "? ", ": ", " in ", "size(", "matches(", "has(", "{", "}", ",", "duration(", "u"])) {
        let dynamic = [("self", Decl::of(cel::Type::Dyn))];
        let object = pod();
        if let Ok(program) = cel::compile(&text, &dynamic) {
            let _ = cel::evaluate(&program, &[("self", &object)]);
        }
    }
}
