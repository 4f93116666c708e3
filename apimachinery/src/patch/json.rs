//! JSON patch (RFC 6902).
//!
//! It decides the patched value and refuses patches that could grow without bound; it never changes the document when one
//! operation fails.

use crate::depth::{MAX_DEPTH, depth};
use crate::status::{Reason, Status};
use json_patch::{PatchErrorKind, PatchOperation};
use serde::Deserialize;
use serde_json::Value;

/// Kubernetes' limit on operations in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// What all `copy` operations of one patch may add, in bytes of JSON.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a patch was not applied. The request is at fault; nobody retries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    #[error("a JSON patch is an array of operations")]
    NotAnArray,
    #[error("operation {index} of the JSON patch is malformed: {reason}")]
    Malformed { index: usize, reason: String },
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    #[error("operation {index} of the JSON patch copies more than {MAX_COPIED_BYTES} bytes in all")]
    CopiesTooMuch { index: usize },
    #[error("operation {index} of the JSON patch nests deeper than {MAX_DEPTH} levels")]
    TooDeep { index: usize },
    #[error("operation {index} of the JSON patch, {operation}, does not apply: {reason}")]
    DoesNotApply { index: usize, operation: String, reason: String },
}

impl From<JsonPatchError> for Status {
    fn from(error: JsonPatchError) -> Status {
        match &error {
            JsonPatchError::NotAnArray | JsonPatchError::Malformed { .. } => Status::bad_request(error.to_string()),
            JsonPatchError::TooManyOperations(_) | JsonPatchError::CopiesTooMuch { .. } => Status::too_large(error),
            JsonPatchError::DoesNotApply { .. } | JsonPatchError::TooDeep { .. } => {
                Status::failure(Reason::Invalid, error.to_string(), None)
            }
        }
    }
}

/// Applies all operations in order, or none.
pub fn apply(doc: &mut Value, patch: &Value) -> Result<(), JsonPatchError> {
    let operations = parse(patch)?;
    let mut patched = doc.clone();
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation {
            copied += patched.pointer(copy.from.as_str()).map_or(0, json_len);
            if copied > MAX_COPIED_BYTES {
                return Err(JsonPatchError::CopiesTooMuch { index });
            }
        }
        if reaches(&patched, operation) > MAX_DEPTH {
            return Err(JsonPatchError::TooDeep { index });
        }
        if finds_nothing(&patched, operation) {
            continue;
        }
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation)).map_err(|e| {
            JsonPatchError::DoesNotApply { index, operation: describe(operation), reason: reason(&e.kind, operation) }
        })?;
    }
    *doc = patched;
    Ok(())
}

/// A test for null also holds where there is no such member, as in Kubernetes: so do clients ask for "no finalizers yet".
fn finds_nothing(doc: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    let Some((parent, member)) = test.path.split_back() else { return false };
    let object = doc.pointer(parent.as_str()).and_then(Value::as_object);
    test.value.is_null() && object.is_some_and(|object| !object.contains_key(member.decoded().as_ref()))
}

/// The deepest level of what the operation would put into the document.
fn reaches(doc: &Value, operation: &PatchOperation) -> usize {
    let taken = |from: &str| doc.pointer(from).map_or(0, depth);
    let below = match operation {
        PatchOperation::Add(add) => depth(&add.value),
        PatchOperation::Replace(replace) => depth(&replace.value),
        PatchOperation::Copy(copy) => taken(copy.from.as_str()),
        // What does not go further down than it was cannot be too deep.
        PatchOperation::Move(moved) if moved.path.count() > moved.from.count() => taken(moved.from.as_str()),
        PatchOperation::Move(_) | PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    operation.path().count() + below
}

fn parse(patch: &Value) -> Result<Vec<PatchOperation>, JsonPatchError> {
    let list = patch.as_array().ok_or(JsonPatchError::NotAnArray)?;
    if list.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooManyOperations(list.len()));
    }
    let operation = |(index, value): (usize, &Value)| {
        // RFC 6902 requires the member to be there, also when it is null; serde would take null for a missing one.
        let needs_value = matches!(value["op"].as_str(), Some("add" | "replace" | "test"));
        let malformed = |reason: String| JsonPatchError::Malformed { index, reason };
        if needs_value && value.get("value").is_none() {
            return Err(malformed("missing field `value`".to_owned()));
        }
        PatchOperation::deserialize(value).map_err(|e| malformed(e.to_string()))
    };
    list.iter().enumerate().map(operation).collect()
}

fn describe(operation: &PatchOperation) -> String {
    let path = operation.path();
    match operation {
        PatchOperation::Add(_) => format!("add {path}"),
        PatchOperation::Remove(_) => format!("remove {path}"),
        PatchOperation::Replace(_) => format!("replace {path}"),
        PatchOperation::Move(m) => format!("move {} to {path}", m.from),
        PatchOperation::Copy(c) => format!("copy {} to {path}", c.from),
        PatchOperation::Test(_) => format!("test {path}"),
    }
}

fn reason(kind: &PatchErrorKind, operation: &PatchOperation) -> String {
    match (kind, operation) {
        (PatchErrorKind::TestFailed, _) => "the value differs".to_owned(),
        (PatchErrorKind::InvalidFromPointer, _) => "there is no such path to take from".to_owned(),
        (PatchErrorKind::InvalidPointer, PatchOperation::Add(_)) => "the parent does not exist".to_owned(),
        (PatchErrorKind::InvalidPointer, _) => "there is no such path".to_owned(),
        (kind, _) => kind.to_string(),
    }
}

