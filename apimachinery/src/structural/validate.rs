//! Which values a schema allows. It decides value by value, in Kubernetes' words; uniqueness in lists, the headers of
//! embedded resources and rules are decided elsewhere.

use super::checks::Checks;
use super::go;
use super::node::{Additional, Kind, Node};
use super::prune::HEADER;
use crate::schema::ListType;
use crate::status::{FieldErrorKind, FieldErrors};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// Where errors stand that are not about one field.
pub(super) const NOWHERE: &str = "<nil>";

/// How many schemas one validation may ask: twice the values of the largest object. Long texts, lists of allowed values and
/// alternatives that fail count more.
const MAX_STEPS: u64 = 3_000_000;
/// What it takes to write errors that nobody reads, as another alternative holds.
const FAILED_STEPS: u64 = 20;
/// How many errors are worth telling.
const MAX_ERRORS: usize = 1000;

/// What is left of the steps.
struct Steps(u64);

impl Steps {
    /// Whether there is enough left for so many.
    fn take(&mut self, count: u64) -> bool {
        self.0 = self.0.saturating_sub(count);
        self.0 > 0
    }
}

/// What one schema found in one value.
#[derive(Default)]
struct Found {
    errors: FieldErrors,
    /// How many checks held: of several alternatives that fail, the one with most is told about.
    held: usize,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.errors.extend(other.errors);
        self.held += other.held;
    }
}

/// Checks `new`. Where `old` is the value that was there before and nothing changed, everything stays allowed.
pub(super) fn validate(new: &Value, old: Option<&Value>, root: &Node, errors: &mut FieldErrors) {
    let mut steps = Steps(MAX_STEPS);
    errors.extend(value(new, old, root, &mut String::new(), true, &mut steps).errors);
    if steps.0 == 0 {
        let why = "too many values and schemas to check; make the object smaller or its schema simpler";
        errors.invalid(NOWHERE, "", why);
    }
}

/// How much more than one step this value takes.
fn weight(value: &Value, checks: &Checks) -> u64 {
    let looks = u64::from(checks.pattern.is_some()) + u64::from(checks.format.is_some()) + 1;
    let length = value.as_str().map_or(0, str::len) as u64;
    1 + checks.allowed.len() as u64 + looks * (length / 64)
}

fn value(new: &Value, old: Option<&Value>, node: &Node, path: &mut String, is_root: bool, steps: &mut Steps) -> Found {
    let mut found = Found::default();
    if old == Some(new) || !steps.take(weight(new, node.checks())) {
        return found;
    }
    kind(new, node, path, &mut found);
    if new.is_null() {
        allowed(new, node.checks(), path, &mut found);
        return found;
    }
    junctors(new, node.checks(), path, &mut found, steps);
    match new {
        Value::String(text) => string(text, node.checks(), path, &mut found),
        Value::Number(number) => numeric(number, node.checks(), path, &mut found),
        Value::Array(items) => list(items, old, node, path, &mut found, steps),
        _ => {}
    }
    allowed(new, node.checks(), path, &mut found);
    if let Value::Object(members) = new {
        object(members, old, node, path, is_root, &mut found, steps);
    }
    found
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => Kind::Boolean.word(),
        Value::Number(number) if number.is_i64() => Kind::Integer.word(),
        Value::Number(_) => Kind::Number.word(),
        Value::String(_) => Kind::String.word(),
        Value::Array(_) => Kind::Array.word(),
        Value::Object(_) => Kind::Object.word(),
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn kind(value: &Value, node: &Node, path: &str, found: &mut Found) {
    let fits = |kind: Kind| match kind {
        Kind::Integer => value.is_number() && is_whole(value),
        Kind::Number => value.is_number(),
        other => word(value) == other.word(),
    };
    let (wanted, holds) = match node.kind {
        _ if node.int_or_string => ("integer,string", fits(Kind::Integer) || fits(Kind::String)),
        Some(kind) => (kind.word(), fits(kind)),
        None => return,
    };
    if holds || (value.is_null() && node.nullable) {
        found.held += 1;
        return;
    }
    let got = word(value);
    found.errors.type_invalid(path, got, format!("{path} in body must be of type {wanted}: {got:?}"));
}

fn allowed(value: &Value, checks: &Checks, path: &str, found: &mut Found) {
    if checks.allowed.is_empty() || checks.allowed.iter().any(|one| equal(one, value)) {
        found.held += 1;
        return;
    }
    let texts: Vec<String> = checks.allowed.iter().map(go::allowed).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    found.errors.not_supported(path, value.clone(), &texts);
}

/// `1` and `1.0` are the same.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64() && x.is_f64() != y.is_f64(),
        _ => a == b,
    }
}

