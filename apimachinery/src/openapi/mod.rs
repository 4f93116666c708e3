//! Decides what the API says of itself: the OpenAPI v3 document of each group-version, their index, and the v2 document.
//! All are made from the schema tables and the kind table when asked for, and never kept: nobody asks often.

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

/// The index at `/openapi/v3`: each document's address, with a hash of its content so that clients may cache it for ever.
/// `edition` names the texts that the documents will be given.
pub fn v3_index(edition: &str) -> Vec<u8> {
    let mut paths = Map::new();
    for (group, version) in group_versions() {
        let path = group_path(group, version);
        let url = format!("/openapi/v3/{path}?hash={}", hash(group, version, edition));
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths }).to_string().into_bytes()
}

/// The hash that the index gives for this document. It covers everything a document is made from.
pub fn hash(group: &str, version: &str, edition: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(edition);
    hasher.update(env!("CARGO_PKG_VERSION"));
    hasher.update(Schema::builtin().digest());
    for kind in kinds_of(group, version) {
        hasher.update(format!("{kind:?}"));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The document of one group-version, or nothing if it is not served. `group` is empty for the core group.
pub fn v3(group: &str, version: &str, prose: &dyn Prose) -> Option<Vec<u8>> {
    let kinds: Vec<&Kind> = kinds_of(group, version).collect();
    if kinds.is_empty() {
        return None;
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths::of(&kinds, Dialect::V3),
        "components": {
            "schemas": schemas::of(&reachable(&kinds), Dialect::V3, prose),
            "securitySchemes": security(),
        },
    });
    Some(document.to_string().into_bytes())
}

/// The v2 document, of all group-versions at once.
pub fn v2(prose: &dyn Prose) -> Vec<u8> {
    let document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths::of(KINDS, Dialect::V2),
        "definitions": schemas::of(&reachable(KINDS), Dialect::V2, prose),
        "securityDefinitions": security(),
        "security": [{ "BearerToken": [] }],
    });
    document.to_string().into_bytes()
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": KUBERNETES_VERSION })
}

fn security() -> Value {
    json!({ "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header",
        "description": "Bearer Token authentication" } })
}

fn group_versions() -> BTreeSet<(&'static str, &'static str)> {
    KINDS.iter().map(|kind| (kind.group, kind.version)).collect()
}

fn kinds_of(group: &str, version: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().copied().filter(move |kind| kind.group == group && kind.version == version)
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
    for body in ["APIResourceList", "DeleteOptions", "Status", "WatchEvent", "Patch"] {
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
