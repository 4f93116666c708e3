//! How deeply JSON may nest. It decides the limit and measures without recursion; who refuses what is deeper is the caller.

use serde_json::Value;

/// Arrays and objects inside one another, the outermost included. Below the 127 that JSON readers accept, with room for the lists
/// and events that objects are sent in.
pub const MAX_DEPTH: usize = 100;

/// How many arrays and objects are inside one another; 0 for a scalar.
pub fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, level + 1))),
            _ => continue,
        }
        deepest = deepest.max(level);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_count_and_scalars_do_not() {
        let check = |value: Value, expect: usize| assert_eq!(depth(&value), expect, "{value}");
        check(json!(1), 0);
        check(json!({}), 1);
        check(json!([1, [2], {"a": [3]}]), 3);
        check(json!({"a": {"b": {"c": 1}}, "d": []}), 3);
    }
}
