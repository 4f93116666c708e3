//! A pod template, kept as compact text (a parsed tree is ten times larger and read only when something changes).
//! Decides when two templates mean the same; never what a template may say.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The label by which a replica set tells its pods from its siblings'. It is no part of the wish.
pub const HASH_LABEL: &str = "pod-template-hash";

/// A `PodTemplateSpec` in canonical form: keys sorted, nothing empty in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Arc<str>);

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Template::new(&value))
    }
}

impl Template {
    pub fn new(value: &Value) -> Self {
        Template(sorted(value).to_string().into())
    }

    /// The template as it was given.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// The canonical bytes without the hash label: what a hash is taken of and what comparisons compare. An absent field,
    /// a null and an empty list or map mean the same to the API, so they are the same here.
    pub fn canonical(&self) -> String {
        let mut value = self.value();
        if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
        prune(&mut value);
        value.to_string()
    }

    pub fn means_the_same(&self, other: &Template) -> bool {
        self.0 == other.0 || self.canonical() == other.canonical()
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Takes out what says nothing. Entries of lists stay: their number means something.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, v| match v {
                Value::Null => false,
                Value::Object(m) => !m.is_empty(),
                Value::Array(a) => !a.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_compare_by_meaning() {
        let check = |a: Value, b: Value, same: bool| {
            assert_eq!(Template::new(&a).means_the_same(&Template::new(&b)), same, "{a} {b}");
        };
        let base = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let with = |path: &str, key: &str, value: Value| {
            let mut v = base.clone();
            v.pointer_mut(path).and_then(Value::as_object_mut).unwrap().insert(key.into(), value);
            v
        };
        check(base.clone(), base.clone(), true);
        check(base.clone(), with("/metadata/labels", HASH_LABEL, json!("abc")), true);
        check(base.clone(), with("/metadata", "creationTimestamp", Value::Null), true);
        check(base.clone(), with("/spec", "volumes", json!([])), true);
        check(base.clone(), with("/spec", "securityContext", json!({})), true);
        check(base.clone(), with("/spec/containers/0", "image", json!("j")), false);
        check(base.clone(), with("/metadata/labels", "x", json!("")), false);
        check(base.clone(), with("/spec", "hostNetwork", json!(false)), false);
    }
}
