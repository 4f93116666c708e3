//! Decides which operations a document lists: the verbs of each kind and subresource at their real paths, with the
//! parameters by which kubectl recognises what the server can do (`fieldValidation` on PATCH).

use super::{Dialect, Row, custom, schemas};
use crate::kinds::Kind;
use crate::schema::Schema;
use serde_json::{Map, Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const OBJECT_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const WRITE: [(&str, &str); 4] =
    [("pretty", "string"), ("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const LIST: [(&str, &str); 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE: [(&str, &str); 4] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// One operation: verb, HTTP method, action word, operation id's verb.
type Operation = (&'static str, &'static str, &'static str, &'static str);

const ON_COLLECTION: [Operation; 3] = [
    ("list", "get", "list", "list"),
    ("create", "post", "post", "create"),
    ("deletecollection", "delete", "deletecollection", "deleteCollection"),
];
const ON_OBJECT: [Operation; 4] = [
    ("get", "get", "get", "read"),
    ("update", "put", "put", "replace"),
    ("patch", "patch", "patch", "patch"),
    ("delete", "delete", "delete", "delete"),
];
const ON_SUBRESOURCE: [Operation; 4] = [
    ("get", "get", "get", "read"),
    ("create", "post", "post", "create"),
    ("update", "put", "put", "replace"),
    ("patch", "patch", "patch", "patch"),
];

pub(super) fn of(rows: &[Row<'_>], dialect: Dialect) -> Map<String, Value> {
    let mut paths = Map::new();
    for row in rows {
        let kind = row.kind;
        let place = Place { kind, dialect, custom: row.custom.is_some() };
        let root = kind.path("{namespace}", "");
        let mut collection = place.operations(&ON_COLLECTION, kind.verbs, None);
        let mut object = place.operations(&ON_OBJECT, kind.verbs, None);
        place.add_parameters(&mut collection, false);
        place.add_parameters(&mut object, true);
        insert(&mut paths, root.clone(), collection);
        insert(&mut paths, format!("{root}/{{name}}"), object);
        if kind.namespaced && kind.has_verb("list") {
            let mut everywhere = place.operations(&ON_COLLECTION[..1], &["list"], None);
            if let Some(id) = everywhere.get_mut("get").and_then(|get| get.get_mut("operationId")) {
                *id = format!("list{}{}ForAllNamespaces", place.group_id(), kind.kind).into();
            }
            insert(&mut paths, kind.path("", ""), everywhere);
        }
        for sub in kind.subresources {
            let mut operations = place.operations(&ON_SUBRESOURCE, sub.verbs, Some(sub));
            place.add_parameters(&mut operations, true);
            insert(&mut paths, format!("{root}/{{name}}/{}", sub.name), operations);
        }
    }
    paths
}

fn insert(paths: &mut Map<String, Value>, path: String, operations: Map<String, Value>) {
    if operations.keys().any(|key| key != "parameters") {
        paths.insert(path, operations.into());
    }
}

struct Place<'k> {
    kind: &'k Kind,
    dialect: Dialect,
    custom: bool,
}

impl Place<'_> {
    fn operations(
        &self,
        table: &[Operation],
        verbs: &[&str],
        sub: Option<&crate::kinds::Subresource>,
    ) -> Map<String, Value> {
        let mut operations = Map::new();
        for (verb, method, action, id) in table.iter().filter(|(verb, ..)| verbs.contains(verb)) {
            operations.insert((*method).to_string(), self.operation(verb, action, id, sub));
        }
        operations
    }

    fn operation(&self, verb: &str, action: &str, id: &str, sub: Option<&crate::kinds::Subresource>) -> Value {
        let kind = self.kind;
        let (group, version, name) =
            sub.map_or((kind.group, kind.version, kind.kind), |sub| (sub.group, sub.version, sub.kind));
        let answer = match verb {
            "list" => self.reference(kind.group, kind.version, &kind.list_kind()),
            "delete" | "deletecollection" => self.meta("Status"),
            _ => self.reference(group, version, name),
        };
        let scope = if kind.namespaced { "Namespaced" } else { "" };
        let suffix = sub.map_or_else(String::new, |sub| capitalised(sub.name));
        let mut operation = json!({
            "operationId": format!("{id}{}{scope}{}{suffix}", self.group_id(), kind.kind),
            "tags": [self.tag()],
            "parameters": self.parameters(verb),
            "responses": self.responses(verb, answer),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": schemas::gvk(group, version, name),
        });
        let body = match verb {
            "create" | "update" => Some((self.reference(group, version, name), &OBJECT_TYPES[..])),
            // A custom resource has no merge keys.
            "patch" if self.custom => Some((self.meta("Patch"), &PATCH_TYPES[..3])),
            "patch" => Some((self.meta("Patch"), &PATCH_TYPES[..])),
            "delete" | "deletecollection" => Some((self.meta("DeleteOptions"), &OBJECT_TYPES[..])),
            _ => None,
        };
        if let Some((schema, types)) = body {
            self.add_body(&mut operation, schema, types, !verb.starts_with("delete"));
        }
        operation
    }

    fn add_body(&self, operation: &mut Value, schema: Value, types: &[&str], required: bool) {
        match self.dialect {
            Dialect::V3 => {
                let content: Map<String, Value> =
                    types.iter().map(|ty| ((*ty).to_string(), json!({ "schema": schema }))).collect();
                operation["requestBody"] = json!({ "content": content, "required": required });
            }
            Dialect::V2 => {
                operation["consumes"] = types.into();
                let body = json!({ "name": "body", "in": "body", "required": required, "schema": schema });
                if let Some(parameters) = operation["parameters"].as_array_mut() {
                    parameters.push(body);
                }
            }
        }
    }

    fn responses(&self, verb: &str, schema: Value) -> Value {
        let ok = match self.dialect {
            Dialect::V2 => json!({ "description": "OK", "schema": schema }),
            Dialect::V3 => {
                let content: Map<String, Value> =
                    OBJECT_TYPES.iter().map(|ty| ((*ty).to_string(), json!({ "schema": schema }))).collect();
                json!({ "description": "OK", "content": content })
            }
        };
        let mut responses = json!({ "200": ok, "401": { "description": "Unauthorized" } });
        if matches!(verb, "create" | "update" | "patch") {
            responses["201"] = responses["200"].clone();
            responses["201"]["description"] = "Created".into();
        }
        responses
    }

    fn parameters(&self, verb: &str) -> Value {
        let list: Vec<(&str, &str)> = match verb {
            "list" => LIST.to_vec(),
            "create" | "update" => WRITE.to_vec(),
            "patch" => [&WRITE[..], &[("force", "boolean")]].concat(),
            "delete" => DELETE.to_vec(),
            "deletecollection" => [&LIST[..], &DELETE[..]].concat(),
            _ => vec![],
        };
        list.iter().map(|(name, ty)| self.parameter(name, "query", ty)).collect()
    }

    fn parameter(&self, name: &str, place: &str, ty: &str) -> Value {
        let mut parameter = json!({ "name": name, "in": place });
        match self.dialect {
            Dialect::V2 => parameter["type"] = ty.into(),
            Dialect::V3 => parameter["schema"] = json!({ "type": ty }),
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        if place == "query" {
            parameter["uniqueItems"] = true.into();
        }
        parameter
    }

    /// The parts of the path that are variables.
    fn add_parameters(&self, operations: &mut Map<String, Value>, named: bool) {
        let mut parameters = vec![];
        if named {
            parameters.push(self.parameter("name", "path", "string"));
        }
        if self.kind.namespaced {
            parameters.push(self.parameter("namespace", "path", "string"));
        }
        if !operations.is_empty() && !parameters.is_empty() {
            operations.insert("parameters".into(), parameters.into());
        }
    }

    fn reference(&self, group: &str, version: &str, kind: &str) -> Value {
        match Schema::builtin().kind(group, version, kind) {
            Some(ty) => json!({ "$ref": self.dialect.reference(&ty.name()) }),
            None if self.custom => json!({ "$ref": self.dialect.reference(&custom::name(group, version, kind)) }),
            None => json!({ "type": "string" }),
        }
    }

    fn meta(&self, body: &str) -> Value {
        json!({ "$ref": self.dialect.reference(&format!("{META}.{body}")) })
    }

    /// `AppsV1`, as operation ids spell a group-version.
    fn group_id(&self) -> String {
        let group = self.kind.group.split('.').next().unwrap_or_default();
        let group = if group.is_empty() { "core" } else { group };
        format!("{}{}", capitalised(group), capitalised(self.kind.version))
    }

    fn tag(&self) -> String {
        let group = self.kind.group.split('.').next().unwrap_or_default();
        format!("{}_{}", if group.is_empty() { "core" } else { group }, self.kind.version)
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
