//! What a schema says about single values: bounds, lengths, patterns, and schemas that must or must not hold. It decides how
//! these keywords are read; `validate` asks them.

use super::format::Format;
use super::node::{Node, Reader};
use super::view::View;
use crate::re2;
use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The memory that all expressions of one schema may take.
pub(super) const PATTERN_MEMORY: usize = 128 << 20;

/// The restrictions of one schema.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub format: Option<Format>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<u64>,
    pub min_length: Option<u64>,
    pub max_items: Option<u64>,
    pub min_items: Option<u64>,
    pub max_properties: Option<u64>,
    pub min_properties: Option<u64>,
    pub pattern: Option<Pattern>,
    pub required: Vec<String>,
    /// `enum`; empty allows everything.
    pub allowed: Vec<Value>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
}

const KEYWORDS: [&str; 19] = [
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "pattern",
    "required",
    "enum",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

impl Checks {
    /// Whether the schema has any of these keywords.
    pub fn speaks_in(view: View<'_>) -> bool {
        view.0.keys().any(|keyword| KEYWORDS.contains(&keyword.as_str()))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub text: String,
    pub regex: Arc<Regex>,
}

/// The expressions of one schema: each is compiled once, and all together are bounded.
#[derive(Default)]
pub(super) struct Patterns {
    compiled: HashMap<String, Arc<Regex>>,
    memory: usize,
}

impl Patterns {
    fn compile(&mut self, text: &str) -> Result<Arc<Regex>, String> {
        if let Some(regex) = self.compiled.get(text) {
            return Ok(regex.clone());
        }
        if self.memory + re2::SMALL > PATTERN_MEMORY {
            return Err("the schema's expressions are too large together".to_owned());
        }
        let (regex, memory) = re2::compile(text)?;
        self.memory += memory;
        let regex = Arc::new(regex);
        self.compiled.insert(text.to_owned(), regex.clone());
        Ok(regex)
    }
}

impl Reader<'_> {
    pub fn checks(&mut self, view: View<'_>, path: &str) -> Checks {
        Checks {
            format: Format::named(self.text(view, path, "format")),
            maximum: self.number(view, path, "maximum"),
            exclusive_maximum: self.flag(view, path, "exclusiveMaximum"),
            minimum: self.number(view, path, "minimum"),
            exclusive_minimum: self.flag(view, path, "exclusiveMinimum"),
            multiple_of: self.number(view, path, "multipleOf"),
            max_length: self.count(view, path, "maxLength"),
            min_length: self.count(view, path, "minLength"),
            max_items: self.count(view, path, "maxItems"),
            min_items: self.count(view, path, "minItems"),
            max_properties: self.count(view, path, "maxProperties"),
            min_properties: self.count(view, path, "minProperties"),
            pattern: self.pattern(view, path),
            required: self.texts(view, path, "required"),
            allowed: self.allowed(view, path),
            all_of: self.nodes(view, path, "allOf"),
            any_of: self.nodes(view, path, "anyOf"),
            one_of: self.nodes(view, path, "oneOf"),
            not: view.get("not").map(|schema| Box::new(self.node(schema, &format!("{path}.not")))),
        }
    }

    fn nodes(&mut self, view: View<'_>, path: &str, keyword: &str) -> Vec<Node> {
        self.wrong(view.get(keyword).filter(|v| !v.is_array()), path, keyword, "must be a list of schemas");
        let schemas = view.list(keyword).iter().enumerate();
        schemas.map(|(index, schema)| self.node(schema, &format!("{path}.{keyword}[{index}]"))).collect()
    }

    fn allowed(&mut self, view: View<'_>, path: &str) -> Vec<Value> {
        self.wrong(view.get("enum").filter(|v| !v.is_array()), path, "enum", "must be a list");
        view.list("enum").to_vec()
    }

    fn number(&mut self, view: View<'_>, path: &str, keyword: &str) -> Option<f64> {
        self.wrong(view.get(keyword).filter(|v| !v.is_number()), path, keyword, "must be a number");
        view.get(keyword).and_then(Value::as_f64)
    }

    /// A negative count never holds for a maximum and always for a minimum.
    fn count(&mut self, view: View<'_>, path: &str, keyword: &str) -> Option<u64> {
        let value = view.get(keyword)?;
        if !value.is_i64() && !value.is_u64() {
            self.wrong(Some(value), path, keyword, "must be an integer");
        }
        value.as_u64().or_else(|| value.as_i64().map(|_| 0))
    }

    fn pattern(&mut self, view: View<'_>, path: &str) -> Option<Pattern> {
        let text = self.text(view, path, "pattern");
        if text.is_empty() {
            return None;
        }
        match self.patterns.compile(text) {
            Ok(regex) => Some(Pattern { text: text.to_owned(), regex }),
            Err(why) => {
                let why = format!("must be a valid regular expression, but isn't: {why}");
                self.errors.invalid(format!("{path}.pattern"), text, why);
                None
            }
        }
    }
}
