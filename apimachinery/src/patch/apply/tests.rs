//! Tests of server-side apply: ownership, conflicts, giving up fields, and the laws that hold for any object.

use super::*;
use crate::schema::Schema;
use proptest::prelude::*;
use serde_json::json;

fn ty(object: &Value) -> Type<'static> {
    let (group, version) = crate::meta::split_api_version(object["apiVersion"].as_str().unwrap());
    Schema::builtin().kind(group, version, object["kind"].as_str().unwrap()).unwrap()
}

fn writer(manager: &str, at: i64) -> Writer<'_> {
    Writer { manager, subresource: "", now: Timestamp::from_secs(at), ignored: &["status"] }
}

fn apply(live: Option<&Value>, applied: &Value, manager: &str, at: i64) -> Result<Value, ApplyError> {
    merge(live, applied, ty(applied), &writer(manager, at), false)
}

fn force(live: &Value, applied: &Value, manager: &str, at: i64) -> Value {
    merge(Some(live), applied, ty(applied), &writer(manager, at), true).unwrap()
}

fn update(live: Option<&Value>, new: &Value, manager: &str, at: i64) -> Value {
    let mut new = new.clone();
    let ty = ty(&new);
    track_update(live, &mut new, ty, &writer(manager, at));
    new
}

/// `manager/operation` → its fields.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let named = entries.into_iter().map(|e| {
        let name = format!("{}/{}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap());
        (name, e["fieldsV1"].clone())
    });
    Value::Object(named.collect())
}

fn bare(object: &Value) -> Value {
    managed::without(object, &[])
}

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data})
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

fn containers(list: Value) -> Value {
    deployment(json!({"template": {"spec": {"containers": list}}}))
}

fn containers_of(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"]
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client_side() {
    let mut made = deployment(json!({"replicas": 3}));
    let last = deployment(json!({"replicas": 3})).to_string();
    made["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let live = update(None, &made, "kubectl-client-side-apply", 1);
    let applied = deployment(json!({"replicas": 5}));
    let writer = |manager| Writer { manager, subresource: "", now: Timestamp::from_secs(2), ignored: &["status"] };
    let merged = merge_upgrading(Some(&live), &applied, ty(&live), &writer("kubectl")).unwrap();
    assert_eq!(merged["spec"]["replicas"], 5);
    let mut other = live.clone();
    other["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    assert!(merge_upgrading(Some(&other), &applied, ty(&live), &writer("kubectl")).is_err());
}

#[test]
fn an_applier_owns_exactly_what_it_applied() {
    let made = apply(None, &config(json!({"a": "1"})), "m", 5).unwrap();
    let expect = json!([{
        "manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:00:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
    }]);
    assert_eq!(made["metadata"]["managedFields"], expect);
}

#[test]
fn fields_are_spelled_as_kubernetes_spells_them() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"l": "1"}, "finalizers": ["x/y"]},
        "spec": {"replicas": 1, "template": {"spec": {
            "containers": [{"name": "a", "command": ["x", "y"], "ports": [{"containerPort": 80}], "resources": {}}],
            "volumes": [{"name": "v", "emptyDir": {}}]}}}});
    let made = apply(None, &object, "m", 1).unwrap();
    let expect = json!({
        "f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:command": {}, "f:resources": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
            "f:volumes": {"k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}}}}},
    });
    assert_eq!(owners(&made), json!({"m/Apply": expect}));
}

