//! Tests of which schemas are refused, and in which words.

use super::*;

/// The errors of a schema, without their common path.
fn errors(schema: &Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    let parsed = Structural::parse(schema, "S", &mut errors);
    assert_eq!(parsed.is_some(), errors.is_empty());
    errors.iter().map(ToString::to_string).collect()
}

/// A root with one property `a`, and what is wrong with that.
fn check(property: Value, expect: &[&str]) {
    let schema = json!({"type": "object", "properties": {"a": property}});
    let expect: Vec<String> = expect.iter().map(|text| text.replace("$", "S.properties[a]")).collect();
    assert_eq!(errors(&schema), expect, "{property}");
}

#[test]
fn every_field_has_a_type() {
    check(json!({}), &["$.type: Required value: must not be empty for specified object fields"]);
    check(
        json!({"type": "array", "items": {}}),
        &["$.items.type: Required value: must not be empty for specified array items"],
    );
    check(json!({"type": "array"}), &["$.items: Required value: must be specified"]);
    check(json!({"x-kubernetes-preserve-unknown-fields": true}), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), &[]);
    let words = "supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"";
    check(json!({"type": "int"}), &[&format!("$.type: Unsupported value: \"int\": {words}")]);
    assert_eq!(errors(&json!({})), ["S.type: Required value: must not be empty at the root"]);
    assert_eq!(errors(&json!({"type": "string"})), ["S.type: Invalid value: \"string\": must be object at the root"]);
    let root = json!({"type": "object", "nullable": true, "additionalProperties": {"type": "string"}});
    assert_eq!(
        errors(&root),
        [
            "S.additionalProperties: Forbidden: must not be used at the root",
            "S.nullable: Forbidden: nullable cannot be true at the root"
        ]
    );
}

#[test]
fn junctors_only_restrict() {
    let forbid =
        |keyword: &str, wanted: &str| format!("$.anyOf[0].{keyword}: Forbidden: must be {wanted} to be structural");
    let inner = |keyword: &str, value: Value| json!({"type": "string", "anyOf": [{keyword: value}]});
    for (keyword, value, wanted) in [
        ("type", json!("string"), "empty"),
        ("default", json!("x"), "undefined"),
        ("nullable", json!(true), "false"),
        ("title", json!("x"), "empty"),
        ("description", json!("x"), "empty"),
        ("x-kubernetes-preserve-unknown-fields", json!(true), "false"),
        ("x-kubernetes-validations", json!([{"rule": "true"}]), "empty"),
    ] {
        check(inner(keyword, value), &[&forbid(keyword, wanted)]);
    }
    check(inner("additionalProperties", json!(true)), &[&forbid("additionalProperties", "undefined")]);
    check(inner("pattern", json!("^a")), &[]);
    check(
        json!({"type": "object", "not": {"properties": {"metadata": {}}}}),
        &["$.not.properties[metadata]: Forbidden: must not be specified in a nested context"],
    );
    let root = json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]});
    assert_eq!(errors(&root), ["S.properties[b]: Required value: because it is defined in S.anyOf[0].properties[b]"]);
}

