//! Properties of all schemas and objects.

use super::*;
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        keyword().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keyword(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Words that schemas and objects use, so that arbitrary JSON is nearly a schema.
fn keyword() -> impl Strategy<Value = String> {
    let words = [
        "type",
        "properties",
        "items",
        "additionalProperties",
        "object",
        "array",
        "string",
        "integer",
        "default",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "enum",
        "required",
        "pattern",
        "format",
        "nullable",
        "maxLength",
        "minimum",
        "a",
        "b",
        "metadata",
        "kind",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "map",
        "set",
        "x-kubernetes-map-type",
        "atomic",
        "x-kubernetes-validations",
        "rule",
        "self.a == self.b",
        "message",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

/// A schema that is structural, and an object that it may or may not allow.
fn schema(depth: u32) -> BoxedStrategy<Value> {
    let text = prop_oneof![
        Just(json!({"type": "string", "maxLength": 2})),
        Just(json!({"type": "string", "default": "b", "enum": ["a", "b"]})),
        Just(json!({"type": "integer", "minimum": 0, "default": 1})),
        Just(json!({"type": "boolean", "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    if depth == 0 {
        return text.boxed();
    }
    let inner = schema(depth - 1);
    let object = prop::collection::btree_map("[a-c]", inner.clone(), 0..3);
    let object = (object, any::<bool>(), any::<bool>()).prop_map(|(properties, keep, required)| {
        let mut schema = json!({"type": "object", "properties": properties});
        if keep {
            schema["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        if required {
            schema["required"] = json!(["a"]);
        }
        schema
    });
    let list = inner.clone().prop_map(|items| json!({"type": "array", "items": items}));
    let map = inner.prop_map(|value| json!({"type": "object", "additionalProperties": value}));
    prop_oneof![text, object, list, map].boxed()
}

fn object(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![Just(Value::Null), Just(json!("a")), Just(json!("abc")), Just(json!(1)), Just(json!(true)),];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = object(depth - 1);
    prop_oneof![
        leaf,
        prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
        prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
    ]
    .boxed()
}

fn is_valid(schema: &Structural, object: &Value) -> bool {
    let mut errors = FieldErrors::new();
    schema.validate(object, None, &mut errors);
    errors.is_empty()
}

proptest! {
    #[test]
    fn any_json_is_parsed_or_refused(schema in any_json(), object in any_json(), old in any_json()) {
        let mut errors = FieldErrors::new();
        let parsed = Structural::parse(&schema, "S", &mut errors);
        prop_assert_eq!(parsed.is_some(), errors.is_empty());
        if let Some(parsed) = parsed {
            let mut object = object;
            parsed.validate(&object, Some(&old), &mut errors);
            parsed.prune(&mut object);
            parsed.default(&mut object);
            parsed.validate(&object, None, &mut errors);
            parsed.schema("g", "v1", "K");
        }
    }

    #[test]
    fn pruning_and_defaulting_happen_once(spec in schema(3), value in object(3)) {
        let schema = with_spec(spec);
        let mut object = json!({"spec": value});
        schema.prune(&mut object);
        let pruned = object.clone();
        prop_assert_eq!(schema.prune(&mut object), [""; 0]);
        prop_assert_eq!(&object, &pruned);
        schema.default(&mut object);
        let defaulted = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(&object, &defaulted);
        prop_assert_eq!(schema.prune(&mut object), [""; 0]);
    }

    #[test]
    fn a_valid_object_stays_valid(spec in schema(3), value in object(3)) {
        let schema = with_spec(spec);
        let mut object = json!({"spec": value});
        // A field may be required and unknown: before it is pruned, the object is valid.
        schema.prune(&mut object);
        if is_valid(&schema, &object) {
            schema.default(&mut object);
            prop_assert!(is_valid(&schema, &object), "{}", object);
        }
    }

    #[test]
    fn nothing_is_wrong_with_what_does_not_change(spec in schema(3), value in object(3)) {
        let schema = with_spec(spec);
        let object = json!({"spec": value});
        let mut errors = FieldErrors::new();
        schema.validate(&object, Some(&object), &mut errors);
        prop_assert!(errors.is_empty(), "{}", errors);
    }

    #[test]
    fn the_table_knows_every_field(spec in schema(3)) {
        let parsed = with_spec(spec.clone());
        let table = parsed.schema("example.com", "v1", "A");
        let root = table.kind("example.com", "v1", "A").expect("the root");
        let ty = root.member("spec").expect("spec");
        let properties = spec.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for name in properties.keys() {
            prop_assert!(ty.member(name).is_some(), "{}", name);
        }
    }
}
