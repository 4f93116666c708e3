//! Variables and fixtures: what a step's text becomes before it is sent or compared.
//!
//! `$name` and `${name}` in any text stand for a variable; a text that is nothing else takes the variable's whole value. A `$`
//! before anything but a name is itself. `<use>` names a fixture that the rest of the object is merged into, `<from>` is an
//! object to merge it into. `@kind` at a path's beginning is the place of that kind in the behaviour's namespace, `@@kind` the
//! one across namespaces.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub type Variables = BTreeMap<String, Value>;

/// A kind that steps can name, with an object that every server takes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// `v1` or `GROUP/VERSION`.
    pub version: String,
    pub kind: String,
    pub plural: String,
    #[serde(default)]
    pub cluster: bool,
    #[serde(default)]
    pub object: Map<String, Value>,
}

impl Fixture {
    fn root(&self) -> String {
        if self.version.contains('/') { format!("/apis/{}", self.version) } else { format!("/api/{}", self.version) }
    }

    fn everywhere(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    fn within(&self, namespace: &str) -> String {
        if self.cluster { self.everywhere() } else { format!("{}/namespaces/{namespace}/{}", self.root(), self.plural) }
    }

    /// The whole object, without a name.
    pub fn whole(&self) -> Value {
        let mut object = self.object.clone();
        object.insert("apiVersion".to_owned(), json!(self.version));
        object.insert("kind".to_owned(), json!(self.kind));
        object.entry("metadata").or_insert_with(|| json!({}));
        Value::Object(object)
    }
}

pub type Fixtures = BTreeMap<String, Fixture>;

/// Replaces every variable; an unknown one is an error that names it.
pub fn substitute(value: &Value, variables: &Variables) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match whole_name(text).and_then(|name| variables.get(name)) {
            Some(value) => value.clone(),
            None => Value::String(substitute_text(text, variables)?),
        },
        Value::Array(all) => Value::Array(all.iter().map(|v| substitute(v, variables)).collect::<Result<_, _>>()?),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| Ok((substitute_text(key, variables)?, substitute(value, variables)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn whole_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(name);
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn substitute_text(text: &str, variables: &Variables) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Name(name) => match variables.get(name).ok_or_else(|| format!("no variable ${name}"))? {
                Value::String(text) => out.push_str(text),
                other => out.push_str(&other.to_string()),
            },
        }
    }
    Ok(out)
}

enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let after = &rest[dollar + 1..];
        let (name, length) = match after.strip_prefix('{') {
            Some(inner) => inner.split_once('}').map_or(("", 0), |(name, _)| (name, name.len() + 2)),
            None => {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        let named = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name);
        if named {
            all.push(Piece::Text(&rest[..dollar]));
            all.push(Piece::Name(name));
            rest = &after[length..];
        } else {
            all.push(Piece::Text(&rest[..=dollar]));
            rest = after;
        }
    }
    all.push(Piece::Text(rest));
    all
}

/// The fixtures with the variables of one behaviour in their objects.
pub fn fixtures_with(fixtures: &Fixtures, variables: &Variables) -> Fixtures {
    let own = |fixture: &Fixture| {
        let object = substitute(&Value::Object(fixture.object.clone()), variables).ok();
        Fixture { object: object.and_then(|value| value.as_object().cloned()).unwrap_or_default(), ..fixture.clone() }
    };
    fixtures.iter().map(|(name, fixture)| (name.clone(), own(fixture))).collect()
}

/// Every variable that a value names, for finding those that nothing sets.
pub fn names(value: &Value, found: &mut Vec<String>) {
    let text = |text: &str, found: &mut Vec<String>| {
        found.extend(pieces(text).into_iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(name.to_owned()),
            Piece::Text(_) => None,
        }));
    };
    match value {
        Value::String(string) => text(string, found),
        Value::Array(all) => all.iter().for_each(|value| names(value, found)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            text(key, found);
            names(value, found);
        }),
        _ => {}
    }
}

/// Replaces every `<use>` by its fixture, merged with what stands beside it.
pub fn expand(value: &Value, fixtures: &Fixtures) -> Result<Value, String> {
    match value {
        Value::Array(all) => Ok(Value::Array(all.iter().map(|v| expand(v, fixtures)).collect::<Result<_, _>>()?)),
        Value::Object(map) => {
            let mut rest = Map::new();
            for (key, inner) in map.iter().filter(|(key, _)| !["<use>", "<from>"].contains(&key.as_str())) {
                rest.insert(key.clone(), expand(inner, fixtures)?);
            }
            let from = map.get("<from>").map(|object| expand(object, fixtures)).transpose()?;
            let mut object = match (map.get("<use>"), from) {
                (None, None) => return Ok(Value::Object(rest)),
                (None, Some(object)) => object,
                (Some(name), from) => {
                    let mut object = fixture(name.as_str().unwrap_or_default(), fixtures)?.whole();
                    merge(&mut object, &from.unwrap_or_else(|| json!({})));
                    object
                }
            };
            merge(&mut object, &Value::Object(rest));
            Ok(object)
        }
        other => Ok(other.clone()),
    }
}

