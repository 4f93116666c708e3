//! Watches: order, replay, selectors, bookmarks, ends.

use crate::harness::{Api, CONFIG_MAPS, MERGE, revision};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_watch_sees_contents_then_changes() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    api.config_map("b", json!({})).await;
    assert_eq!(watch.brief().await, "ADDED b");
    api.patch(MERGE, &format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "2"}})).await.ok();
    let modified = watch.next().await.unwrap();
    assert_eq!((&modified["type"], &modified["object"]["data"]["k"]), (&json!("MODIFIED"), &json!("2")));
    api.delete(&format!("{CONFIG_MAPS}/a"), &json!(null)).await.ok();
    let deleted = watch.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["data"]["k"]), (&json!("DELETED"), &json!("2")));
    assert!(revision(&deleted["object"]) > revision(&modified["object"]), "a deletion has its own version");
}

#[tokio::test]
async fn a_watch_replays_from_a_version_and_refuses_a_forgotten_one() {
    let api = Api::with(|config| config.history.bytes = 4_000).await;
    let list = api.get(CONFIG_MAPS).await.ok();
    api.config_map("a", json!({})).await;
    api.config_map("b", json!({})).await;
    let from = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&list));
    let mut watch = api.watch(&from).await;
    assert_eq!((watch.brief().await, watch.brief().await), ("ADDED a".into(), "ADDED b".into()));
    for n in 0..20 {
        api.config_map(&format!("c{n}"), json!({})).await;
    }
    api.get(CONFIG_MAPS).await.ok();
    let mut late = api.watch(&from).await;
    let error = late.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"], &error["object"]["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert_eq!(late.brief().await, "end");
}

#[tokio::test]
async fn leaving_and_joining_a_selection_is_deletion_and_arrival() {
    let api = Api::new().await;
    api.config_map("a", json!({"on": "no"})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=on%3Dyes")).await;
    let set = |value: &'static str| {
        let api = api.clone();
        async move {
            api.patch(MERGE, &format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"on": value}}})).await.ok()
        }
    };
    set("yes").await;
    assert_eq!(watch.brief().await, "ADDED a");
    let off = set("off").await;
    let left = watch.next().await.unwrap();
    assert_eq!((&left["type"], &left["object"]["metadata"]["labels"]["on"]), (&json!("DELETED"), &json!("yes")));
    assert_eq!(revision(&left["object"]), revision(&off));
    set("yes").await;
    assert_eq!(watch.brief().await, "ADDED a");
    api.delete(&format!("{CONFIG_MAPS}/a"), &json!(null)).await.ok();
    assert_eq!(watch.brief().await, "DELETED a");
}

#[tokio::test]
async fn watchers_of_one_namespace_name_or_field_see_only_theirs() {
    let api = Api::new().await;
    let mut name = api.watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Db")).await;
    let mut one = api.watch(&format!("{CONFIG_MAPS}/b?watch=1")).await;
    let mut namespace = api.watch("/api/v1/namespaces/kube-system/configmaps?watch=1").await;
    let mut everything = api.watch("/api/v1/configmaps?watch=1").await;
    api.config_map("a", json!({})).await;
    api.config_map("b", json!({})).await;
    api.post("/api/v1/namespaces/kube-system/configmaps", &json!({"metadata": {"name": "c"}})).await.ok();
    assert_eq!(name.brief().await, "ADDED b");
    assert_eq!(one.brief().await, "ADDED b");
    assert_eq!(namespace.brief().await, "ADDED c");
    for expect in ["ADDED a", "ADDED b", "ADDED c"] {
        assert_eq!(everything.brief().await, expect);
    }
}

