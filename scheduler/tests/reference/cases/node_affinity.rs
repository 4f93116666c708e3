//! Node selector and node affinity.

use super::{node, passes, pod};
use crate::reference::{World, node_affinity};
use serde_json::{Value, json};

/// One machine `m` with a word, a number and an empty label.
fn world() -> World {
    World { nodes: vec![node("m", json!({"disk": "ssd", "size": "5", "empty": ""}))], ..World::default() }
}

#[test]
fn every_pair_of_the_selector_must_be_there() {
    let world = world();
    for (selector, expect) in [
        (json!({}), true),
        (Value::Null, true),
        (json!({"disk": "ssd"}), true),
        (json!({"disk": "hdd"}), false),
        (json!({"disk": "ssd", "size": "5"}), true),
        (json!({"disk": "ssd", "size": "4"}), false),
        (json!({"absent": ""}), false),
        (json!({"empty": ""}), true),
    ] {
        let pod = pod(json!({}), json!({"nodeSelector": selector}));
        assert_eq!(passes("NodeSelector", &world, &pod, &world.nodes[0]), expect, "{selector}");
    }
}

fn required(terms: Value) -> bool {
    let world = world();
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let pod = pod(json!({}), json!({"affinity": {"nodeAffinity": affinity}}));
    passes("NodeAffinity", &world, &pod, &world.nodes[0])
}

#[test]
fn operators() {
    let check = |key: &str, operator: &str, values: &[&str], expect: bool| {
        let term = json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        assert_eq!(required(term), expect, "{key} {operator} {values:?}");
    };
    check("disk", "In", &["hdd", "ssd"], true);
    check("disk", "In", &["hdd"], false);
    check("absent", "In", &["hdd"], false);
    check("disk", "NotIn", &["hdd"], true);
    check("disk", "NotIn", &["hdd", "ssd"], false);
    check("absent", "NotIn", &["hdd"], true);
    check("disk", "Exists", &[], true);
    check("empty", "Exists", &[], true);
    check("absent", "Exists", &[], false);
    check("disk", "DoesNotExist", &[], false);
    check("absent", "DoesNotExist", &[], true);
    check("size", "Gt", &["4"], true);
    check("size", "Gt", &["5"], false);
    check("size", "Gt", &["-1"], true);
    check("size", "Lt", &["6"], true);
    check("size", "Lt", &["5"], false);
    // Compared as numbers: as texts "5" would be above "10".
    check("size", "Lt", &["10"], true);
    check("disk", "Gt", &["0"], false);
    check("disk", "Lt", &["9"], false);
    check("absent", "Lt", &["9"], false);
    check("size", "Gt", &["four"], false);
    check("size", "Gt", &["1", "2"], false);
}

#[test]
fn terms() {
    let disk = |value: &str| json!({"key": "disk", "operator": "In", "values": [value]});
    let size = json!({"key": "size", "operator": "Exists"});
    let name = |operator: &str, name: &str| json!({"key": "metadata.name", "operator": operator, "values": [name]});
    for (terms, expect) in [
        // "If you specify multiple terms, the Pod can be scheduled if one of the specified terms can be satisfied."
        (json!([{"matchExpressions": [disk("hdd")]}, {"matchExpressions": [disk("ssd")]}]), true),
        // "Multiple expressions in a single matchExpressions field are ANDed."
        (json!([{"matchExpressions": [disk("ssd"), size]}]), true),
        (json!([{"matchExpressions": [disk("hdd"), size]}]), false),
        // "A null or empty node selector term matches no objects."
        (json!([]), false),
        (json!([{}]), false),
        (json!([null]), false),
        (json!([{"matchExpressions": [], "matchFields": []}]), false),
        (json!([{}, {"matchExpressions": [disk("ssd")]}]), true),
        (json!([{"matchFields": [name("In", "m")]}]), true),
        (json!([{"matchFields": [name("In", "n")]}]), false),
        (json!([{"matchFields": [name("NotIn", "n")]}]), true),
        (json!([{"matchFields": [name("NotIn", "m")]}]), false),
        // Expressions and fields of one term must both match.
        (json!([{"matchFields": [name("In", "m")], "matchExpressions": [disk("hdd")]}]), false),
        (json!([{"matchFields": [name("In", "n")], "matchExpressions": [disk("ssd")]}]), false),
    ] {
        assert_eq!(required(terms.clone()), expect, "{terms}");
    }
}

#[test]
fn no_rule_is_no_limit() {
    let world = world();
    for affinity in [json!({}), json!({"nodeAffinity": {}}), Value::Null] {
        let pod = pod(json!({}), json!({"affinity": affinity}));
        assert!(passes("NodeAffinity", &world, &pod, &world.nodes[0]), "{affinity}");
    }
}

#[test]
fn preferred_weights_add_up() {
    let world = world();
    let disk = |weight: i64, value: &str| {
        let expression = json!({"key": "disk", "operator": "In", "values": [value]});
        json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
    };
    for (terms, expect) in [
        (json!([]), 0),
        (json!([disk(7, "ssd")]), 7),
        (json!([disk(7, "ssd"), disk(20, "hdd"), disk(100, "ssd")]), 107),
        (json!([{"weight": 50, "preference": {}}]), 0),
    ] {
        let affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
        let pod = pod(json!({}), json!({"affinity": {"nodeAffinity": affinity}}));
        assert_eq!(node_affinity::preferred_weight(&world, &pod, &world.nodes[0]), expect, "{terms}");
    }
}