fn string(text: &str, checks: &Checks, path: &str, found: &mut Found) {
    if checks.max_length.is_some() || checks.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            return found.errors.too_long(path, max as usize);
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            return found.errors.invalid(path, text, format!("{path} in body should be at least {min} chars long"));
        }
    }
    if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
        return found.errors.invalid(path, text, format!("{path} in body should match '{}'", pattern.text));
    }
    if let Some(format) = checks.format.filter(|format| !format.holds(text)) {
        let why = format!("{path} in body must be of type {}: {text:?}", format.name);
        return found.errors.type_invalid(path, text, why);
    }
    found.held += 1;
}

fn numeric(number: &Number, checks: &Checks, path: &str, found: &mut Found) {
    let before = found.errors.len();
    let value = number.as_f64().unwrap_or_default();
    let mut wrong = |words: &str, limit: f64| {
        let limit = go::limit(limit, number);
        found.errors.invalid(path, number.clone(), format!("{path} in body should be {words} {limit}"));
    };
    if let Some(factor) = checks.multiple_of {
        let times = value / factor;
        // As much as a division may be off.
        if factor > 0.0 && (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
            wrong("a multiple of", factor);
        }
    }
    if let Some(max) = checks.maximum {
        match checks.exclusive_maximum {
            true if value >= max => wrong("less than", max),
            false if value > max => wrong("less than or equal to", max),
            _ => {}
        }
    }
    if let Some(min) = checks.minimum {
        match checks.exclusive_minimum {
            true if value <= min => wrong("greater than", min),
            false if value < min => wrong("greater than or equal to", min),
            _ => {}
        }
    }
    found.held += usize::from(found.errors.len() == before);
}

fn list(items: &[Value], old: Option<&Value>, node: &Node, path: &mut String, found: &mut Found, steps: &mut Steps) {
    let previous = Previous::of(old, node);
    if let Some(child) = node.items.as_deref() {
        let length = path.len();
        for (index, item) in items.iter().enumerate() {
            if found.errors.len() >= MAX_ERRORS {
                return;
            }
            path.push_str(&format!("[{index}]"));
            found.add(value(item, previous.of_item(item), child, path, false, steps));
            path.truncate(length);
        }
    }
    let count = items.len() as u64;
    if let Some(min) = node.checks().min_items.filter(|min| count < *min) {
        found.errors.invalid(path.as_str(), count, format!("{path} in body should have at least {min} items"));
    }
    match node.checks().max_items {
        Some(max) if count > max => found.errors.too_many(path.as_str(), items.len(), max as usize),
        _ => found.held += 1,
    }
}

/// The items that a list had, where they can be told apart.
pub(super) struct Previous<'o> {
    keys: &'o [String],
    items: HashMap<String, &'o Value>,
}

impl<'o> Previous<'o> {
    pub fn of(old: Option<&'o Value>, node: &'o Node) -> Self {
        let keys = node.list_keys.as_slice();
        let old = old.and_then(Value::as_array).filter(|_| node.list == Some(ListType::Map));
        let items = old.into_iter().flatten().filter(|item| item.is_object());
        Self { keys, items: items.map(|item| (key(item, keys), item)).collect() }
    }

    /// The old item with the keys of this one.
    pub fn of_item(&self, item: &Value) -> Option<&'o Value> {
        if self.items.is_empty() { None } else { self.items.get(&key(item, self.keys)).copied() }
    }
}

