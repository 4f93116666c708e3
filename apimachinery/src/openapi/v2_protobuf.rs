//! Decides what the v2 document says in protobuf, the only form in which kubectl asks for it: every path with its operations,
//! their query parameters and the kinds they are for (by these kubectl finds out whether the server validates fields, for
//! `kind: List` in particular). Schemas are left to v3. Field numbers are those of gnostic's `openapi.v2.Document`.

use super::{Dialect, KUBERNETES_VERSION, Row, paths};
use crate::protobuf::wire::Writer;
use serde_json::Value;

/// Methods with their field numbers in `PathItem`.
const METHODS: [(&str, u16); 5] = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];
const KIND: &str = "x-kubernetes-group-version-kind";

/// The media type that clients ask for; the answer's differs in one character.
pub const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
pub const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `others`: paths with their operations that are not made from rows.
pub fn document<'a>(rows: &[Row<'_>], others: impl Iterator<Item = (&'a str, &'a Value)>) -> Vec<u8> {
    let mut document = Writer::default();
    document.bytes(1, b"2.0");
    document.bytes(2, &info());
    let mut all = Writer::default();
    for (path, operations) in paths::of(rows, Dialect::V2) {
        all.bytes(2, &named(&path, &path_item(&operations)));
    }
    for (path, operations) in others {
        all.bytes(2, &named(path, &path_item(operations)));
    }
    document.bytes(8, &all.into_bytes());
    document.into_bytes()
}

fn info() -> Vec<u8> {
    let mut info = Writer::default();
    info.bytes(1, b"Kubernetes");
    info.bytes(2, KUBERNETES_VERSION.as_bytes());
    info.into_bytes()
}

/// An entry of any of gnostic's maps.
fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut entry = Writer::default();
    entry.bytes(1, name.as_bytes());
    entry.bytes(2, value);
    entry.into_bytes()
}

fn path_item(operations: &Value) -> Vec<u8> {
    let mut item = Writer::default();
    for (method, number) in METHODS {
        if let Some(one) = operations.get(method) {
            item.bytes(number, &operation(one));
        }
    }
    item.into_bytes()
}

fn operation(json: &Value) -> Vec<u8> {
    let mut operation = Writer::default();
    operation.bytes(5, json["operationId"].as_str().unwrap_or_default().as_bytes());
    for parameter in json["parameters"].as_array().into_iter().flatten().filter(|one| one["in"] == "query") {
        operation.bytes(8, &query_parameter(parameter));
    }
    if let Some(kind) = json.get(KIND) {
        // JSON is YAML.
        let mut any = Writer::default();
        any.bytes(2, kind.to_string().as_bytes());
        operation.bytes(13, &named(KIND, &any.into_bytes()));
    }
    operation.into_bytes()
}

/// `ParametersItem{Parameter{NonBodyParameter{QueryParameterSubSchema}}}`.
fn query_parameter(json: &Value) -> Vec<u8> {
    let mut query = Writer::default();
    for (number, field) in [(2, "in"), (4, "name"), (6, "type")] {
        query.bytes(number, json[field].as_str().unwrap_or_default().as_bytes());
    }
    [3, 2, 1].into_iter().fold(query.into_bytes(), |inner, number| {
        let mut outer = Writer::default();
        outer.bytes(number, &inner);
        outer.into_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::wire::Reader;

    /// The values of one field of a message.
    fn field(message: &[u8], number: u64) -> Vec<Vec<u8>> {
        let mut reader = Reader::new(message);
        let mut found = vec![];
        while let Some((at, wire)) = reader.next().expect("well formed") {
            if at == number {
                found.push(wire.bytes("").expect("length-delimited").to_vec());
            }
        }
        found
    }

    fn only(message: &[u8], path: &[u64]) -> Vec<u8> {
        path.iter().fold(message.to_vec(), |message, number| field(&message, *number).remove(0))
    }

    #[test]
    fn kubectl_finds_that_patches_validate_fields() {
        let document = document(&crate::openapi::built_in(), std::iter::empty());
        let paths = field(&only(&document, &[8]), 2);
        let path = paths.iter().find(|entry| only(entry, &[1]) == b"/api/v1/namespaces/{name}").expect("a Namespace");
        let patch = only(path, &[2, 8]);
        let names: Vec<Vec<u8>> = field(&patch, 8).iter().map(|item| only(item, &[1, 2, 3, 4])).collect();
        assert!(names.contains(&b"fieldValidation".to_vec()), "{names:?}");
        let extension = only(&patch, &[13]);
        assert_eq!(only(&extension, &[1]), KIND.as_bytes());
        let kind: Value = serde_json::from_slice(&only(&extension, &[2, 2])).expect("JSON");
        assert_eq!(kind, serde_json::json!({"group": "", "version": "v1", "kind": "Namespace"}));
    }
}