/// The length of the value as compact JSON, without writing it.
fn json_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(s) => s.len() + 2,
        Value::Array(items) => items.iter().map(|v| json_len(v) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(k, v)| k.len() + 4 + json_len(v)).sum::<usize>() + 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut doc: Value, patch: Value) -> Result<Value, JsonPatchError> {
        apply(&mut doc, &patch).map(|()| doc)
    }

    #[test]
    fn operations_apply_in_order() {
        let check = |doc: Value, patch: Value, expect: Value| assert_eq!(patched(doc, patch), Ok(expect));
        check(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": null}]), json!({"a": 1, "b": null}));
        check(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}));
        check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
        check(json!({"a/b": {"~c": 1}}), json!([{"op": "remove", "path": "/a~1b/~0c"}]), json!({"a/b": {}}));
        check(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1}));
        check(
            json!({"a": {"x": 1}}),
            json!([
                {"op": "copy", "from": "/a", "path": "/b"},
                {"op": "replace", "path": "/b/x", "value": 2},
                {"op": "test", "path": "/a/x", "value": 1},
            ]),
            json!({"a": {"x": 1}, "b": {"x": 2}}),
        );
    }

    #[test]
    fn a_test_for_null_holds_where_nothing_is() {
        let check = |path: &str, value: Value, holds: bool| {
            let doc = json!({"meta": {"null": null, "a/b": 1}, "list": []});
            let test = json!([{"op": "test", "path": path, "value": value}]);
            assert_eq!(patched(doc, test).is_ok(), holds, "{path} {value}");
        };
        check("/meta/finalizers", json!(null), true);
        check("/meta/null", json!(null), true);
        check("/meta/a~1b", json!(null), false);
        check("/meta/finalizers", json!([]), false);
        check("/nothing/finalizers", json!(null), false);
        check("/list/0", json!(null), false);
        check("", json!(null), false);
    }

    #[test]
    fn a_failed_patch_changes_nothing_and_says_which_operation() {
        let check = |patch: Value, code: u16, expect: &str| {
            let mut doc = json!({"a": 1, "l": []});
            let error = apply(&mut doc, &patch).unwrap_err();
            assert_eq!(doc, json!({"a": 1, "l": []}));
            assert_eq!((error.to_string().as_str(), Status::from(error.clone()).code()), (expect, code));
        };
        check(json!({}), 400, "a JSON patch is an array of operations");
        check(
            json!([{"op": "add", "path": "/x"}]),
            400,
            "operation 0 of the JSON patch is malformed: missing field `value`",
        );
        check(
            json!([{"op": "add", "path": "/b", "value": 1}, {"op": "remove", "path": "/zz"}]),
            422,
            "operation 1 of the JSON patch, remove /zz, does not apply: there is no such path",
        );
        check(
            json!([{"op": "test", "path": "/a", "value": 2}]),
            422,
            "operation 0 of the JSON patch, test /a, does not apply: the value differs",
        );
        check(
            json!([{"op": "add", "path": "/x/y", "value": 2}]),
            422,
            "operation 0 of the JSON patch, add /x/y, does not apply: the parent does not exist",
        );
        check(
            json!([{"op": "add", "path": "/l/7", "value": 2}]),
            422,
            "operation 0 of the JSON patch, add /l/7, does not apply: the parent does not exist",
        );
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let path = |tokens: usize| "/a".repeat(tokens);
        let check = |doc: Value, patch: Value, expect: Result<(), JsonPatchError>| {
            assert_eq!(patched(doc, patch).map(|_| ()), expect);
        };
        let too_deep = |index| Err(JsonPatchError::TooDeep { index });
        let add = |tokens: usize, levels: usize| json!([{"op": "add", "path": path(tokens), "value": nested(levels)}]);
        check(nested(60), add(60, MAX_DEPTH - 60), Ok(()));
        check(nested(60), add(60, MAX_DEPTH - 59), too_deep(0));
        check(nested(60), json!([{"op": "replace", "path": path(60), "value": nested(41)}]), too_deep(0));
        let doc = json!({"a": nested(80), "b": nested(40)});
        check(doc.clone(), json!([{"op": "copy", "from": "/b", "path": path(70)}]), too_deep(0));
        check(doc.clone(), json!([{"op": "move", "from": "/b", "path": path(70)}]), too_deep(0));
        check(doc, json!([{"op": "move", "from": "/b", "path": path(50)}]), Ok(()));
        // Each copy puts the document into itself: one level more.
        let sink = vec![json!({"op": "copy", "from": "", "path": "/n"}); 200];
        check(json!({}), Value::from(sink), too_deep(99));
    }

    #[test]
    fn growth_is_bounded() {
        let doubling: Vec<_> = (0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        let error = patched(json!({"a": ["x".repeat(100)]}), Value::from(doubling)).unwrap_err();
        assert!(matches!(error, JsonPatchError::CopiesTooMuch { .. }));
        let many = vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1];
        assert_eq!(patched(json!({}), Value::from(many)), Err(JsonPatchError::TooManyOperations(MAX_OPERATIONS + 1)));
    }
}