#[tokio::test]
async fn initial_events_end_with_their_bookmark() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!((&bookmark["object"]["kind"], &bookmark["object"]["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    api.config_map("b", json!({})).await;
    assert_eq!(watch.brief().await, "ADDED b");
    for bad in [
        "sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=NotOlderThan",
    ] {
        assert_eq!(api.get(&format!("{CONFIG_MAPS}?watch=1&{bad}")).await.code, 422, "{bad}");
    }
}

#[tokio::test]
async fn a_watch_without_initial_events_starts_from_now() {
    let api = Api::new().await;
    api.config_map("old", json!({})).await;
    api.get(CONFIG_MAPS).await.ok();
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0";
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}&timeoutSeconds=9223372036854775807")).await;
    api.config_map("new", json!({})).await;
    assert_eq!(watch.brief().await, "ADDED new");
}

#[tokio::test]
async fn bookmarks_carry_the_groups_progress() {
    let api = Api::with(|config| config.bookmark_every_s = 1).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true")).await;
    let secret = api.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.ok();
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        if revision(&event["object"]) >= revision(&secret) {
            break;
        }
    }
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_and_when_it_is_too_slow() {
    let api = Api::with(|config| config.watch_queue = 4).await;
    let mut brief = api.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(brief.brief().await, "end");
    let mut slow = api
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&api.get(CONFIG_MAPS).await.ok())))
        .await;
    for n in 0..12 {
        api.config_map(&format!("c{n}"), json!({})).await;
    }
    api.get(CONFIG_MAPS).await.ok();
    let mut seen = 0;
    while slow.next().await.is_some() {
        seen += 1;
    }
    assert!(seen < 12, "a watcher that does not read is cut off, after {seen} events");
}

/// Replays a watch over a list and compares the outcome with the server's own list.
fn fold(state: &mut BTreeMap<String, Value>, event: &Value, last: &mut u64) {
    let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
    let at = revision(&event["object"]);
    assert!(at > *last, "events come in the order of their versions, each once: {at} after {last}");
    *last = at;
    match event["type"].as_str().unwrap() {
        "ADDED" => assert!(state.insert(name, event["object"].clone()).is_none()),
        "MODIFIED" => assert!(state.insert(name, event["object"].clone()).is_some()),
        "DELETED" => assert!(state.remove(&name).is_some()),
        other => panic!("{other}"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Delete(u8),
    Watch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6u8, any::<bool>()).prop_map(|(n, on)| Step::Put(n, on)),
        2 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Watch),
    ];
    prop::collection::vec(step, 1..40)
}

async fn follows(steps: Vec<Step>, query: &str) {
    let api = Api::new().await;
    let mut watches = Vec::new();
    for step in steps {
        match step {
            Step::Put(n, on) => {
                let (name, on) = (format!("c{n}"), on.to_string());
                let patch = json!({"metadata": {"labels": {"on": on}}, "data": {"k": on}});
                if api.patch(MERGE, &format!("{CONFIG_MAPS}/{name}"), &patch).await.code == 404 {
                    api.config_map(&name, json!({"on": on})).await;
                }
            }
            Step::Delete(n) => {
                api.delete(&format!("{CONFIG_MAPS}/c{n}"), &json!(null)).await;
            }
            Step::Watch => {
                let list = api.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
                let items = list["items"].as_array().unwrap().iter();
                let state: BTreeMap<String, Value> =
                    items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect();
                let watch =
                    api.watch(&format!("{CONFIG_MAPS}?watch=1&{query}&resourceVersion={}", revision(&list))).await;
                watches.push((state, revision(&list), watch));
            }
        }
    }
    // One last object that everyone sees ends the comparison.
    api.config_map("end", json!({"on": "true"})).await;
    let list = api.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
    let items = list["items"].as_array().unwrap().iter();
    let expect: BTreeMap<String, Value> =
        items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect();
    for (mut state, mut last, mut watch) in watches {
        while !state.contains_key("end") {
            let event = watch.next().await.unwrap();
            fold(&mut state, &event, &mut last);
        }
        assert_eq!(state, expect);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_list_and_its_watch_are_the_later_list(steps in steps(), selected in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follows(steps, if selected { "labelSelector=on%3Dtrue" } else { "" }));
    }
}
