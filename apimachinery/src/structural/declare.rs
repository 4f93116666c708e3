//! How expressions see the values of a schema: names, types and largest sizes. It decides what is visible; values without a
//! known type are not.

use super::node::{Additional, Kind, Node};
use super::prune::HEADER;
use crate::cel::{Decl, FieldDecl, MAX_SIZE, ObjectType, RESERVED, Type};
use crate::schema::ListType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A type, and the fewest bytes of JSON that a value takes: they bound how many fit into a request.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub decl: Decl,
    pub min_bytes: u64,
}

impl Declared {
    fn scalar(ty: Type, min_bytes: u64) -> Option<Declared> {
        Some(Declared { decl: Decl::of(ty), min_bytes })
    }

    fn text(ty: Type, max: u64) -> Option<Declared> {
        Some(Declared { decl: Decl::new(ty, max), min_bytes: 2 })
    }

    /// How many values fit into a request, with `extra` bytes beside each.
    pub fn most(&self, extra: u64) -> u64 {
        (MAX_SIZE - 2) / (self.min_bytes + extra)
    }
}

/// What was declared for the schemas directly inside.
#[derive(Default)]
pub(super) struct Inside {
    pub properties: BTreeMap<String, Declared>,
    pub items: Option<Declared>,
    pub values: Option<Declared>,
}

/// The declaration of a schema, called `name`; `resource`: it has a header, even if the schema does not say so.
pub(super) fn declare(node: &Node, inside: Inside, resource: bool, name: &str) -> Option<Declared> {
    if node.int_or_string {
        return Some(Declared { decl: Decl::new(Type::Dyn, text_size(node)), min_bytes: 1 });
    }
    match node.kind? {
        Kind::Boolean => Declared::scalar(Type::Bool, 4),
        Kind::Integer => Declared::scalar(Type::Int, 1),
        Kind::Number => Declared::scalar(Type::Double, 1),
        Kind::String => match node.checks().format.map(|format| format.name) {
            Some("byte") => Declared::text(Type::Bytes, text_size(node)),
            Some("duration") => Declared::text(Type::Duration, 1),
            Some("date" | "date-time") => Declared::text(Type::Timestamp, 1),
            _ => Declared::text(Type::String, text_size(node)),
        },
        Kind::Array => {
            let items = inside.items?;
            let max = node.checks().max_items.unwrap_or_else(|| items.most(1));
            let unordered = matches!(node.list, Some(ListType::Set | ListType::Map));
            Some(Declared { decl: Decl { unordered, ..Decl::list(items.decl, max) }, min_bytes: 2 })
        }
        Kind::Object => match &node.additional {
            Some(Additional::Of(_)) => {
                let values = inside.values?;
                let max = node.checks().max_properties.unwrap_or_else(|| values.most(6));
                Some(Declared { decl: Decl::map(values.decl, max), min_bytes: 2 })
            }
            _ => Some(object(node, inside.properties, resource, name)),
        },
    }
}

/// `maxLength` counts characters of up to four bytes.
fn text_size(node: &Node) -> u64 {
    let checks = node.checks();
    let longest = checks.allowed.iter().filter_map(|value| value.as_str()).map(|text| text.len() as u64).max();
    longest.or(checks.max_length.map(|max| max.saturating_mul(4))).unwrap_or(MAX_SIZE - 2)
}

fn object(node: &Node, properties: BTreeMap<String, Declared>, resource: bool, type_name: &str) -> Declared {
    let mut min_bytes = 2;
    let mut fields = BTreeMap::new();
    for (name, declared) in properties {
        let required =
            node.checks().required.contains(&name) && node.properties.get(&name).is_some_and(|p| p.default.is_none());
        if required {
            min_bytes += declared.min_bytes + name.len() as u64 + 4;
        }
        if let Some(escaped) = escape(&name) {
            fields.insert(escaped, FieldDecl { json: name, decl: declared.decl });
        }
    }
    if resource {
        let text = || Decl::of(Type::String);
        let field = |name: &str, decl: Decl| (name.to_owned(), FieldDecl { json: name.to_owned(), decl });
        let metadata = [field("name", text()), field("generateName", text())];
        let metadata = Type::Object(Arc::new(ObjectType { name: "metadata".to_owned(), fields: metadata.into() }));
        for (name, decl) in HEADER.into_iter().zip([text(), text(), Decl::of(metadata)]) {
            fields.insert(name.to_owned(), field(name, decl).1);
        }
    }
    let object = ObjectType { name: type_name.to_owned(), fields };
    Declared { decl: Decl::of(Type::Object(Arc::new(object))), min_bytes }
}

/// The name under which expressions find a field; `None` if there can be none.
pub(crate) fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '_' if rest.starts_with('_') => {
                rest = &rest[1..];
                escaped.push_str("__underscores__");
            }
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            '_' | 'a'..='z' | 'A'..='Z' => escaped.push(c),
            '0'..='9' if !escaped.is_empty() => escaped.push(c),
            _ => return None,
        }
    }
    (!escaped.is_empty()).then_some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_identifiers_are_escaped() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(escape(name).as_deref(), expect, "{name}");
        check("a1_b", Some("a1_b"));
        check("namespace", Some("__namespace__"));
        check("a-b.c/d", Some("a__dash__b__dot__c__slash__d"));
        check("__a", Some("__underscores__a"));
        check("1a", None);
        check("a b", None);
        check("é", None);
        check("", None);
    }
}
