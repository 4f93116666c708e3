//! Round trips, and bytes put together by hand from the published field numbers.

use super::*;
use crate::schema::{Schema, Shape};
use proptest::prelude::*;
use serde_json::json;

fn ty(group: &str, kind: &str) -> Type<'static> {
    Schema::builtin().kind(group, "v1", kind).expect("a built-in kind")
}

/// A length-delimited field with a one-byte tag.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn what_go_writes_is_read() {
    // Go writes "" and zero times of fields that are not pointers.
    let meta = [
        field(1, b"web"),
        field(2, b""),
        field(3, b"default"),
        field(8, b""),
        field(11, &[field(1, b"app"), field(2, b"w")].concat()),
    ];
    let port = [field(1, b"http"), vec![2 << 3, 0], vec![3 << 3, 80], field(4, b"TCP"), field(5, b"")].concat();
    let volume = [field(1, b"v"), field(2, &field(1, &field(1, b"/x")))].concat();
    let limits = [field(1, b"cpu"), field(2, &field(1, b"0.5"))].concat();
    let container = [field(1, b"c"), field(2, b"nginx"), field(6, &port), field(8, &field(1, &limits))].concat();
    // activeDeadlineSeconds is left out; terminationGracePeriodSeconds = 0 is a pointer, hostNetwork = false is not.
    let spec = [field(1, &volume), field(2, &container), vec![4 << 3, 0], vec![11 << 3, 0]].concat();
    let pod = [field(1, &meta.concat()), field(2, &spec), field(3, b"")].concat();
    let decoded = decode(&enveloped("v1", "Pod", &pod), ty("", "Pod")).expect("valid");
    let expect = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "w"}},
        "spec": {"terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
            "containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "500m"}},
                "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}]},
        "status": {}});
    assert_eq!(decoded, expect);
}

#[test]
fn a_list_in_pieces_is_the_list() {
    let lists = Schema::builtin().kinds().filter(|(name, ty)| name.ends_with("List") && is_message(*ty));
    let mut checked = 0;
    for (name, ty) in lists {
        checked += 1;
        let (api_version, kind) = name.trim_start_matches('/').rsplit_once('/').unwrap();
        let Some(item) = ty.field("items").and_then(|items| items.ty().items()) else { continue };
        let names = ["a".repeat(300), "b".to_owned()];
        let mut list = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"resourceVersion": "7", "continue": "x", "remainingItemCount": 9}});
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        let pieces: Vec<u8> = items.iter().flat_map(|one| list_item(one, item)).collect();
        let apart = [list_head(&list, ty, pieces.len()), pieces].concat();
        list["items"] = items.into();
        assert_eq!(apart, encode(&list, ty), "{name}");
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn every_special_case_survives_both_ways() {
    let check = |group: &str, kind: &str, object: Value| {
        let ty = ty(group, kind);
        let bytes = encode(&object, ty);
        assert_eq!(decode(&bytes, ty).expect(kind), object, "{kind}");
    };
    let probe = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3});
    check(
        "",
        "Pod",
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [
            {"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {"f:x": {}}}}]},
        "spec": {"containers": [{"name": "c", "livenessProbe": probe, "securityContext": {"runAsUser": 0, "privileged": false},
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "n", "key": "k", "optional": false}}}]}],
            "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "c"}],
            "volumes": [{"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}, {"name": "e", "emptyDir": {}}],
            "tolerations": [{"key": "k", "tolerationSeconds": 0}]}}),
    );
    check("", "Secret", json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "AAEC/w==", "empty": ""}}));
    check(
        "apps",
        "Deployment",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0,
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}}}),
    );
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "spec": {"renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 0}}),
    );
    check(
        "apps",
        "ControllerRevision",
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 3,
        "data": {"a": [1, null, "x"]}}),
    );
    check(
        "authentication.k8s.io",
        "TokenReview",
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": "t"}, "status": {"user": {"extra": {"k": ["a", "b"]}}}}),
    );
    check(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Namespaced",
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true, "additionalProperties": {"type": "string"},
            "properties": {"a": {"items": {"type": "string"}, "default": ["x"], "enum": [1, "2"]},
                "b": {"additionalProperties": false}}}}}]}}),
    );
}

