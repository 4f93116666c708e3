//! Which fields of an object its schema does not know. It decides what goes; values that stay are not looked at.

use super::node::Node;
use crate::schema::{Schema, Type, decode};
use serde_json::Value;
use std::fmt::Write as _;

/// What every resource has, whether its schema says so or not.
pub(super) const HEADER: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes an object; answers the sorted paths of what went.
pub(super) fn prune(object: &mut Value, root: &Node) -> Vec<String> {
    run(object, root, At { header: Header::Root, ..At::below(Some(root)) })
}

/// Prunes a value from inside of an object.
pub(super) fn prune_part(value: &mut Value, node: &Node) -> Vec<String> {
    run(value, node, At::below(Some(node)))
}

fn run(value: &mut Value, node: &Node, at: At) -> Vec<String> {
    let mut walk = Walk { path: String::new(), unknown: Vec::new() };
    walk.value(value, Some(node), at);
    walk.unknown.sort();
    walk.unknown
}

struct Walk {
    path: String,
    unknown: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Header {
    /// The value has none.
    No,
    /// It stays as it is: whoever reads the object looks after it.
    Root,
    /// It stays, but for unknown fields of its metadata.
    Embedded,
}

#[derive(Clone, Copy)]
struct At {
    header: Header,
    /// Unknown members stay.
    keep: bool,
}

impl At {
    fn below(node: Option<&Node>) -> Self {
        let header = if node.is_some_and(|n| n.embedded) { Header::Embedded } else { Header::No };
        Self { header, keep: node.is_some_and(|n| n.preserve) }
    }
}

impl Walk {
    /// Where nothing is said about a value, its members go and scalars stay.
    fn value(&mut self, value: &mut Value, node: Option<&Node>, at: At) {
        match value {
            Value::Object(members) => members.retain(|name, value| {
                let before = self.enter(name);
                if at.header != Header::No && HEADER.contains(&name.as_str()) {
                    if at.header == Header::Embedded && name == "metadata" {
                        self.metadata(value);
                    }
                    self.path.truncate(before);
                    return true;
                }
                let known = node.and_then(|n| n.member(name));
                match known {
                    Some(child) => self.value(value, child, At::below(child)),
                    None if at.keep => {}
                    None => self.unknown.push(self.path.clone()),
                }
                self.path.truncate(before);
                at.keep || known.is_some()
            }),
            Value::Array(items) => {
                let child = node.and_then(|n| n.items.as_deref());
                if child.is_none() && at.keep {
                    return;
                }
                let below = At { keep: at.keep || At::below(child).keep, ..At::below(child) };
                for (index, item) in items.iter_mut().enumerate() {
                    let before = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    self.value(item, child, below);
                    self.path.truncate(before);
                }
            }
            _ => {}
        }
    }

    /// Metadata of a wrong type stays for validation to refuse.
    fn metadata(&mut self, value: &mut Value) {
        let ty = Schema::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        if let Ok(decoded) = decode::from_value(value.clone(), ty.unwrap_or(Type::any())) {
            self.unknown.extend(decoded.unknown.iter().map(|field| format!("{}.{field}", self.path)));
            *value = decoded.object;
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        before
    }
}
