//! Tests of which values are refused, and in which words.

use super::*;

fn errors(schema: &Structural, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = FieldErrors::new();
    schema.validate(new, old, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with `spec.a`; `$` stands for its path.
fn check(property: Value, value: Value, expect: &[&str]) {
    let schema = with_spec(json!({"type": "object", "properties": {"a": property}}));
    let expect: Vec<String> = expect.iter().map(|text| text.replace('$', "spec.a")).collect();
    assert_eq!(errors(&schema, &json!({"spec": {"a": value}}), None), expect, "{property}");
}

#[test]
fn types_are_those_of_json() {
    let wrong = |kind: &str, got: &str| format!("$: Invalid value: {got:?}: $ in body must be of type {kind}: {got:?}");
    check(json!({"type": "integer"}), json!(1), &[]);
    check(json!({"type": "integer"}), json!(1.0), &[]);
    check(json!({"type": "integer"}), json!(1.5), &[&wrong("integer", "number")]);
    check(json!({"type": "integer"}), json!("1"), &[&wrong("integer", "string")]);
    check(json!({"type": "number"}), json!(1), &[]);
    check(json!({"type": "boolean"}), json!("true"), &[&wrong("boolean", "string")]);
    check(json!({"type": "string"}), json!({}), &[&wrong("string", "object")]);
    check(json!({"type": "object"}), json!([]), &[&wrong("object", "array")]);
    check(json!({"type": "string"}), json!(null), &[&wrong("string", "null")]);
    check(json!({"type": "string", "nullable": true}), json!(null), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), json!(1), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), json!("1"), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), json!(true), &[&wrong("integer,string", "boolean")]);
}

#[test]
fn bounds_hold() {
    let number = |words: &str, value: &str| format!("$: Invalid value: {value}: $ in body should be {words}");
    let int = |keyword: &str, limit: i64| json!({"type": "integer", keyword: limit});
    check(int("minimum", 1), json!(0), &[&number("greater than or equal to 1", "0")]);
    check(int("minimum", 1), json!(1), &[]);
    check(
        int("maximum", 2147483647),
        json!(2147483648_i64),
        &[&number("less than or equal to 2147483647", "2147483648")],
    );
    let strict =
        json!({"type": "number", "maximum": 1, "exclusiveMaximum": true, "minimum": 0, "exclusiveMinimum": true});
    check(strict.clone(), json!(1.0), &[&number("less than 1", "1.0")]);
    check(strict.clone(), json!(0), &[&number("greater than 0", "0")]);
    check(strict, json!(0.5), &[]);
    check(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]);
    check(int("multipleOf", 5), json!(7), &[&number("a multiple of 5", "7")]);
    check(
        json!({"type": "number", "maximum": 1e7}),
        json!(1e8),
        &[&number("less than or equal to 1e+07", "100000000.0")],
    );
    let text = json!({"type": "string", "minLength": 2, "maxLength": 3});
    check(text.clone(), json!("éé"), &[]);
    check(text.clone(), json!("é"), &["$: Invalid value: \"é\": $ in body should be at least 2 chars long"]);
    check(text, json!("abcd"), &["$: Too long: may not be more than 3 bytes"]);
    let list = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}});
    check(list.clone(), json!([]), &["$: Invalid value: 0: $ in body should have at least 1 items"]);
    check(list.clone(), json!([1, 2, 3]), &["$: Too many: 3: must have at most 2 items"]);
    check(list, json!(["x"]), &["$[0]: Invalid value: \"string\": $[0] in body must be of type integer: \"string\""]);
    let map =
        json!({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "integer"}});
    check(map.clone(), json!({}), &["$: Invalid value: 0: $ in body should have at least 1 properties"]);
    check(map.clone(), json!({"a": 1, "b": 2}), &["$: Too many: 2: must have at most 1 item"]);
    check(map, json!({"a": "x"}), &["$.a: Invalid value: \"string\": $.a in body must be of type integer: \"string\""]);
}

#[test]
fn texts_match() {
    let pattern = json!({"type": "string", "pattern": "^[a-z]+"});
    check(pattern.clone(), json!("abc"), &[]);
    check(pattern, json!("A"), &["$: Invalid value: \"A\": $ in body should match '^[a-z]+'"]);
    let format = json!({"type": "string", "format": "date-time"});
    check(format.clone(), json!("2024-01-01T00:00:00Z"), &[]);
    check(format, json!("x"), &["$: Invalid value: \"x\": $ in body must be of type date-time: \"x\""]);
    check(json!({"type": "string", "format": "anything"}), json!("x"), &[]);
    let choice = json!({"type": "string", "enum": ["A", "B"]});
    check(choice.clone(), json!("A"), &[]);
    check(choice, json!("C"), &["$: Unsupported value: \"C\": supported values: \"A\", \"B\""]);
    check(json!({"type": "number", "enum": [1, 2.5]}), json!(1.0), &[]);
    let null = json!({"type": "string", "nullable": true, "enum": ["A"]});
    check(null, json!(null), &["$: Unsupported value: null: supported values: \"A\""]);
}

