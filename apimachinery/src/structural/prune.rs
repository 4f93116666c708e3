//! Which fields of an object its schema does not know. It decides what goes; values that stay are not looked at.

use super::node::Node;
use serde_json::Value;
use std::fmt::Write as _;

/// What every resource has, whether its schema says so or not.
pub(super) const HEADER: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn prune(object: &mut Value, root: &Node) -> Vec<String> {
    let mut walk = Walk { path: String::new(), unknown: Vec::new() };
    walk.value(object, Some(root), At { resource: true, keep: root.preserve });
    walk.unknown.sort();
    walk.unknown
}

struct Walk {
    path: String,
    unknown: Vec<String>,
}

#[derive(Clone, Copy)]
struct At {
    /// The value has a header of its own.
    resource: bool,
    /// Unknown members stay.
    keep: bool,
}

impl At {
    fn below(node: Option<&Node>) -> Self {
        Self { resource: node.is_some_and(|n| n.embedded), keep: node.is_some_and(|n| n.preserve) }
    }
}

impl Walk {
    /// Where nothing is said about a value, its members go and scalars stay.
    fn value(&mut self, value: &mut Value, node: Option<&Node>, at: At) {
        match value {
            Value::Object(members) => members.retain(|name, value| {
                if at.resource && HEADER.contains(&name.as_str()) {
                    return true;
                }
                let before = self.enter(name);
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

    fn enter(&mut self, name: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        before
    }
}
