//! Decides what the API says of itself: the OpenAPI v3 document of each group-version, their index, and the v2 document.
//! All are made from the schema tables and the kind table when asked for, and never kept: nobody asks often.

mod custom;
mod paths;
mod schemas;
pub mod v2_protobuf;

use crate::kinds::{KINDS, Kind};
use crate::schema::{Schema, Type};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// The version that the documents and `/version` name.
pub const KUBERNETES_VERSION: &str = "v1.35.2";

/// Where `kubectl explain`'s texts come from. The tables have none.
pub trait Prose {
    /// What is known of a type (official name) or of one of its fields.
    fn describe(&self, ty: &str, field: Option<&str>) -> Option<String>;
}

/// No texts at all.
pub struct NoProse;

impl Prose for NoProse {
    fn describe(&self, _: &str, _: Option<&str>) -> Option<String> {
        None
    }
}

/// Which of the two formats is written; they differ in where schemas lie and how fields refer to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> String {
        match self {
            Dialect::V2 => format!("#/definitions/{name}"),
            Dialect::V3 => format!("#/components/schemas/{name}"),
        }
    }
}

/// What is served: kinds of the table, and custom resources with their own schemas.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub kind: &'static Kind,
    pub custom: Option<&'a Value>,
}

/// Every kind of the table.
pub fn built_in() -> Vec<Row<'static>> {
    KINDS.iter().map(|kind| Row { kind, custom: None }).collect()
}

/// The index at `/openapi/v3`: each document's address, with a hash of its content so that clients may cache it for ever.
/// `edition` names the texts that the documents will be given. `others`: documents that are not made here, with their addresses.
pub fn v3_index(rows: &[Row<'_>], edition: &str, others: impl Iterator<Item = (String, String)>) -> Vec<u8> {
    let mut paths: Map<String, Value> = others.map(|(path, url)| (path, json!({ "serverRelativeURL": url }))).collect();
    let versions: BTreeSet<_> = rows.iter().map(|row| (row.kind.group, row.kind.version)).collect();
    for (group, version) in versions {
        let path = group_path(group, version);
        let url = format!("/openapi/v3/{path}?hash={}", hash(rows, group, version, edition));
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths }).to_string().into_bytes()
}

/// The hash that the index gives for this document. It covers everything a document is made from.
pub fn hash(rows: &[Row<'_>], group: &str, version: &str, edition: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(edition);
    hasher.update(env!("CARGO_PKG_VERSION"));
    hasher.update(Schema::builtin().digest());
    for row in rows_of(rows, group, version) {
        hasher.update(format!("{:?}", row.kind));
        if let Some(schema) = row.custom {
            hasher.update(schema.to_string());
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The document of one group-version, or nothing if it is not served. `group` is empty for the core group.
pub fn v3(rows: &[Row<'_>], group: &str, version: &str, prose: &dyn Prose) -> Option<Vec<u8>> {
    let rows = rows_of(rows, group, version);
    if rows.is_empty() {
        return None;
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths::of(&rows, Dialect::V3),
        "components": {
            "schemas": all_schemas(&rows, Dialect::V3, prose),
            "securitySchemes": security(),
        },
    });
    Some(document.to_string().into_bytes())
}

/// The v2 document, of all group-versions at once.
pub fn v2(rows: &[Row<'_>], prose: &dyn Prose) -> Vec<u8> {
    let document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths::of(rows, Dialect::V2),
        "definitions": all_schemas(rows, Dialect::V2, prose),
        "securityDefinitions": security(),
        "security": [{ "BearerToken": [] }],
    });
    document.to_string().into_bytes()
}

fn all_schemas(rows: &[Row<'_>], dialect: Dialect, prose: &dyn Prose) -> Map<String, Value> {
    let kinds: Vec<&Kind> = rows.iter().map(|row| row.kind).collect();
    let mut all = schemas::of(&reachable(&kinds), dialect, prose);
    for row in rows {
        if let Some(schema) = row.custom {
            all.extend(custom::schemas(row.kind, schema, dialect));
        }
    }
    all
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": KUBERNETES_VERSION })
}

fn security() -> Value {
    json!({ "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header",
        "description": "Bearer Token authentication" } })
}

fn rows_of<'a>(rows: &[Row<'a>], group: &str, version: &str) -> Vec<Row<'a>> {
    rows.iter().copied().filter(|row| row.kind.group == group && row.kind.version == version).collect()
}

/// `api/v1`, `apis/apps/v1`.
fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Every struct that the kinds, their lists, their subresources and the common bodies refer to.
fn reachable(kinds: &[&Kind]) -> Vec<Type<'static>> {
    let schema = Schema::builtin();
    let mut queue: Vec<Type<'static>> = vec![];
    for kind in kinds {
        queue.extend(schema.kind(kind.group, kind.version, kind.kind));
        queue.extend(schema.kind(kind.group, kind.version, &kind.list_kind()));
        queue.extend(kind.subresources.iter().filter_map(|sub| schema.kind(sub.group, sub.version, sub.kind)));
    }
    for body in ["APIResourceList", "DeleteOptions", "ListMeta", "ObjectMeta", "Status", "WatchEvent", "Patch"] {
        queue.extend(schema.named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{body}")));
    }
    let mut seen = BTreeSet::new();
    let mut types = vec![];
    while let Some(ty) = queue.pop() {
        if seen.insert(ty.name()) {
            types.push(ty);
            queue.extend(ty.fields().filter_map(|field| innermost_struct(field.ty())));
        }
    }
    types
}

fn innermost_struct(ty: Type<'static>) -> Option<Type<'static>> {
    match ty.items().or_else(|| ty.map_value()) {
        Some(inner) => innermost_struct(inner),
        None => ty.is_object().then_some(ty).or_else(|| schemas::referred(ty)),
    }
}

#[cfg(test)]
mod tests;
