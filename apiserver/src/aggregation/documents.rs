//! OpenAPI documents of other servers beside ours. Decides which part of theirs is taken, and how two types of one name stand side by
//! side; v3 documents are handed on as they are.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DEFINITIONS: &str = "#/definitions/";

/// What another server publishes of its group version.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// Where its v3 document is.
    pub v3: Option<String>,
    pub v2: Option<Arc<V2>>,
}

/// A part of a v2 document.
#[derive(Debug, Default, PartialEq)]
pub struct V2 {
    /// The whole document's ETag.
    pub tag: String,
    pub paths: Map<String, Value>,
    definitions: Map<String, Value>,
}

impl V2 {
    /// The paths of one group version, and the types that they speak of.
    pub fn part(mut document: Value, tag: &str, group: &str, version: &str) -> Self {
        let own = format!("/apis/{group}/{version}");
        let mut take = |field: &str| match document.get_mut(field).map(Value::take) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let (mut paths, mut all) = (take("paths"), take("definitions"));
        paths.retain(|path, _| path.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        let mut definitions = Map::new();
        let mut named: BTreeSet<String> = BTreeSet::new();
        paths.values().for_each(|path| references(path, &mut named));
        while let Some(name) = named.pop_first() {
            if let Some(definition) = all.remove(&name) {
                references(&definition, &mut named);
                definitions.insert(name, definition);
            }
        }
        Self { tag: tag.to_owned(), paths, definitions }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().and_then(|text| text.strip_prefix(DEFINITIONS)).filter(|_| key == "$ref") {
                    Some(name) => drop(found.insert(name.to_owned())),
                    None => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn renamed(value: &mut Value, names: &BTreeMap<&str, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let new = value.as_str().and_then(|text| names.get(text.strip_prefix(DEFINITIONS)?));
                match new.filter(|_| key == "$ref") {
                    Some(name) => *value = format!("{DEFINITIONS}{name}").into(),
                    None => renamed(value, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| renamed(value, names)),
        _ => {}
    }
}

/// Our v2 document with the parts of others. A type that ours or an earlier one names alike and describes otherwise gets another name.
pub fn joined(ours: Vec<u8>, parts: &[Arc<V2>]) -> Vec<u8> {
    if parts.is_empty() {
        return ours;
    }
    let Ok(mut document) = serde_json::from_slice::<Value>(&ours) else { return ours };
    for part in parts {
        let Some(known) = document["definitions"].as_object_mut() else { return ours };
        let mut names = BTreeMap::new();
        for (name, definition) in &part.definitions {
            if known.get(name).is_some_and(|other| other != definition) {
                let free = (2..).map(|number| format!("{name}_v{number}")).find(|name| !known.contains_key(name));
                names.insert(name.as_str(), free.unwrap_or_default());
            }
        }
        for (name, definition) in &part.definitions {
            let mut definition = definition.clone();
            renamed(&mut definition, &names);
            known.insert(names.get(name.as_str()).unwrap_or(name).clone(), definition);
        }
        for (path, operations) in &part.paths {
            let mut operations = operations.clone();
            renamed(&mut operations, &names);
            document["paths"][path] = operations;
        }
    }
    document.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reference(name: &str) -> Value {
        json!({"$ref": format!("#/definitions/{name}")})
    }

    fn theirs() -> Value {
        json!({
            "paths": {
                "/apis/e.org/v1/things": {"get": {"schema": reference("Thing")}},
                "/apis/e.org/v1beta1/things": {"get": {"schema": reference("Old")}},
                "/apis/e.org/": {},
            },
            "definitions": {"Thing": {"properties": {"meta": reference("Meta")}}, "Meta": {"type": "string"}, "Old": {}},
        })
    }

    #[test]
    fn only_the_paths_of_the_version_and_their_types_are_taken() {
        let part = V2::part(theirs(), "t", "e.org", "v1");
        assert_eq!(part.paths.keys().collect::<Vec<_>>(), ["/apis/e.org/v1/things"]);
        assert_eq!(part.definitions.keys().collect::<Vec<_>>(), ["Meta", "Thing"]);
        assert_eq!(V2::part(json!("no document"), "", "e.org", "v1"), V2::default());
    }

    #[test]
    fn types_of_one_name_stand_side_by_side() {
        let part = Arc::new(V2::part(theirs(), "", "e.org", "v1"));
        let ours = json!({"paths": {"/api/v1": {}}, "definitions": {"Meta": {"type": "object"}}});
        let join = |ours: &Value| -> Value {
            serde_json::from_slice(&joined(ours.to_string().into_bytes(), std::slice::from_ref(&part))).unwrap()
        };
        let both = join(&ours);
        assert_eq!(both["definitions"]["Meta"], json!({"type": "object"}));
        assert_eq!(both["definitions"]["Meta_v2"], json!({"type": "string"}));
        assert_eq!(both["definitions"]["Thing"]["properties"]["meta"], reference("Meta_v2"));
        assert_eq!(both["paths"]["/apis/e.org/v1/things"]["get"]["schema"], reference("Thing"));
        assert!(both["paths"]["/api/v1"].is_object());
        let alike = join(&json!({"paths": {}, "definitions": {"Meta": {"type": "string"}}}));
        assert_eq!(alike["definitions"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Meta", "Thing"]);
    }
}
