//! Tests of paths and of the cells that they fill.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn object() -> Value {
    json!({
        "metadata": {"labels": {"a.b": "dotted", "app.kubernetes.io/name": "web"}},
        "spec": {"replicas": 3, "list": [{"n": 1, "v": "x"}, {"n": 2, "v": "y"}, {"n": 3}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
    })
}

#[test]
fn paths_find_values() {
    let check = |path: &str, expect: Value| {
        let parsed = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let object = object();
        let found: Vec<Value> = parsed.find(&object).into_iter().cloned().collect();
        assert_eq!(Value::from(found), expect, "{path}");
    };
    check(".spec.replicas", json!([3]));
    check("{.spec.replicas}", json!([3]));
    check("$.spec['replicas']", json!([3]));
    check(".spec.zzz.deep", json!([]));
    check(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]));
    check(".status.conditions[?(@.type == 'Synced')].status", json!(["False"]));
    check(".status.conditions[?(@.type != 'Ready')].type", json!(["Synced"]));
    check(".spec.list[?(@.n > 1)].n", json!([2, 3]));
    check(".spec.list[?(@.n<=2)].v", json!(["x", "y"]));
    check(".spec.list[?(@.v)].n", json!([1, 2]));
    check(r".metadata.labels.a\.b", json!(["dotted"]));
    check(r".metadata.labels.app\.kubernetes\.io/name", json!(["web"]));
    check(".metadata.labels['a.b']", json!(["dotted"]));
    check(".spec.list[*].n", json!([1, 2, 3]));
    check(".spec.list[0].n", json!([1]));
    check(".spec.list[-1].n", json!([3]));
    check(".spec.list[0,2].n", json!([1, 3]));
    check(".spec.list[1:].n", json!([2, 3]));
    check(".spec.list[0:3:2].n", json!([1, 3]));
    check(".spec.list[9].n", json!([]));
    check(".spec.list[2:1].n", json!([]));
    check(".metadata.labels.*", json!(["dotted", "web"]));
    check("..n", json!([1, 2, 3]));
    check(".spec['replicas','zzz']", json!([3]));
}

#[test]
fn bad_paths_are_refused() {
    let check = |path: &str, expect: &str| {
        let error = JsonPath::parse(path).expect_err(path).to_string();
        assert!(error.contains(expect), "{path}: {error}");
    };
    check("spec", "unexpected");
    check(".spec[", "invalid array index");
    check(".spec[0", "unterminated array");
    check(".spec[x]", "invalid array index");
    check(".spec['x", "unterminated quoted string");
    check(".a[?(@.x==]", "unrecognized operand");
    check(".a[?(@.x=='y']", "unterminated filter");
    check(".a[?@.x]", "a filter begins with ?(");
    check(".a[0:1:0]", "step must be > 0");
    check(".a.!", "a name is missing");
    check(&format!(".{}", "a".repeat(5000)), "longer than");
    check(&format!(".a{}", "[?(@".repeat(100)), "nest too deeply");
}

#[test]
fn cells_have_their_columns_type() {
    let now: Timestamp = "2024-01-01T01:00:00Z".parse().unwrap();
    let check = |value: Value, column: &str, expect: Value| {
        assert_eq!(cell(Some(&value), column, now), expect, "{value} {column}");
    };
    check(json!(3), "integer", json!(3));
    check(json!(3.7), "integer", json!(3));
    check(json!("3"), "integer", json!(null));
    check(json!(1.5), "number", json!(1.5));
    check(json!(true), "boolean", json!(true));
    check(json!("x"), "string", json!("x"));
    check(json!(3), "string", json!("3"));
    check(json!({"a": [1]}), "string", json!("{\"a\":[1]}"));
    check(json!("2024-01-01T00:00:00Z"), "date", json!("60m"));
    check(json!("x"), "date", json!("<invalid>"));
    assert_eq!(cell(None, "string", now), json!(null));
}

#[test]
fn filters_within_filters_stay_cheap() {
    let items: Vec<Value> = (0..200).map(|n| json!({"n": n, "l": vec![json!({"m": 1}); 1000]})).collect();
    let path = JsonPath::parse("[?(@.l[?(@.m == 2)].m == 1)].n").unwrap();
    let mut left = MAX_STEPS;
    assert!(path.walk(&items.into(), &mut left).is_empty());
    assert_eq!(left, 0);
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "[\\[\\].a'\"?(@=<0-9:,* \\\\{}$é]{0,24}") {
        if let Ok(path) = JsonPath::parse(&text) {
            path.find(&object());
        }
    }
}