#[test]
fn broken_bytes_are_refused() {
    let check = |body: &[u8], expect: &str| {
        let error = decode(body, ty("", "Pod")).expect_err(expect);
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(b"{}", "expected prefix");
    check(b"k8s\0\x12\x7f", "ends in the middle");
    check(&enveloped("v1", "Pod", b"\x12"), "ends in the middle");
    check(&enveloped("v1", "Pod", &[1 << 3, 1]), "metadata: a length-delimited value");
}

/// Objects of any built-in type, with no field absent by accident of zero.
fn arbitrary(ty: Type<'static>, depth: u32) -> BoxedStrategy<Value> {
    let text = "[a-z]{1,8}";
    match ty.shape() {
        Shape::String => text.prop_map(Value::from).boxed(),
        Shape::Bool => Just(json!(true)).boxed(),
        Shape::Int32 => (1..i32::MAX).prop_map(Value::from).boxed(),
        Shape::Int64 => (i64::MIN..0).prop_map(Value::from).boxed(),
        Shape::Double => (1..1000i32).prop_map(|n| json!(f64::from(n) / 8.0)).boxed(),
        Shape::Bytes => Just(json!("AAE=")).boxed(),
        Shape::Time => {
            (0..4_000_000_000i64).prop_map(|s| json!(crate::time::Timestamp::from_secs(s).to_string())).boxed()
        }
        Shape::MicroTime => Just(json!("2026-01-02T03:04:05.000001Z")).boxed(),
        Shape::Quantity => (1..999u32).prop_map(|n| json!(format!("{n}Mi"))).boxed(),
        Shape::IntOrString => prop_oneof![Just(json!(7)), text.prop_map(Value::from)].boxed(),
        Shape::Any | Shape::Raw | Shape::Fields => Just(json!({"a": [1, {"b": null}]})).boxed(),
        Shape::SchemaOrList => Just(json!([{"type": "string"}])).boxed(),
        Shape::SchemaOrBool => Just(json!(true)).boxed(),
        Shape::SchemaOrStrings => Just(json!(["x"])).boxed(),
        Shape::List => {
            let items = ty.items().expect("a list has items");
            prop::collection::vec(arbitrary(items, depth), 1..3).prop_map(Value::from).boxed()
        }
        Shape::Map => {
            let value = ty.map_value().expect("a map has values");
            prop::collection::btree_map(text, arbitrary(value, depth), 1..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed()
        }
        Shape::Object if depth == 0 => Just(json!({})).boxed(),
        Shape::Object => {
            let fields: Vec<_> = ty
                .fields()
                .filter(|f| !matches!(f.name(), "apiVersion" | "kind") || !f.proto_path().is_empty())
                .map(|f| prop::option::weighted(0.4, arbitrary(f.ty(), depth - 1)).prop_map(move |v| (f.name(), v)))
                .collect();
            fields
                .prop_map(|members| {
                    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
                    Value::Object(present.collect())
                })
                .boxed()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_object_survives_both_ways(object in prop_oneof![
        arbitrary(ty("", "Pod"), 4), arbitrary(ty("", "Node"), 4), arbitrary(ty("", "Service"), 4),
        arbitrary(ty("batch", "Job"), 3), arbitrary(ty("discovery.k8s.io", "EndpointSlice"), 4),
        arbitrary(ty("rbac.authorization.k8s.io", "ClusterRole"), 4),
    ].prop_map(|v| v)) {
        for (group, kind) in [("", "Pod"), ("", "Node"), ("", "Service"), ("batch", "Job")] {
            let ty = ty(group, kind);
            // Seen through another kind's schema the object is pruned; what is left must survive.
            let Ok(decoded) = from_value(object.clone(), ty) else { continue };
            let bytes = encode(&decoded.object, ty);
            prop_assert_eq!(decode(&bytes, ty).expect("own bytes"), decoded.object);
        }
    }
}
