//! Tests of strategic merge patch: each directive, and every merge key of the schema.

use super::*;
use crate::schema::Schema;
use serde_json::json;

fn patched(kind: (&str, &str), mut doc: Value, patch: &Value) -> Result<Value, StrategicError> {
    let ty = Schema::builtin().kind(kind.0, "v1", kind.1).unwrap();
    apply(&mut doc, patch, ty).map(|()| doc)
}

/// The pod spec after the patch.
fn pod(doc: Value, patch: Value) -> Result<Value, StrategicError> {
    patched(("", "Pod"), json!({"spec": doc}), &json!({"spec": patch})).map(|mut v| v["spec"].take())
}

fn check(doc: Value, patch: Value, expect: Value) {
    assert_eq!(pod(doc.clone(), patch.clone()), Ok(expect), "{doc} + {patch}");
}

#[test]
fn lists_merge_by_their_key() {
    check(
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
        json!({"containers": [{"name": "b", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
    );
    check(
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}]}),
        json!({"containers": [{"name": "a", "ports": [
            {"containerPort": 80, "name": "x", "protocol": "UDP"}, {"containerPort": 81}]}]}),
    );
    check(
        json!({"containers": [{"name": "a", "env": [{"name": "E", "value": "1"}], "volumeMounts": [{"mountPath": "/a", "name": "v"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "E", "value": "2"}], "volumeMounts": [{"mountPath": "/a", "readOnly": true}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "E", "value": "2"}],
            "volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": true}]}]}),
    );
    // What is new stands first, in the patch's order.
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "d"}, {"name": "c"}]}),
        json!({"containers": [{"name": "d"}, {"name": "c"}, {"name": "a"}, {"name": "b"}]}),
    );
}

/// Every list of every built-in kind that merges by a key: an element that the patch names changes, the other stays.
#[test]
fn every_merge_key_of_the_schema_merges() {
    let mut seen = 0;
    for ty in Schema::builtin().types() {
        for field in ty.fields() {
            let (Some(key), Some(items)) = (field.merge_key(), field.ty().items()) else { continue };
            let id = |n: i64| match items.member(key).unwrap().shape() {
                crate::schema::Shape::Int32 | crate::schema::Shape::Int64 => Value::from(n),
                _ => Value::from(format!("k{n}")),
            };
            let mut doc = json!({field.name(): [{key: id(1), "was": 1}, {key: id(2), "was": 1}]});
            apply(&mut doc, &json!({field.name(): [{key: id(2), "now": 2}]}), ty).unwrap();
            let expect = json!({field.name(): [{key: id(1), "was": 1}, {key: id(2), "was": 1, "now": 2}]});
            assert_eq!(doc, expect, "{}.{}", ty.name(), field.name());
            apply(&mut doc, &json!({field.name(): [{key: id(1), "$patch": "delete"}]}), ty).unwrap();
            assert_eq!(doc[field.name()].as_array().unwrap().len(), 1, "{}.{}", ty.name(), field.name());
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} lists merge by a key");
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    check(
        json!({"containers": [{"name": "a", "command": ["x", "y"]}], "tolerations": [{"key": "a"}]}),
        json!({"containers": [{"name": "a", "command": ["z"]}], "tolerations": [{"key": "b"}]}),
        json!({"containers": [{"name": "a", "command": ["z"]}], "tolerations": [{"key": "b"}]}),
    );
}

#[test]
fn null_deletes_and_is_never_stored() {
    check(
        json!({"nodeName": "n", "hostname": "h"}),
        json!({"nodeName": null, "subdomain": null}),
        json!({"hostname": "h"}),
    );
    check(
        json!({}),
        json!({"securityContext": {"runAsUser": 1, "fsGroup": null}}),
        json!({"securityContext": {"runAsUser": 1}}),
    );
}

#[test]
fn patch_directives() {
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}]}),
    );
    check(
        json!({"containers": [{"name": "a", "image": "1"}]}),
        json!({"containers": [{"name": "a", "image": "2", "$patch": "merge"}]}),
        json!({"containers": [{"name": "a", "image": "2"}]}),
    );
    check(
        json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
        json!({"securityContext": {"$patch": "replace", "runAsUser": 3}}),
        json!({"securityContext": {"runAsUser": 3}}),
    );
    check(
        json!({"securityContext": {"runAsUser": 1}}),
        json!({"securityContext": {"$patch": "delete"}}),
        json!({"securityContext": {}}),
    );
    check(json!({}), json!({"securityContext": {"$patch": "delete"}, "nodeName": "n"}), json!({"nodeName": "n"}));
    check(
        json!({}),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
}

