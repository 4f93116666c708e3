//! The schema as a table, for code that serves built-in and custom kinds alike: server-side apply, above all. It decides
//! how structural schemas are said in the table's terms; what restricts values is not in it.

use super::node::{Additional, Kind, Node};
use crate::schema::{Builder, Built, ListType, Member, Schema, Shape, Type};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn schema(root: &Node, group: &str, version: &str, kind: &str) -> Schema {
    let mut making = Making { builder: Builder::new(), prefix: official(group, version, kind) };
    let root = making.object(root, true, &mut String::new());
    making.builder.finish(group, version, kind, root)
}

/// `com.example.stable.v1.CronTab`
fn official(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.rsplit('.').collect();
    parts.extend([version, kind]);
    parts.join(".")
}

struct Making {
    builder: Builder,
    prefix: String,
}

impl Making {
    fn node(&mut self, node: &Node, path: &mut String) -> Built {
        if node.int_or_string {
            return self.builder.leaf(Shape::Any);
        }
        match node.kind {
            Some(Kind::Object) => match &node.additional {
                Some(Additional::Of(value)) => {
                    let value = self.node(value, path);
                    self.builder.map(value, node.map_atomic)
                }
                Some(Additional::Any | Additional::Never) => {
                    let any = self.builder.leaf(Shape::Any);
                    self.builder.map(any, node.map_atomic)
                }
                None => self.object(node, node.embedded, path),
            },
            Some(Kind::Array) => {
                let items = match &node.items {
                    Some(items) => self.node(items, path),
                    None => self.builder.leaf(Shape::Any),
                };
                let keys: Vec<&str> = node.list_keys.iter().map(String::as_str).collect();
                self.builder.list(items, node.list.unwrap_or(ListType::Atomic), &keys)
            }
            Some(Kind::String) => self.builder.leaf(Shape::String),
            Some(Kind::Integer) => self.builder.leaf(Shape::Int64),
            Some(Kind::Number) => self.builder.leaf(Shape::Double),
            Some(Kind::Boolean) => self.builder.leaf(Shape::Bool),
            None if node.properties.is_empty() && !node.preserve => self.builder.leaf(Shape::Any),
            None => self.object(node, node.embedded, path),
        }
    }

    fn object(&mut self, node: &Node, resource: bool, path: &mut String) -> Built {
        let mut members = Vec::with_capacity(node.properties.len() + 3);
        let scalar = |value: &&Value| !value.is_array() && !value.is_object();
        let defaults =
            node.properties.iter().filter_map(|(name, child)| Some((name, child.default.as_ref().filter(scalar)?)));
        let defaults: BTreeMap<&String, String> = defaults.map(|(name, value)| (name, value.to_string())).collect();
        for (name, child) in &node.properties {
            if resource && super::prune::HEADER.contains(&name.as_str()) {
                continue;
            }
            let before = path.len();
            path.push('.');
            path.push_str(name);
            let ty = self.node(child, path);
            path.truncate(before);
            let default = defaults.get(name).map_or("", String::as_str);
            members.push(Member { name, ty, required: false, default });
        }
        if resource {
            let meta = Schema::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
            let meta = self.builder.import(meta.unwrap_or(Type::any()));
            let text = self.builder.leaf(Shape::String);
            for (name, ty) in [("apiVersion", text), ("kind", text), ("metadata", meta)] {
                members.push(Member { name, ty, required: false, default: "" });
            }
        }
        let name = format!("{}{path}", self.prefix);
        self.builder.object(&name, members, node.map_atomic, node.preserve)
    }
}
