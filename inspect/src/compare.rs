//! How two states of an object differ, field by field. Pure.
//!
//! Elements of a list are the same when they have the same name (or what its elements are told apart by), otherwise by position.

use serde_json::Value;
use std::collections::BTreeSet;

/// One field that changed; `None` where it is not there.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// What elements of lists are told apart by, the first that all of them have and no two share.
const KEYS: &[&str] = &["name", "type", "uid", "ip", "mountPath", "containerPort", "port", "key", "topologyKey"];

pub fn compare(before: &Value, after: &Value) -> Vec<Difference> {
    let mut out = Vec::new();
    walk("", before, after, &mut out);
    out
}

fn walk(path: &str, before: &Value, after: &Value, out: &mut Vec<Difference>) {
    match (before, after) {
        (Value::Object(one), Value::Object(two)) => {
            let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for name in names {
                if unimportant(path, name) {
                    continue;
                }
                let path = join(path, name);
                pair(&path, one.get(name), two.get(name), out);
            }
        }
        (Value::Array(one), Value::Array(two)) => match key_of(one, two) {
            Some(key) => {
                let names = |list: &[Value]| list.iter().map(|item| item[key].to_string()).collect::<Vec<_>>();
                let (old, new) = (names(one), names(two));
                let all: Vec<&String> = old.iter().chain(new.iter().filter(|name| !old.contains(name))).collect();
                for name in all {
                    let find = |names: &[String], list: &'_ [Value]| {
                        names.iter().position(|known| known == name).map(|at| list[at].clone())
                    };
                    let path = format!("{path}[{key}={}]", name.trim_matches('"'));
                    pair(&path, find(&old, one).as_ref(), find(&new, two).as_ref(), out);
                }
            }
            None => {
                for at in 0..one.len().max(two.len()) {
                    pair(&format!("{path}[{at}]"), one.get(at), two.get(at), out);
                }
            }
        },
        _ if before == after => {}
        _ => out.push(Difference { path: path.to_owned(), before: Some(before.clone()), after: Some(after.clone()) }),
    }
}

fn pair(path: &str, before: Option<&Value>, after: Option<&Value>, out: &mut Vec<Difference>) {
    match (before, after) {
        (Some(before), Some(after)) => walk(path, before, after, out),
        (before, after) => {
            out.push(Difference { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

/// What changes with every write and says nothing about the object.
fn unimportant(path: &str, name: &str) -> bool {
    path == "metadata" && ["managedFields", "resourceVersion", "generation"].contains(&name)
}

fn join(path: &str, name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    match (path.is_empty(), plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name}]"),
    }
}

fn key_of(one: &[Value], two: &[Value]) -> Option<&'static str> {
    let tells_apart = |key: &str, list: &[Value]| {
        let values: BTreeSet<String> = list.iter().filter_map(|item| item.get(key)).map(Value::to_string).collect();
        values.len() == list.len()
    };
    KEYS.iter().copied().find(|key| tells_apart(key, one) && tells_apart(key, two))
}

/// The line of a change: `spec.replicas: 3 -> 5`.
pub fn line(difference: &Difference) -> String {
    let Difference { path, before, after } = difference;
    match (before, after) {
        (Some(before), Some(after)) => format!("{path}: {} -> {}", short(before), short(after)),
        (None, Some(after)) => format!("{path}: added {}", short(after)),
        (Some(before), None) => format!("{path}: removed {}", short(before)),
        (None, None) => path.clone(),
    }
}

const SHORT: usize = 80;

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
        None if text.is_empty() => "\"\"".into(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(before: Value, after: Value) -> Vec<String> {
        compare(&before, &after).iter().map(line).collect()
    }

    #[test]
    fn changes_are_told_by_their_fields() {
        let rows = [
            (json!({"spec": {"replicas": 3}}), json!({"spec": {"replicas": 5}}), vec!["spec.replicas: 3 -> 5"]),
            (
                json!({"c": [{"name": "a", "image": "x:1"}, {"name": "b"}]}),
                json!({"c": [{"name": "b"}, {"name": "a", "image": "x:2"}, {"name": "d"}]}),
                vec!["c[name=a].image: x:1 -> x:2", "c[name=d]: added {\"name\":\"d\"}"],
            ),
            (
                json!({"metadata": {"labels": {"app.io/x": "1", "y": ""}, "resourceVersion": "1", "managedFields": []}}),
                json!({"metadata": {"labels": {"y": "2"}, "resourceVersion": "2"}}),
                vec!["metadata.labels[app.io/x]: removed 1", "metadata.labels.y: \"\" -> 2"],
            ),
            (json!({"l": ["a", "b"]}), json!({"l": ["a", "c", "d"]}), vec!["l[1]: b -> c", "l[2]: added d"]),
            (json!({"a": {"b": 1}}), json!({"a": [1]}), vec!["a: {\"b\":1} -> [1]"]),
            (json!({"a": 1}), json!({"a": 1}), vec![]),
        ];
        for (before, after, expect) in rows {
            assert_eq!(lines(before, after), expect);
        }
    }

    #[test]
    fn long_values_are_cut() {
        let long = "ä".repeat(200);
        assert_eq!(short(&json!(long)), format!("{}... (200 characters)", "ä".repeat(80)));
    }
}
