//! Reads a profile field by field. Decides how a wrong one is told: by its path, what it is and what it may be. A field that nobody
//! reads is a mistake of the writer's and told as well.

use crate::dice::Span;
use crate::duration::parse_ms;
use gantry_apimachinery::quantity::Quantity;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What is wrong with a profile. `at` is the field's path, such as `classes[1].gpus.count`; empty for the whole file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if at.is_empty() { String::new() } else { format!("{at}: ") })]
pub struct Problem {
    pub at: String,
    pub why: String,
}

pub type Result<T> = std::result::Result<T, Problem>;

/// The fields of one mapping.
pub struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
    known: RefCell<Vec<&'static str>>,
}

/// YAML, of which JSON is a part.
pub fn document(text: &str) -> Result<Value> {
    let whole = |why: String| Problem { at: String::new(), why };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| whole(format!("it is no YAML: {error}")))?;
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        other => Err(whole(format!("a mapping of fields is needed, not {}", shown(&other)))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}…", text.chars().take(60).collect::<String>()) } else { text }
}

impl<'a> Fields<'a> {
    pub fn of(at: impl Into<String>, value: &'a Value) -> Result<Self> {
        let at = at.into();
        match value {
            Value::Object(map) => Ok(Self { at, map, known: RefCell::default() }),
            other => Err(Problem { at, why: format!("a mapping of fields is needed, not {}", shown(other)) }),
        }
    }

    fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// A problem with this mapping as a whole.
    pub fn wrong(&self, name: &str, why: impl Into<String>) -> Problem {
        Problem { at: self.path(name), why: why.into() }
    }

    /// The field as it is; null is as good as absent.
    pub fn raw(&self, name: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub fn number(&self, name: &'static str, range: RangeInclusive<u64>, default: u64) -> Result<u64> {
        self.raw(name).map_or(Ok(default), |value| self.number_of(name, value, &range))
    }

    /// The same for what is counted in 32 bits.
    pub fn small(&self, name: &'static str, range: RangeInclusive<u32>, default: u32) -> Result<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        let number = self.number(name, wide, u64::from(default))?;
        Ok(u32::try_from(number).expect("the range ends below"))
    }

    fn number_of(&self, name: &str, value: &Value, range: &RangeInclusive<u64>) -> Result<u64> {
        let inside = value.as_u64().filter(|number| range.contains(number));
        inside.ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            self.wrong(name, format!("a whole number from {from} to {to} is needed, not {}", shown(value)))
        })
    }

    pub fn flag(&self, name: &'static str) -> Result<bool> {
        match self.raw(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(name, format!("true or false is needed, not {}", shown(other)))),
        }
    }

    pub fn text(&self, name: &'static str, default: &str) -> Result<String> {
        match self.raw(name) {
            None => Ok(default.to_owned()),
            Some(value) => self.text_of(name, value),
        }
    }

    /// A number is a text as well, as in `instance: 4`.
    fn text_of(&self, name: &str, value: &Value) -> Result<String> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(name, format!("a text is needed, not {}", shown(other)))),
        }
    }

    /// A text that can be a part of objects' names.
    pub fn name(&self, name: &'static str, default: &str) -> Result<String> {
        let text = self.text(name, default)?;
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends = text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.ends_with('-');
        if text.len() <= 40 && ends && text.chars().all(inner) {
            return Ok(text);
        }
        let rule = "lower-case letters, digits and dashes, at most 40, beginning with a letter";
        Err(self.wrong(name, format!("{rule}, not {text:?}")))
    }

    pub fn choice<T: Copy>(&self, name: &'static str, all: &[(&str, T)], default: T) -> Result<T> {
        let Some(value) = self.raw(name) else { return Ok(default) };
        let found = all.iter().find(|(word, _)| value.as_str() == Some(word));
        found.map(|(_, one)| *one).ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
            self.wrong(name, format!("one of {} is needed, not {}", words.join(", "), shown(value)))
        })
    }

    /// Something of a unit, or `{min, max}` of it.
    fn span_by(&self, name: &'static str, default: Span, one: impl Fn(&str, &Value) -> Result<u64>) -> Result<Span> {
        let Some(value) = self.raw(name) else { return Ok(default) };
        if !value.is_object() {
            return one(name, value).map(Span::exactly);
        }
        let ends = Fields::of(self.path(name), value)?;
        let end = |which: &'static str| {
            let value = ends.raw(which).ok_or_else(|| ends.wrong(which, "it is needed beside the other end"))?;
            one(&format!("{name}.{which}"), value)
        };
        let span = Span { min: end("min")?, max: end("max")? };
        ends.finish()?;
        if span.min > span.max {
            return Err(self.wrong(name, "max is less than min"));
        }
        Ok(span)
    }

    pub fn numbers(&self, name: &'static str, range: RangeInclusive<u64>, default: Span) -> Result<Span> {
        self.span_by(name, default, |name, value| self.number_of(name, value, &range))
    }

    /// In milliseconds.
    pub fn durations(&self, name: &'static str, default: Span) -> Result<Span> {
        self.span_by(name, default, |name, value| {
            parse_ms(&self.text_of(name, value)?).map_err(|why| self.wrong(name, why))
        })
    }

    /// A quantity of the API in thousandths (CPU) or whole units (bytes), more than nothing.
    fn quantity_of(&self, name: &str, value: &Value, milli: bool) -> Result<u64> {
        let text = self.text_of(name, value)?;
        let parsed = Quantity::parse(&text).ok().map(|q| if milli { q.milli() } else { q.value() });
        let found = parsed.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0);
        found.ok_or_else(|| self.wrong(name, format!("{text:?} is no quantity above 0, such as 500m, 4 or 16Gi")))
    }

    pub fn milli_cpu(&self, name: &'static str, default: Span) -> Result<Span> {
        self.span_by(name, default, |name, value| self.quantity_of(name, value, true))
    }

    pub fn bytes(&self, name: &'static str, default: Span) -> Result<Span> {
        self.span_by(name, default, |name, value| self.quantity_of(name, value, false))
    }

    /// Each item of a list, with its path.
    pub fn items(&self, name: &'static str) -> Result<Vec<(String, &'a Value)>> {
        match self.raw(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                Ok(items.iter().enumerate().map(|(at, item)| (format!("{}[{at}]", self.path(name)), item)).collect())
            }
            Some(other) => Err(self.wrong(name, format!("a list is needed, not {}", shown(other)))),
        }
    }

    /// The mappings of a list.
    pub fn list(&self, name: &'static str) -> Result<Vec<Fields<'a>>> {
        self.items(name)?.into_iter().map(|(at, item)| Fields::of(at, item)).collect()
    }

    pub fn inner(&self, name: &'static str) -> Result<Option<Fields<'a>>> {
        self.raw(name).map(|value| Fields::of(self.path(name), value)).transpose()
    }

    /// A mapping of texts.
    pub fn texts(&self, name: &'static str) -> Result<BTreeMap<String, String>> {
        let Some(inner) = self.inner(name)? else { return Ok(BTreeMap::new()) };
        inner.map.iter().map(|(key, value)| Ok((key.clone(), inner.text_of(key, value)?))).collect()
    }

    /// Everything was read: what is left is a mistake.
    pub fn finish(&self) -> Result<()> {
        let known = self.known.borrow();
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(self.wrong(key, format!("there is no such field; there are {}", known.join(", ")))),
        }
    }
}