fn key(item: &Value, keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        match item.get(key) {
            Some(value) => text.push_str(&value.to_string()),
            None => text.push('-'),
        }
        text.push('\n');
    }
    text
}

fn object(
    members: &Map<String, Value>,
    old: Option<&Value>,
    node: &Node,
    path: &mut String,
    is_root: bool,
    found: &mut Found,
    steps: &mut Steps,
) {
    let count = members.len() as u64;
    if let Some(min) = node.checks().min_properties.filter(|min| count < *min) {
        let why = format!("{path} in body should have at least {min} properties");
        return found.errors.invalid(path.as_str(), count, why);
    }
    if let Some(max) = node.checks().max_properties.filter(|max| count > *max) {
        return found.errors.too_many(path.as_str(), members.len(), max as usize);
    }
    let length = path.len();
    for (name, member) in members {
        if found.errors.len() >= MAX_ERRORS {
            return;
        }
        let known = node.properties.contains_key(name);
        if !known && matches!(node.additional, Some(Additional::Never)) {
            let why = format!("{path}.{name} in body is a forbidden property");
            found.errors.invalid(path.as_str(), name.as_str(), why);
        }
        let Some(Some(child)) = node.member(name) else { continue };
        enter(path, name);
        // Which version an object is written in is no part of it.
        let versioned = is_root && HEADER[..2].contains(&name.as_str());
        let before = old.filter(|_| !versioned).and_then(|old| old.get(name));
        found.add(value(member, before, child, path, false, steps));
        path.truncate(length);
    }
    for name in node.checks().required.iter().filter(|name| !members.contains_key(*name)) {
        enter(path, name);
        found.errors.required(path.as_str());
        path.truncate(length);
    }
    found.held += 1;
}

fn enter(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn junctors(new: &Value, checks: &Checks, path: &mut String, found: &mut Found, steps: &mut Steps) {
    let wrong = |found: &mut Found, path: &str, words: &str| {
        found.errors.push(FieldErrorKind::Invalid, NOWHERE, format!("Invalid value: \"\": {path:?} must {words}"));
    };
    if !checks.any_of.is_empty() {
        let (best, valid) = alternatives(new, &checks.any_of, path, true, steps);
        if valid == 0 {
            wrong(found, path, "validate at least one schema (anyOf)");
        }
        found.add(best);
    }
    if !checks.one_of.is_empty() {
        let (best, valid) = alternatives(new, &checks.one_of, path, false, steps);
        match valid {
            0 => wrong(found, path, "validate one and only one schema (oneOf). Found none valid"),
            1 => {}
            n => {
                let words = format!("validate one and only one schema (oneOf). Found {n} valid alternatives");
                wrong(found, path, &words);
            }
        }
        found.add(best);
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for node in &checks.all_of {
            let one = value(new, None, node, path, false, steps);
            valid += usize::from(one.errors.is_empty());
            found.add(one);
        }
        if valid != checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            wrong(found, path, &format!("validate all the schemas (allOf){none}"));
        }
    }
    if let Some(node) = &checks.not
        && value(new, None, node, path, false, steps).errors.is_empty()
    {
        wrong(found, path, "not validate the schema (not)");
    }
}

/// How many of `nodes` hold, and what the best one found.
fn alternatives(
    new: &Value,
    nodes: &[Node],
    path: &mut String,
    first_is_enough: bool,
    steps: &mut Steps,
) -> (Found, usize) {
    let mut best: Option<Found> = None;
    let mut valid = 0;
    for node in nodes {
        let one = value(new, None, node, path, false, steps);
        if one.errors.is_empty() {
            valid += 1;
            if valid == 1 {
                best = Some(one);
            }
            if first_is_enough {
                break;
            }
            continue;
        }
        steps.take(FAILED_STEPS);
        if valid == 0 && best.as_ref().is_none_or(|b| one.held > b.held) {
            best = Some(one);
        }
    }
    (best.unwrap_or_default(), valid)
}
