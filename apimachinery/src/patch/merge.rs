//! JSON merge patch (RFC 7396).
//!
//! It decides the patched value; it cannot fail, and never looks at a schema.

use serde_json::{Map, Value};

/// Merges `patch` into `target`: objects member by member, null deletes, everything else replaces.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            value => apply(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// The cases of RFC 7396, appendix A.
    #[test]
    fn the_rfcs_own_cases() {
        let check = |original: Value, patch: Value, expect: Value| {
            let mut doc = original.clone();
            apply(&mut doc, &patch);
            assert_eq!(doc, expect, "{original} + {patch}");
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"]));
        check(json!({"a": "b"}), json!(["c"]), json!(["c"]));
        check(json!({"a": "foo"}), json!(null), json!(null));
        check(json!({"a": "foo"}), json!("bar"), json!("bar"));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(true)),
            (0..5i64).prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn merging_twice_changes_nothing_more(doc in any_json(), patch in any_json()) {
            let mut once = doc;
            apply(&mut once, &patch);
            let mut twice = once.clone();
            apply(&mut twice, &patch);
            prop_assert_eq!(once, twice);
        }
    }
}