#[test]
fn integers_or_strings_have_their_pattern() {
    let pattern = json!([{"type": "integer"}, {"type": "string"}]);
    check(json!({"x-kubernetes-int-or-string": true, "anyOf": pattern}), &[]);
    check(json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": pattern}, {"maximum": 1}]}), &[]);
    let other = json!({"x-kubernetes-int-or-string": true, "oneOf": [{"type": "integer"}]});
    check(other, &["$.oneOf[0].type: Forbidden: must be empty to be structural"]);
    check(
        json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
        &[
            "$.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
        ],
    );
}

#[test]
fn list_maps_have_keys() {
    let list = |keys: Value, items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items});
    let item =
        json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "o": {"type": "object"}}});
    check(list(json!(["k"]), item.clone()), &[]);
    let empty = "$.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map";
    check(list(json!([]), item.clone()), &[empty]);
    let no = "$.x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties";
    check(list(json!(["z"]), item.clone()), &[no]);
    let twice = "$.x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\"]: must not contain duplicate entries";
    check(list(json!(["k", "k"]), item.clone()), &[twice]);
    let needs = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
    let scalar = "must be a scalar type if parent array's x-kubernetes-list-type is map";
    check(
        list(json!(["o"]), item.clone()),
        &[
            &format!("$.items.properties[o].default: Required value: {needs}"),
            &format!("$.items.properties[o].type: Invalid value: \"object\": {scalar}"),
        ],
    );
    let mut defaulted = item.clone();
    defaulted["required"] = json!([]);
    defaulted["properties"]["k"]["default"] = "x".into();
    check(list(json!(["k"]), defaulted), &[]);
    let mut nullable = item;
    nullable["nullable"] = true.into();
    let why = "$.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map";
    check(list(json!(["k"]), nullable), &[why]);
    check(
        json!({"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
        &["$.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
    );
    check(
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
        &[
            "$.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    );
    check(
        json!({"type": "string", "x-kubernetes-list-type": "bag"}),
        &[
            "$.type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified",
            "$.x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
        ],
    );
    check(
        json!({"type": "object", "x-kubernetes-map-type": "x"}),
        &["$.x-kubernetes-map-type: Unsupported value: \"x\": supported values: \"atomic\", \"granular\""],
    );
}

#[test]
fn keywords_that_kubernetes_does_not_have_are_refused() {
    for keyword in ["id", "$ref"] {
        let expect = format!("S.properties[a].{keyword}: Forbidden: {keyword} is not supported");
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", keyword: "x"}}});
        assert_eq!(errors(&schema), [expect]);
    }
    check(
        json!({"type": "object", "patternProperties": {"x": {}}}),
        &["$.patternProperties: Forbidden: patternProperties is not supported"],
    );
    check(
        json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
        &["$.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
    );
    check(
        json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        &["$.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    );
    check(
        json!({"type": "array", "items": [{"type": "string"}]}),
        &["$.items: Forbidden: items must be a schema object and not an array"],
    );
    check(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        &["$.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    );
    check(
        json!({"type": "string", "pattern": "("}),
        &[
            "$.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: unclosed group",
        ],
    );
    check(json!({"type": "string", "maxLength": "1"}), &["$.maxLength: Invalid value: \"1\": must be an integer"]);
}

#[test]
fn headers_say_little() {
    let check = |properties: Value, expect: &[&str]| {
        assert_eq!(errors(&json!({"type": "object", "properties": properties})), expect, "{properties}");
    };
    check(json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}}), &[]);
    let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    check(
        json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        &[&format!("S.properties[metadata]: Forbidden: {why}")],
    );
    check(
        json!({"metadata": {"type": "object", "default": {}}}),
        &["S.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    );
    check(
        json!({"kind": {"type": "integer"}}),
        &["S.properties[kind].type: Invalid value: \"integer\": must be string"],
    );
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    let why =
        "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
    check(json!({"e": embedded}), &[&format!("S.properties[e].properties: Required value: {why}")]);
    let embedded = json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let why = "must be object if x-kubernetes-embedded-resource is true";
    check(json!({"e": embedded}), &[&format!("S.properties[e].type: Required value: {why}")]);
}

#[test]
fn defaults_are_pruned_and_valid() {
    check(json!({"type": "string", "default": "x"}), &[]);
    check(
        json!({"type": "string", "default": 1}),
        &["$.default: Invalid value: \"integer\":  in body must be of type string: \"integer\""],
    );
    check(
        json!({"type": "object", "default": {"b": 1}}),
        &["$.default: Invalid value: {\"b\":1}: must not have unknown fields"],
    );
    check(
        json!({"type": "object", "default": {"b": 11}, "properties": {"b": {"type": "integer", "maximum": 9}}}),
        &["$.default.b: Invalid value: 11: b in body should be less than or equal to 9"],
    );
}

#[test]
fn hostile_schemas_are_bounded() {
    let mut deep = json!({"type": "object"});
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert_eq!(errors(&deep), ["S: Forbidden: must not nest more than 100 levels"]);
    let many: Vec<Value> = vec![json!({}); 100_001];
    let found = errors(&json!({"type": "object", "anyOf": many}));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("Too many: 100001: must have at most 100000 items"), "{}", found[0]);
}