#[test]
fn another_value_is_a_conflict_and_force_takes_the_field() {
    let live = update(None, &deployment(json!({"replicas": 3, "paused": true})), "kubectl-client-side-apply", 1);
    let error = apply(Some(&live), &deployment(json!({"replicas": 5})), "m", 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    let status = Status::from(error);
    assert_eq!((status.code(), status.causes()[0].field.as_str()), (409, ".spec.replicas"));
    assert_eq!(status.causes()[0].reason, "FieldManagerConflict");

    let forced = force(&live, &deployment(json!({"replicas": 5})), "m", 2);
    assert_eq!(forced["spec"], json!({"replicas": 5, "paused": true}));
    assert_eq!(
        owners(&forced),
        json!({"m/Apply": {"f:spec": {"f:replicas": {}}}, "kubectl-client-side-apply/Update": {"f:spec": {"f:paused": {}}}})
    );
}

#[test]
fn many_conflicts_are_listed_by_owner() {
    let live = apply(None, &containers(json!([{"name": "a", "image": "1"}])), "one", 1).unwrap();
    let mut changed = live.clone();
    changed["spec"]["replicas"] = json!(2);
    let live = update(Some(&live), &changed, "two", 2);
    let mut wanted = containers(json!([{"name": "a", "image": "2"}]));
    wanted["spec"]["replicas"] = json!(3);
    let error = apply(Some(&live), &wanted, "three", 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.template.spec.containers[name=\"a\"].image\nconflicts with \"two\" using apps/v1:\n- .spec.replicas"
    );
}

#[test]
fn the_same_value_is_owned_by_both() {
    let live = apply(None, &config(json!({"a": "1"})), "one", 1).unwrap();
    let live = apply(Some(&live), &config(json!({"a": "1"})), "two", 2).unwrap();
    assert_eq!(owners(&live), json!({"one/Apply": {"f:data": {"f:a": {}}}, "two/Apply": {"f:data": {"f:a": {}}}}));
    // Given up by one, it stays for the other; given up by both, it goes.
    let live = apply(Some(&live), &config(json!({"b": "1"})), "one", 3).unwrap();
    assert_eq!(live["data"], json!({"a": "1", "b": "1"}));
    let live = apply(Some(&live), &config(json!({"c": "1"})), "two", 4).unwrap();
    assert_eq!(live["data"], json!({"b": "1", "c": "1"}));
}

#[test]
fn what_is_given_up_goes_with_its_defaults_but_not_with_others_fields() {
    let probe = json!([{"name": "a", "image": "1", "livenessProbe": {"httpGet": {"port": 80}}}]);
    let mut live = apply(None, &containers(probe), "m", 1).unwrap();
    live["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] = json!(10);
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    let next = apply(Some(&live), &containers(json!([{"name": "a", "image": "1"}])), "m", 2).unwrap();
    assert_eq!(containers_of(&next), &json!([{"name": "a", "image": "1", "imagePullPolicy": "Always"}]));

    let mut touched = live.clone();
    touched["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] = json!(7);
    let live = update(Some(&live), &touched, "other", 2);
    let next = apply(Some(&live), &containers(json!([{"name": "a", "image": "1"}])), "m", 3).unwrap();
    assert_eq!(
        containers_of(&next),
        &json!([{"name": "a", "image": "1", "imagePullPolicy": "Always", "livenessProbe": {"periodSeconds": 7}}])
    );
}

#[test]
fn metadata_survives_giving_up_its_last_label() {
    let mut labelled = config(json!({"a": "1"}));
    labelled["metadata"]["labels"] = json!({"l": "1"});
    let mut live = apply(None, &labelled, "m", 1).unwrap();
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["resourceVersion"] = json!("7");
    let next = apply(Some(&live), &config(json!({"a": "1"})), "m", 2).unwrap();
    assert_eq!(bare(&next)["metadata"], json!({"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"}));
}

#[test]
fn list_items_merge_by_key_and_keep_both_orders() {
    let names = |object: &Value| -> String {
        containers_of(object).as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
    };
    let list = |s: &str| containers(s.chars().map(|c| json!({"name": c.to_string()})).collect());
    let check = |live: &str, applied: &str, expect: &str| {
        let live = update(None, &list(live), "u", 1);
        assert_eq!(names(&apply(Some(&live), &list(applied), "m", 2).unwrap()), expect, "{live} + {applied}");
    };
    check("ab", "ax", "abx");
    check("ab", "xa", "xab");
    check("abc", "b", "abc");
    check("ab", "ba", "ba");
    check("", "ab", "ab");
}

#[test]
fn atomic_lists_belong_to_one() {
    let live = apply(None, &containers(json!([{"name": "a", "command": ["x", "y"]}])), "one", 1).unwrap();
    let wanted = containers(json!([{"name": "a", "command": ["x"]}]));
    assert!(matches!(apply(Some(&live), &wanted, "two", 2), Err(ApplyError::Conflicts(c)) if c.len() == 1));
    assert_eq!(containers_of(&force(&live, &wanted, "two", 2))[0]["command"], json!(["x"]));
}

#[test]
fn set_items_are_owned_one_by_one() {
    let with = |finalizers: Value| {
        let mut c = config(json!({}));
        c["metadata"]["finalizers"] = finalizers;
        c
    };
    let live = apply(None, &with(json!(["a/x", "a/y"])), "one", 1).unwrap();
    let live = apply(Some(&live), &with(json!(["a/y", "a/z"])), "two", 2).unwrap();
    let live = apply(Some(&live), &with(json!([])), "one", 3).unwrap();
    assert_eq!(live["metadata"]["finalizers"], json!(["a/y", "a/z"]));
}

#[test]
fn an_update_owns_what_it_changed() {
    let live = apply(None, &config(json!({"a": "1", "b": "1"})), "m", 1).unwrap();
    let mut new = live.clone();
    new["data"] = json!({"a": "2", "c": "1"});
    let live = update(Some(&live), &new, "u", 2);
    assert_eq!(owners(&live), json!({"u/Update": {"f:data": {"f:a": {}, "f:c": {}}}}));
    // Writing the same again owns nothing more and leaves the time alone.
    assert_eq!(update(Some(&live), &live, "other", 3), live);
    let mut without = live.clone();
    without["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(update(Some(&live), &without, "other", 3), live);
}

#[test]
fn who_makes_a_map_or_list_by_an_update_owns_it() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"l": "1"}},
        "spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}]}}}});
    let expect = json!({
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {"f:strategy": {"f:type": {}}, "f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:resources": {"f:limits": {".": {}, "f:cpu": {}}},
                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
            "f:volumes": {".": {}, "k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}}}}},
    });
    let made = update(None, &object, "u", 1);
    assert_eq!(owners(&made), json!({"u/Update": expect}));
    // What another adds to a map is only its keys, and the map stays when the keys go.
    let live = update(None, &config(json!({"a": "1"})), "u", 1);
    let live = apply(Some(&live), &config(json!({"b": "1"})), "m", 2).unwrap();
    let both = json!({"m/Apply": {"f:data": {"f:b": {}}}, "u/Update": {"f:data": {".": {}, "f:a": {}}}});
    assert_eq!(owners(&live), both);
    let mut less = live.clone();
    less["data"].as_object_mut().unwrap().remove("a");
    let live = update(Some(&live), &less, "u", 3);
    let live = apply(Some(&live), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}), "m", 4);
    let live = live.unwrap();
    assert_eq!((live["data"].clone(), owners(&live)), (json!({}), json!({"u/Update": {"f:data": {}}})));
}

#[test]
fn times_alone_are_no_difference() {
    let made = |at| apply(None, &config(json!({"a": "1"})), "m", at).unwrap();
    assert!(equal_but_times(&made(1), &made(2)));
    assert!(!equal_but_times(&made(1), &apply(None, &config(json!({"a": "1"})), "n", 1).unwrap()));
    assert!(!equal_but_times(&made(1), &apply(None, &config(json!({"a": "2"})), "m", 1).unwrap()));
    assert!(!equal_but_times(&made(1), &bare(&made(1))));
}

#[test]
fn an_entrys_time_is_that_of_its_last_change() {
    let time = |object: &Value| object["metadata"]["managedFields"][0]["time"].clone();
    let live = update(None, &config(json!({"a": "1", "b": "1"})), "u", 1);
    let mut new = live.clone();
    new["data"]["a"] = json!("2");
    assert_eq!(time(&update(Some(&live), &new, "u", 2)), "1970-01-01T00:00:02Z");
    assert_eq!(time(&update(Some(&live), &live, "u", 2)), "1970-01-01T00:00:01Z");
    // Another writer takes a field away: the first did not write.
    let taken = update(Some(&live), &new, "v", 2);
    assert_eq!(
        (owners(&taken)["u/Update"].clone(), time(&taken)),
        (json!({"f:data": {".": {}, "f:b": {}}}), json!("1970-01-01T00:00:01Z"))
    );
}

#[test]
fn managed_fields_can_be_edited_and_reset() {
    let live = update(None, &config(json!({"a": "1"})), "u", 1);
    let mut edited = live.clone();
    edited["metadata"]["managedFields"][0]["manager"] = json!("kubectl");
    edited["metadata"]["managedFields"][0]["operation"] = json!("Apply");
    assert_eq!(
        owners(&update(Some(&live), &edited, "x", 2)),
        json!({"kubectl/Apply": {"f:data": {".": {}, "f:a": {}}}})
    );
    edited["metadata"]["managedFields"] = json!([{}]);
    assert_eq!(owners(&update(Some(&live), &edited, "x", 2)), json!({}));
    edited["metadata"]["managedFields"] = json!([]);
    assert_eq!(owners(&update(Some(&live), &edited, "x", 2)), owners(&live));
}

#[test]
fn subresources_are_tracked_apart() {
    let live = update(None, &deployment(json!({"replicas": 1})), "u", 1);
    let mut new = live.clone();
    new["status"] = json!({"replicas": 1});
    let status = Writer { subresource: "status", ignored: &["spec"], ..writer("u", 2) };
    track_update(Some(&live), &mut new, ty(&live), &status);
    let list = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((list.len(), &list[1]["subresource"]), (2, &json!("status")));
    assert_eq!(list[1]["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
    // Applying the object with a status changes and owns nothing of the status.
    let mut applied = deployment(json!({"replicas": 1}));
    applied["status"] = json!({"replicas": 9});
    let next = apply(Some(&new), &applied, "m", 3).unwrap();
    assert_eq!(next["status"], json!({"replicas": 1}));
    assert_eq!(owners(&next)["m/Apply"], json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn the_first_apply_finds_unowned_fields_owned() {
    let live = deployment(json!({"replicas": 1}));
    let error = apply(Some(&live), &deployment(json!({"replicas": 2})), "m", 1).unwrap_err();
    assert!(
        error.to_string().contains("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"),
        "{error}"
    );
}

#[test]
fn update_entries_are_capped() {
    let mut live = config(json!({}));
    for i in 0..15 {
        let mut new = live.clone();
        new["data"][format!("k{i:02}")] = json!("1");
        live = update(Some(&live), &new, &format!("u{i:02}"), i);
    }
    let names: Vec<_> = owners(&live).as_object().unwrap().keys().cloned().collect();
    assert_eq!((names.len(), names[0].as_str()), (10, "ancient-changes/Update"));
    assert_eq!(owners(&live)["ancient-changes/Update"]["f:data"].as_object().unwrap().len(), 6);
}

#[test]
fn bad_applied_objects_are_refused() {
    let check = |object: Value, expect: &str| {
        assert_eq!(apply(None, &object, "m", 1), Err(ApplyError::Invalid(expect.to_owned())));
    };
    check(
        containers(json!([{"image": "x"}])),
        ".spec.template.spec.containers: element 0: associative list with keys has an element that omits key field \"name\"",
    );
    check(
        containers(json!([{"name": "x"}, {"name": "x"}])),
        ".spec.template.spec.containers: duplicate entries for key {\"name\":\"x\"}",
    );
    let mut with_fields = config(json!({}));
    with_fields["metadata"]["managedFields"] = json!([]);
    check(with_fields, "metadata.managedFields must be nil");
}

#[test]
fn field_sets_survive_json() {
    let text = json!({"f:a": {".": {}, "f:b": {}}, "k:{\"b\":1,\"a\":\"x\"}": {"f:c": {}}, "v:\"s\"": {}, "i:3": {}});
    let set = FieldSet::from_json(&text).unwrap();
    assert_eq!(FieldSet::from_json(&set.to_json()).unwrap(), set);
    assert_eq!(set.paths(), [".a", ".a.b", "[a=\"x\",b=1].c", "[=\"s\"]", "[3]"]);
    for bad in [json!({"x:a": {}}), json!({"f": {}}), json!({"k:{": {}}), json!([])] {
        assert!(FieldSet::from_json(&bad).is_err(), "{bad}");
    }
}

fn any_object() -> impl Strategy<Value = Value> {
    let container =
        (prop::sample::subsequence(vec!["E1", "E2", "E3"], 0..3), prop::option::of(0..3i64)).prop_map(|(env, port)| {
            let env: Vec<_> = env.into_iter().map(|n| json!({"name": n, "value": "v"})).collect();
            let ports: Vec<_> = port.map(|p| json!({"containerPort": 80 + p})).into_iter().collect();
            json!({"image": "i", "env": env, "ports": ports})
        });
    let list = prop::collection::btree_map("[a-d]", container, 0..4).prop_map(|m| {
        m.into_iter()
            .map(|(name, mut c)| {
                c["name"] = Value::from(name);
                c
            })
            .collect::<Value>()
    });
    (list, prop::collection::btree_map("[a-c]", "[0-1]", 0..3), prop::option::of(0..3i64)).prop_map(
        |(list, labels, replicas)| {
            let mut object = containers(list);
            object["metadata"]["labels"] = json!(labels);
            if let Some(n) = replicas {
                object["spec"]["replicas"] = json!(n);
            }
            object
        },
    )
}

/// A creator's ownership is written directly; it is what tracking a change from nothing finds.
fn check_creator(object: &Value) {
    let nothing = json!({});
    assert_eq!(update(None, object, "m", 1), update(Some(&nothing), object, "m", 1));
}

#[test]
fn a_creator_owns_what_it_sets() {
    check_creator(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "finalizers": ["x"], "annotations": {},
            "ownerReferences": [{"uid": "1", "name": "o"}]},
        "spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "containers": [
            {"name": "c", "image": "i", "args": ["x"], "ports": [{"containerPort": 80, "protocol": "TCP"}, {"name": "odd"}],
                "resources": {"limits": {"cpu": "1"}}, "env": []}]},
        "status": {"phase": "Running"}}));
    check_creator(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "status": {}}));
}