#[test]
fn retain_keys_drops_the_other_arm_of_a_union() {
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    );
    let doc = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(patched(("apps", "Deployment"), doc, &patch), Ok(json!({"spec": {"strategy": {"type": "Recreate"}}})));
    check(
        json!({}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
    );
}

#[test]
fn element_order_is_the_patchs() {
    let order = |names: &[&str]| names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>();
    check(
        json!({"containers": order(&["a", "b", "c"])}),
        json!({"$setElementOrder/containers": order(&["c", "a", "b"])}),
        json!({"containers": order(&["c", "a", "b"])}),
    );
    check(
        json!({"containers": order(&["a", "b"])}),
        json!({"$setElementOrder/containers": order(&["b", "n"]), "containers": [{"name": "n", "image": "1"}]}),
        json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "n", "image": "1"}]}),
    );
    check(
        json!({"containers": order(&["a", "b", "c"])}),
        json!({"$setElementOrder/containers": order(&["a", "b"]), "containers": [{"name": "c", "$patch": "delete"}]}),
        json!({"containers": order(&["a", "b"])}),
    );
    let bad = pod(
        json!({"containers": order(&["a"])}),
        json!({"$setElementOrder/containers": order(&["a"]), "containers": [{"name": "x"}]}),
    );
    assert_eq!(bad, Err(StrategicError::Order { path: "spec.containers".into() }));
}

#[test]
fn primitive_lists_are_sets() {
    let finalizers = |doc: Value, patch: Value| {
        let merged = patched(("", "Pod"), json!({"metadata": {"finalizers": doc}}), &json!({"metadata": patch}));
        merged.map(|mut v| v["metadata"]["finalizers"].take())
    };
    assert_eq!(finalizers(json!(["a", "b"]), json!({"finalizers": ["b", "c"]})), Ok(json!(["a", "b", "c"])));
    assert_eq!(finalizers(json!(["a", "b"]), json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), Ok(json!(["b"])));
    let both = json!({
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "$setElementOrder/finalizers": ["c", "b"],
        "finalizers": ["c"],
    });
    assert_eq!(finalizers(json!(["a", "b"]), both), Ok(json!(["c", "b"])));
}

#[test]
fn owner_references_merge_by_uid() {
    let refs = |v: Value| json!({"metadata": {"ownerReferences": v}});
    let merged = patched(
        ("", "Pod"),
        refs(json!([{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}])),
        &refs(json!([{"uid": "1", "$patch": "delete"}, {"uid": "3", "name": "c"}])),
    );
    assert_eq!(merged, Ok(refs(json!([{"uid": "3", "name": "c"}, {"uid": "2", "name": "b"}]))));
}

#[test]
fn maps_merge_and_delete() {
    let merged =
        patched(("", "ConfigMap"), json!({"data": {"a": "1", "b": "2"}}), &json!({"data": {"a": null, "c": "3"}}));
    assert_eq!(merged, Ok(json!({"data": {"b": "2", "c": "3"}})));
}

#[test]
fn bad_patches_are_refused_whole() {
    let check = |patch: Value, expect: &str| {
        let doc = json!({"containers": [{"name": "a"}]});
        assert_eq!(pod(doc, patch).unwrap_err().to_string(), format!("invalid strategic merge patch: {expect}"));
    };
    check(
        json!({"containers": [{"image": "x"}]}),
        "spec.containers: an element does not contain declared merge key: name",
    );
    check(json!({"$patch": "mend"}), "spec: unknown $patch directive \"mend\"");
    check(json!({"$retainKeys": "x"}), "spec.$retainKeys: must be a list");
    check(json!({"$retainKeys": ["a"], "b": 1}), "spec: b is set by the patch, but $retainKeys does not list it");
    check(json!({"$setElementOrder/containers": {}}), "spec.containers: must be a list");
}
