//! Tests of the rules that schemas carry.

use super::*;

fn schema_errors(spec: Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Structural::parse(&schema, "S", &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// A `spec` of these fields that has one rule.
fn ruled(properties: Value, rule: Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]})
}

fn fields() -> Value {
    json!({
        "a": {"type": "integer"}, "b": {"type": "integer"}, "s": {"type": "string", "maxLength": 100},
        "f": {"type": "number"}, "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": true}, "namespace": {"type": "string"}, "x-y": {"type": "string"},
        "m": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 10}},
        "set": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 10}},
        "list": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
            {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 10}, "v": {"type": "integer"}}}},
    })
}

#[test]
fn rules_hold_or_are_told() {
    let check = |rule: Value, value: Value, old: Option<Value>, expect: &[&str]| {
        let schema = with_spec(ruled(fields(), rule.clone()));
        let mut errors = FieldErrors::new();
        let old = old.map(|old| json!({"spec": old}));
        schema.validate(&json!({"spec": value}), old.as_ref(), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expect, "{rule}");
    };
    let rule = |text: &str| json!({"rule": text});
    let failed = |text: &str| format!("spec: Invalid value: \"object\": failed rule: {text}");
    check(rule("self.a <= self.b"), json!({"a": 1, "b": 2}), None, &[]);
    check(rule("self.a <= self.b"), json!({"a": 3, "b": 2}), None, &[&failed("self.a <= self.b")]);
    let told = json!({"rule": "self.a == 1", "message": " a is one "});
    check(told, json!({"a": 3}), None, &["spec: Invalid value: \"object\": a is one"]);
    let told = json!({"rule": "self.a == 1", "message": "m", "messageExpression": "'a is ' + string(self.a)"});
    check(told, json!({"a": 3}), None, &["spec: Invalid value: \"object\": a is 3"]);
    let told = json!({"rule": "self.a == 1", "message": "m", "messageExpression": "'b is ' + string(self.b)"});
    check(told, json!({"a": 3}), None, &["spec: Invalid value: \"object\": m"]);
    let placed = json!({"rule": "self.a == 1", "fieldPath": ".a", "reason": "FieldValueForbidden", "message": "no"});
    check(placed, json!({"a": 3}), None, &["spec.a: Forbidden: no"]);
    let placed =
        json!({"rule": "has(self.a)", "fieldPath": "['a']", "reason": "FieldValueRequired", "message": "needed"});
    check(placed, json!({}), None, &["spec.a: Required value: needed"]);
    check(
        rule("self.a == 1"),
        json!({}),
        None,
        &["spec: Invalid value: \"object\": no such key: a evaluating rule: self.a == 1"],
    );
    check(rule("self.f > 1.5"), json!({"f": 2}), None, &[]);
    check(rule("self.t > timestamp('2024-01-01T00:00:00Z')"), json!({"t": "2024-01-02T00:00:00Z"}), None, &[]);
    check(rule("self.d < duration('1h')"), json!({"d": "59m"}), None, &[]);
    check(rule("type(self.port) == int ? self.port == 80 : self.port == '80%'"), json!({"port": "80%"}), None, &[]);
    check(rule("type(self.port) == int ? self.port == 80 : self.port == '80%'"), json!({"port": 80}), None, &[]);
    let no_match = "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.port > 1";
    check(rule("self.port > 1"), json!({"port": "x"}), None, &[no_match]);
    check(
        rule("self.__namespace__ == 'n' && self.x__dash__y == 'z'"),
        json!({"namespace": "n", "x-y": "z"}),
        None,
        &[],
    );
    check(rule("self.m.all(k, self.m[k].startsWith(k))"), json!({"m": {"a": "ab"}}), None, &[]);
    check(rule("self.list.exists(e, e.k == 'x' && e.v == 1)"), json!({"list": [{"k": "x", "v": 1}]}), None, &[]);
    check(
        rule("self.set == ['b', 'a'] && self.set + ['a', 'c'] == ['a', 'b', 'c']"),
        json!({"set": ["a", "b"]}),
        None,
        &[],
    );
    check(rule("self.a >= oldSelf.a"), json!({"a": 1}), None, &[]);
    check(rule("self.a >= oldSelf.a"), json!({"a": 1}), Some(json!({"a": 2})), &[&failed("self.a >= oldSelf.a")]);
    let optional = json!({"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": true});
    check(optional.clone(), json!({"a": 1}), None, &[&failed("oldSelf.hasValue() || self.a == 0")]);
    check(optional, json!({"a": 1}), Some(json!({"a": 2})), &[]);
    let skipped = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let wrong = "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"";
    check(rule("self.a == 1"), json!({"a": "x"}), None, &[wrong, skipped]);
}