#[test]
fn required_fields_are_missed() {
    let object = json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}});
    check(object, json!({}), &["$.b: Required value"]);
    let root = parsed(json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}}));
    assert_eq!(errors(&root, &json!({}), None), ["spec: Required value"]);
    check(
        json!({"type": "object", "additionalProperties": false}),
        json!({"z": 1}),
        &["$: Invalid value: \"z\": $.z in body is a forbidden property"],
    );
}

#[test]
fn junctors_choose() {
    let junctor = |keyword: &str| {
        let one = |name: &str| json!({"required": [name]});
        let properties = json!({"b": {"type": "string"}, "c": {"type": "string"}});
        json!({"type": "object", "properties": properties, keyword: [one("b"), one("c")]})
    };
    let said = |words: &str| format!("<nil>: Invalid value: \"\": \"$\" must validate {words}");
    check(junctor("oneOf"), json!({"b": "x"}), &[]);
    let none = said("one and only one schema (oneOf). Found none valid");
    check(junctor("oneOf"), json!({}), &[&none, "$.b: Required value"]);
    let two = said("one and only one schema (oneOf). Found 2 valid alternatives");
    check(junctor("oneOf"), json!({"b": "x", "c": "y"}), &[&two]);
    check(junctor("anyOf"), json!({"b": "x", "c": "y"}), &[]);
    check(junctor("anyOf"), json!({}), &[&said("at least one schema (anyOf)"), "$.b: Required value"]);
    check(junctor("allOf"), json!({"b": "x"}), &["$.c: Required value", &said("all the schemas (allOf)")]);
    let mut not = junctor("anyOf");
    not["not"] = json!({"required": ["b", "c"]});
    let refused = "<nil>: Invalid value: \"\": \"$\" must not validate the schema (not)";
    check(not.clone(), json!({"b": "x"}), &[]);
    check(not, json!({"b": "x", "c": "y"}), &[refused]);
}

#[test]
fn items_of_sets_and_maps_differ() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    check(set, json!(["a", "b", "a", "a"]), &["$[2]: Duplicate value: \"a\""]);
    let map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}, "v": {"type": "string"}}},
    });
    check(map.clone(), json!([{"k": 1}, {"k": 2}]), &[]);
    check(map, json!([{"k": 1, "v": "a"}, {"k": 1, "v": "b"}]), &["$[1]: Duplicate value: {\"k\":1}"]);
}

#[test]
fn embedded_resources_have_headers() {
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    check(embedded.clone(), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}), &[]);
    check(embedded.clone(), json!({}), &["$.apiVersion: Required value", "$.kind: Required value"]);
    let bad = json!({"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"name": "a/b"}});
    check(
        embedded,
        bad,
        &[
            "$.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            "$.metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ],
    );
}

#[test]
fn what_was_invalid_and_did_not_change_stays() {
    let schema = with_spec(json!({"type": "object", "properties": {
        "a": {"type": "integer", "maximum": 1},
        "b": {"type": "integer"},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
            {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        "atomic": {"type": "array", "items": {"type": "integer", "maximum": 1}},
    }}));
    let check = |old: Value, new: Value, expect: &[&str]| {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        assert_eq!(errors(&schema, &new, Some(&old)), expect, "{new}");
    };
    let too_big = |place: &str, value: i64| {
        format!("{place}: Invalid value: {value}: {place} in body should be less than or equal to 1")
    };
    check(json!({"a": 5}), json!({"a": 5, "b": 1}), &[]);
    check(json!({"a": 5}), json!({"a": 6}), &[&too_big("spec.a", 6)]);
    let old = json!({"list": [{"k": "x", "v": 5}]});
    check(old.clone(), json!({"list": [{"k": "y", "v": 1}, {"k": "x", "v": 5}]}), &[]);
    check(old, json!({"list": [{"k": "y", "v": 5}]}), &[&too_big("spec.list[0].v", 5)]);
    check(json!({"atomic": [5]}), json!({"atomic": [5], "b": 1}), &[]);
    check(json!({"atomic": [5]}), json!({"atomic": [5, 1]}), &[&too_big("spec.atomic[0]", 5)]);
}

#[test]
fn hostile_objects_are_bounded() {
    let numbers = json!({"type": "array", "items": {"type": "integer"}});
    let schema = with_spec(numbers);
    let found = errors(&schema, &json!({"spec": vec!["x"; 5000]}), None);
    assert_eq!(found.len(), 1000);
    let choices: Vec<Value> = (0..1000).map(|n| json!({"maximum": -n})).collect();
    let schema = with_spec(json!({"type": "array", "items": {"type": "integer", "not": {"anyOf": choices}}}));
    let found = errors(&schema, &json!({"spec": vec![1; 20_000]}), None);
    assert!(found.iter().any(|error| error.contains("too many values and schemas to check")), "{found:?}");
}