proptest! {
    #[test]
    fn any_creator_owns_what_it_sets(object in any_object()) {
        check_creator(&object);
    }

    #[test]
    fn applying_an_own_object_again_changes_nothing(objects in prop::collection::vec((any_object(), 0..3usize), 1..5)) {
        let mut live: Option<Value> = None;
        for (i, (object, who)) in objects.iter().enumerate() {
            let manager = ["one", "two", "three"][*who];
            let once = merge(live.as_ref(), object, ty(object), &writer(manager, i as i64), true).unwrap();
            let twice = apply(Some(&once), object, manager, 100).unwrap();
            prop_assert_eq!(&once, &twice);
            live = Some(once);
        }
    }

    #[test]
    fn a_forced_apply_holds_everything_applied(live in any_object(), object in any_object()) {
        let live = update(None, &live, "u", 1);
        let next = force(&live, &object, "m", 2);
        let (next, at) = (bare(&next), At::root(ty(&object)));
        // Laying the object over the result changes nothing: every applied value is there.
        prop_assert_eq!(merging::merge(&next, &object, at), next);
    }

    #[test]
    fn the_last_owner_takes_its_fields_along(object in any_object()) {
        let made = apply(None, &object, "m", 1).unwrap();
        let minimal = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
        prop_assert_eq!(bare(&apply(Some(&made), &minimal, "m", 2).unwrap()), minimal);
    }
}