#[test]
fn rules_stand_anywhere() {
    let schema = parsed(json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a')"}],
        "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "!has(oldSelf.v) || self.v == oldSelf.v"}]}},
            "m": {"type": "object", "maxProperties": 5, "additionalProperties":
                {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}},
        }}},
    }));
    let check = |new: Value, old: Option<Value>, expect: &[&str]| {
        let mut errors = FieldErrors::new();
        schema.validate(&new, old.as_ref(), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{new}");
    };
    let object =
        |name: &str, list: Value, map: Value| json!({"metadata": {"name": name}, "spec": {"list": list, "m": map}});
    check(object("a", json!([]), json!({})), None, &[]);
    let root = "<nil>: Invalid value: \"object\": failed rule: self.metadata.name.startsWith('a')";
    check(object("b", json!([]), json!({})), None, &[root]);
    let bad = object("a", json!([]), json!({"x": "bad"}));
    check(bad.clone(), None, &["spec.m[x]: Invalid value: \"string\": failed rule: self != 'bad'"]);
    let mut more = bad.clone();
    more["spec"]["m"]["y"] = "good".into();
    check(more, Some(bad), &[]);
    let old = object("a", json!([{"k": "x", "v": 1}, {"k": "y"}]), json!({}));
    check(object("a", json!([{"k": "y", "v": 2}, {"k": "x", "v": 1}]), json!({})), Some(old.clone()), &[]);
    let changed = object("a", json!([{"k": "z"}, {"k": "x", "v": 2}]), json!({}));
    check(
        changed,
        Some(old),
        &["spec.list[1]: Invalid value: \"object\": failed rule: !has(oldSelf.v) || self.v == oldSelf.v"],
    );
}

#[test]
fn lists_without_keys_are_forgiven_as_a_whole() {
    let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]});
    let schema = with_spec(json!({"type": "object", "properties":
        {"l": {"type": "array", "maxItems": 9, "items": item}, "o": {"type": "string"}}}));
    let errors = |new: Value, old: Value| {
        let mut errors = FieldErrors::new();
        schema.validate(&json!({"spec": new}), Some(&json!({"spec": old})), &mut errors);
        errors.len()
    };
    assert_eq!(errors(json!({"l": [9, 8], "o": "x"}), json!({"l": [9, 8]})), 0);
    assert_eq!(errors(json!({"l": [9, 7]}), json!({"l": [9, 8]})), 2);
}

#[test]
fn bad_rules_are_refused() {
    let check = |rule: Value, expect: &str| {
        let errors = schema_errors(ruled(fields(), rule.clone()));
        assert!(errors.len() == 1 && errors[0].contains(expect), "{rule}: {errors:?}");
    };
    let at = "S.properties[spec].x-kubernetes-validations[0]";
    check(json!({"rule": "self.z == 1"}), "compilation failed: ERROR: <input>:1:5: undefined field 'z'");
    check(
        json!({"rule": "self.a"}),
        &format!("{at}.rule: Invalid value: {{\"rule\":\"self.a\"}}: cel expression must evaluate to a bool"),
    );
    check(json!({"rule": " "}), &format!("{at}.rule: Required value: rule is not specified"));
    check(json!({"rule": "true", "message": " "}), "message must be non-empty if specified");
    check(json!({"rule": "true", "message": "a\nb"}), "message must not contain line breaks");
    check(json!({"rule": "true ||\ntrue"}), "message must be specified if rule contains line breaks");
    check(json!({"rule": "true", "messageExpression": "1"}), "messageExpression must evaluate to a string");
    check(json!({"rule": "true", "messageExpression": "self.z"}), "messageExpression compilation failed: ERROR");
    check(json!({"rule": "true", "reason": "Because"}), &format!("{at}.reason: Unsupported value: \"Because\""));
    check(json!({"rule": "true", "fieldPath": ".z"}), "fieldPath must be a valid path");
    check(json!({"rule": "true", "optionalOldSelf": true}), "may not be set if oldSelf is not used in rule");
    let list = json!({"type": "array", "maxItems": 3, "items":
        {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
    let apart = "oldSelf cannot be used on the uncorrelatable portion of the schema within S.properties[spec]";
    let errors = schema_errors(list);
    assert!(errors.len() == 1 && errors[0].ends_with(apart), "{errors:?}");
    let open = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]});
    assert!(schema_errors(open)[0].contains("does not support validation rules"));
    let default = json!({"type": "integer", "default": 5, "x-kubernetes-validations": [{"rule": "self < 5"}]});
    let errors = schema_errors(default);
    assert_eq!(errors, ["S.properties[spec].default: Invalid value: \"integer\": failed rule: self < 5"]);
}

#[test]
fn expensive_rules_are_refused_or_stopped() {
    let words = |max: Option<u64>| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        if let Some(max) = max {
            list["maxItems"] = max.into();
            list["items"]["maxLength"] = 10.into();
        }
        list["x-kubernetes-validations"] = json!([{"rule": "self.all(a, !self.exists(b, a == b + 'x'))"}]);
        list
    };
    assert_eq!(schema_errors(words(Some(100))), [""; 0]);
    let errors = schema_errors(words(None));
    assert!(errors[0].contains("estimated rule cost exceeds budget by factor of more than 100x"), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("total for entire OpenAPIv3 schema")), "{errors:?}");
    // What stays below the estimate may still be more than one run may cost.
    let schema = with_spec(words(Some(700)));
    let many: Vec<String> = (0..700).map(|n| format!("{n:010}")).collect();
    let mut errors = FieldErrors::new();
    schema.validate(&json!({"spec": many}), None, &mut errors);
    let text = errors.to_string();
    assert!(text.contains("operation cancelled: actual cost limit exceeded"), "{text}");
}
