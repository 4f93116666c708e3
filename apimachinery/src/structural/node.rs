//! What one schema says, keyword by keyword, read from JSON. It decides how each keyword is understood; whether they may
//! stand together is decided elsewhere.

use crate::schema::ListType;
use crate::status::FieldErrors;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The word behind `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Kind {
    const WORDS: [(&'static str, Kind); 6] = [
        ("array", Kind::Array),
        ("boolean", Kind::Boolean),
        ("integer", Kind::Integer),
        ("number", Kind::Number),
        ("object", Kind::Object),
        ("string", Kind::String),
    ];

    pub fn from_word(word: &str) -> Option<Kind> {
        Self::WORDS.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)
    }
}

/// `additionalProperties`.
#[derive(Debug, Clone)]
pub(super) enum Additional {
    /// `true`: any member, about whose value nothing is said.
    Any,
    Of(Box<Node>),
}

impl Additional {
    pub fn node(&self) -> Option<&Node> {
        match self {
            Additional::Any => None,
            Additional::Of(node) => Some(node),
        }
    }
}

/// One schema. Those inside `allOf`, `anyOf`, `oneOf` and `not` only use what restricts values.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub kind: Option<Kind>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Additional>,
    pub items: Option<Box<Node>>,

    pub preserve: bool,
    pub embedded: bool,
    pub int_or_string: bool,
    pub list: Option<ListType>,
    pub list_keys: Vec<String>,
    pub map_atomic: bool,
}

impl Node {
    /// Reads a schema; a keyword of the wrong JSON type is an error and counts as absent.
    pub fn read(schema: &Value, path: &str, errors: &mut FieldErrors) -> Node {
        let mut reader = Reader { errors };
        reader.node(schema, path)
    }

    /// The schemas directly below that describe values inside this one's value.
    pub fn children(&self) -> impl Iterator<Item = &Node> {
        let additional = self.additional.as_ref().and_then(Additional::node);
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }

    /// Whether `holds` for this schema or one of the values inside it.
    pub fn any(&self, holds: &dyn Fn(&Node) -> bool) -> bool {
        holds(self) || self.children().any(|child| child.any(holds))
    }

    /// The schema of a member; `None` if the member is unknown, `Some(None)` if nothing is said about its value.
    pub fn member(&self, name: &str) -> Option<Option<&Node>> {
        match self.properties.get(name) {
            Some(node) => Some(Some(node)),
            None => self.additional.as_ref().map(Additional::node),
        }
    }

    /// Whether a null here counts as absent.
    pub fn refuses(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

struct Reader<'e> {
    errors: &'e mut FieldErrors,
}

impl Reader<'_> {
    fn node(&mut self, schema: &Value, path: &str) -> Node {
        let Value::Object(map) = schema else {
            self.errors.type_invalid(path, schema.clone(), "must be a schema");
            return Node::default();
        };
        let mut node = Node {
            nullable: self.flag(map, path, "nullable"),
            default: map.get("default").filter(|v| !v.is_null()).cloned(),
            preserve: self.flag(map, path, "x-kubernetes-preserve-unknown-fields"),
            embedded: self.flag(map, path, "x-kubernetes-embedded-resource"),
            int_or_string: self.flag(map, path, "x-kubernetes-int-or-string"),
            list_keys: self.texts(map, path, "x-kubernetes-list-map-keys"),
            map_atomic: self.text(map, path, "x-kubernetes-map-type") == Some("atomic"),
            ..Node::default()
        };
        node.kind = self.text(map, path, "type").and_then(Kind::from_word);
        node.list = self.text(map, path, "x-kubernetes-list-type").and_then(|word| match word {
            "map" => Some(ListType::Map),
            "set" => Some(ListType::Set),
            "atomic" => Some(ListType::Atomic),
            _ => None,
        });
        self.structure(map, path, &mut node);
        node
    }

    fn structure(&mut self, map: &Map<String, Value>, path: &str, node: &mut Node) {
        match map.get("properties") {
            Some(Value::Object(properties)) => {
                for (name, schema) in properties {
                    let child = self.node(schema, &format!("{path}.properties[{name}]"));
                    node.properties.insert(name.clone(), child);
                }
            }
            other => self.absent(other, path, "properties", "must be an object of schemas"),
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(true)) => node.additional = Some(Additional::Any),
            Some(schema @ Value::Object(_)) => {
                let child = self.node(schema, &format!("{path}.additionalProperties"));
                node.additional = Some(Additional::Of(Box::new(child)));
            }
            Some(Value::Bool(false)) => {}
            other => self.absent(other, path, "additionalProperties", "must be a schema or a boolean"),
        }
        match map.get("items") {
            Some(schema @ Value::Object(_)) => {
                node.items = Some(Box::new(self.node(schema, &format!("{path}.items"))));
            }
            Some(Value::Array(_)) => {
                self.errors.forbidden(format!("{path}.items"), "items must be a schema object and not an array");
            }
            other => self.absent(other, path, "items", "must be a schema"),
        }
    }

    fn absent(&mut self, value: Option<&Value>, path: &str, keyword: &str, wanted: &str) {
        if let Some(value) = value.filter(|v| !v.is_null()) {
            self.errors.type_invalid(format!("{path}.{keyword}"), value.clone(), wanted);
        }
    }

    fn flag(&mut self, map: &Map<String, Value>, path: &str, keyword: &str) -> bool {
        match map.get(keyword) {
            Some(Value::Bool(flag)) => *flag,
            other => {
                self.absent(other, path, keyword, "must be a boolean");
                false
            }
        }
    }

    fn text<'v>(&mut self, map: &'v Map<String, Value>, path: &str, keyword: &str) -> Option<&'v str> {
        match map.get(keyword) {
            Some(Value::String(text)) => Some(text).filter(|t| !t.is_empty()).map(String::as_str),
            other => {
                self.absent(other, path, keyword, "must be a string");
                None
            }
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, path: &str, keyword: &str) -> Vec<String> {
        match map.get(keyword) {
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            other => {
                self.absent(other, path, keyword, "must be a list of strings");
                Vec::new()
            }
        }
    }
}