pub fn fixture<'f>(name: &str, fixtures: &'f Fixtures) -> Result<&'f Fixture, String> {
    fixtures.get(name).ok_or_else(|| format!("no fixture {name:?}"))
}

/// RFC 7396, as far as fixtures need it.
fn merge(target: &mut Value, change: &Value) {
    let (Value::Object(into), Value::Object(from)) = (&mut *target, change) else {
        *target = change.clone();
        return;
    };
    for (key, value) in from {
        if value.is_null() {
            into.remove(key);
        } else {
            merge(into.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The path that a step's path means.
pub fn place(path: &str, namespace: &str, fixtures: &Fixtures) -> Result<String, String> {
    let Some(rest) = path.strip_prefix('@') else { return Ok(path.to_owned()) };
    let (everywhere, rest) = rest.strip_prefix('@').map_or((false, rest), |rest| (true, rest));
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let fixture = fixture(&rest[..end], fixtures)?;
    let base = if everywhere { fixture.everywhere() } else { fixture.within(namespace) };
    Ok(format!("{base}{}", &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixtures() -> Fixtures {
        let object = json!({"data": {"k": "v"}, "x": [1]}).as_object().cloned().unwrap_or_default();
        let map = Fixture {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            cluster: false,
            object,
        };
        let class = Fixture {
            version: "storage.k8s.io/v1".into(),
            kind: "StorageClass".into(),
            plural: "storageclasses".into(),
            cluster: true,
            object: Map::new(),
        };
        BTreeMap::from([("configmap".into(), map), ("storageclass".into(), class)])
    }

    #[test]
    fn variables_become_their_values() {
        let variables =
            BTreeMap::from([("ns".into(), json!("n1")), ("n".into(), json!(3)), ("o".into(), json!({"a": 1}))]);
        let check = |text: Value, expect: Value| assert_eq!(substitute(&text, &variables), Ok(expect), "{text}");
        check(json!("/namespaces/$ns/x"), json!("/namespaces/n1/x"));
        check(json!("${ns}s-$n"), json!("n1s-3"));
        check(json!("$n"), json!(3));
        check(json!(["$o", "~^a$", "$", "a$|b"]), json!([{"a": 1}, "~^a$", "$", "a$|b"]));
        check(json!({"$ns": {"a": "${o}"}}), json!({"n1": {"a": {"a": 1}}}));
        assert_eq!(substitute(&json!("a $none"), &variables), Err("no variable $none".to_owned()));
        let mut found = Vec::new();
        names(&json!({"$a": ["x${b}$c-", "$1"]}), &mut found);
        assert_eq!(found, ["a", "b", "c"]);
    }

    #[test]
    fn fixtures_are_merged_with_what_stands_beside_them() {
        let check = |value: Value, expect: Value| assert_eq!(expand(&value, &fixtures()), Ok(expect), "{value}");
        check(
            json!({"<use>": "configmap", "metadata": {"name": "a"}, "data": {"l": "w"}, "x": null}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}}),
        );
        check(
            json!([{"b": {"<use>": "storageclass"}}]),
            json!([{"b": {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {}}}]),
        );
        check(json!({"<from>": {"a": {"b": 1, "c": 2}}, "a": {"c": null, "d": 3}}), json!({"a": {"b": 1, "d": 3}}));
        assert!(expand(&json!({"<use>": "none"}), &fixtures()).is_err());
    }

    #[test]
    fn places_follow_the_kind() {
        let check = |path: &str, expect: &str| assert_eq!(place(path, "n", &fixtures()), Ok(expect.to_owned()));
        check("/version", "/version");
        check("@configmap", "/api/v1/namespaces/n/configmaps");
        check("@configmap/a?x=y", "/api/v1/namespaces/n/configmaps/a?x=y");
        check("@@configmap", "/api/v1/configmaps");
        check("@storageclass/a", "/apis/storage.k8s.io/v1/storageclasses/a");
        assert!(place("@none", "n", &fixtures()).is_err());
    }
}
