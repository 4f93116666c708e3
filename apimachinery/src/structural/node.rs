//! What one schema says, keyword by keyword, read from JSON. It decides how each keyword is understood; whether they may
//! stand together is decided elsewhere.

use super::checks::{Checks, Patterns};
use super::expressions::Rules;
use super::view::View;
use crate::schema::ListType;
use crate::status::FieldErrors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How many schemas one version may consist of; the largest known ones have about 30,000.
const MAX_SCHEMAS: usize = 100_000;

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

    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    pub fn words() -> [&'static str; 6] {
        Self::WORDS.map(|(word, _)| word)
    }
}

/// `additionalProperties`.
#[derive(Debug)]
pub(super) enum Additional {
    /// `true`: any member, about whose value nothing is said.
    Any,
    /// `false`: no member but the properties.
    Never,
    Of(Box<Node>),
}

impl Additional {
    pub fn node(&self) -> Option<&Node> {
        match self {
            Additional::Any | Additional::Never => None,
            Additional::Of(node) => Some(node),
        }
    }
}

/// One schema. Those inside `allOf`, `anyOf`, `oneOf` and `not` only use what restricts values.
#[derive(Debug, Default)]
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

    pub checks: Option<Box<Checks>>,
    /// The expressions that must hold.
    pub rules: Option<Box<Rules>>,
    /// Whether there are rules here or further inside.
    pub has_rules: bool,
}

impl Node {
    /// Reads a schema; a keyword of the wrong JSON type is an error and counts as absent.
    pub fn read(schema: &Value, path: &str, errors: &mut FieldErrors) -> Node {
        Reader { errors, patterns: Patterns::default(), count: 0 }.node(schema, path)
    }

    /// What restricts values.
    pub fn checks(&self) -> &Checks {
        static NONE: LazyLock<Checks> = LazyLock::new(Checks::default);
        self.checks.as_deref().unwrap_or(&NONE)
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

/// Reads a tree of schemas.
pub(super) struct Reader<'e> {
    pub errors: &'e mut FieldErrors,
    pub patterns: Patterns,
    count: usize,
}

impl Reader<'_> {
    pub fn node(&mut self, schema: &Value, path: &str) -> Node {
        let Some(view) = View::of(schema) else {
            self.errors.type_invalid(path, schema.clone(), "must be a schema");
            return Node::default();
        };
        self.count += 1;
        if self.count > MAX_SCHEMAS {
            if self.count == MAX_SCHEMAS + 1 {
                self.errors.too_many(path, self.count, MAX_SCHEMAS);
            }
            return Node::default();
        }
        let mut node = Node {
            nullable: self.flag(view, path, "nullable"),
            default: view.get("default").cloned(),
            preserve: self.flag(view, path, "x-kubernetes-preserve-unknown-fields"),
            embedded: self.flag(view, path, "x-kubernetes-embedded-resource"),
            int_or_string: self.flag(view, path, "x-kubernetes-int-or-string"),
            list_keys: self.texts(view, path, "x-kubernetes-list-map-keys"),
            map_atomic: self.text(view, path, "x-kubernetes-map-type") == "atomic",
            kind: Kind::from_word(self.text(view, path, "type")),
            checks: Checks::speaks_in(view).then(|| Box::new(self.checks(view, path))),
            ..Node::default()
        };
        node.list = match self.text(view, path, "x-kubernetes-list-type") {
            "map" => Some(ListType::Map),
            "set" => Some(ListType::Set),
            "atomic" => Some(ListType::Atomic),
            _ => None,
        };
        self.structure(view, path, &mut node);
        node
    }

    fn structure(&mut self, view: View<'_>, path: &str, node: &mut Node) {
        match view.get("properties") {
            Some(Value::Object(properties)) => {
                for (name, schema) in properties {
                    let place = format!("{path}.properties[{name}]");
                    if u16::try_from(name.len()).is_err() {
                        self.errors.too_long(place.as_str(), u16::MAX.into());
                    }
                    let child = self.node(schema, &place);
                    node.properties.insert(name.clone(), child);
                }
            }
            other => self.wrong(other, path, "properties", "must be an object of schemas"),
        }
        match view.get("additionalProperties") {
            Some(Value::Bool(true)) => node.additional = Some(Additional::Any),
            Some(Value::Bool(false)) => node.additional = Some(Additional::Never),
            Some(schema @ Value::Object(_)) => {
                let child = self.node(schema, &format!("{path}.additionalProperties"));
                node.additional = Some(Additional::Of(Box::new(child)));
            }
            other => self.wrong(other, path, "additionalProperties", "must be a schema or a boolean"),
        }
        match view.get("items") {
            Some(schema @ Value::Object(_)) => {
                node.items = Some(Box::new(self.node(schema, &format!("{path}.items"))));
            }
            // Refused by the rules.
            Some(Value::Array(_)) => {}
            other => self.wrong(other, path, "items", "must be a schema"),
        }
    }

    /// Notes a keyword that is there, but not of the type that it must be of.
    pub fn wrong(&mut self, value: Option<&Value>, path: &str, keyword: &str, wanted: &str) {
        if let Some(value) = value {
            self.errors.type_invalid(format!("{path}.{keyword}"), value.clone(), wanted);
        }
    }

    pub fn flag(&mut self, view: View<'_>, path: &str, keyword: &str) -> bool {
        let value = view.get(keyword);
        self.wrong(value.filter(|v| !v.is_boolean()), path, keyword, "must be a boolean");
        view.flag(keyword)
    }

    pub fn text<'v>(&mut self, view: View<'v>, path: &str, keyword: &str) -> &'v str {
        let value = view.get(keyword);
        self.wrong(value.filter(|v| !v.is_string()), path, keyword, "must be a string");
        view.text(keyword)
    }

    pub fn texts(&mut self, view: View<'_>, path: &str, keyword: &str) -> Vec<String> {
        let fits = |value: &&Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
        self.wrong(view.get(keyword).filter(|v| !fits(v)), path, keyword, "must be a list of strings");
        view.texts(keyword).map(str::to_owned).collect()
    }
}
