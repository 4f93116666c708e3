//! Kubernetes' JSONPath, as the columns of custom resources use it: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! It decides which paths are valid and what they find in an object; who prints it, and where, is not known here.

use crate::time::Timestamp;
use serde_json::Value;
use std::cmp::Ordering;

/// The longest path.
const MAX_LENGTH: usize = 4096;
/// How many values one path may look at, so that `..` and filters stay cheap.
const MAX_STEPS: usize = 100_000;

/// A path that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// `['a','b']`
    Fields(Vec<String>),
    /// `[1]`, `[-1]`
    Index(i64),
    /// `[0,2]`
    Indices(Vec<i64>),
    /// `[from:to:step]`
    Slice(Option<i64>, Option<i64>, i64),
    /// `[*]` and `.*`
    All,
    /// `..`
    Deep,
    Filter(Filter),
}

/// `[?(@.a == "b")]`, or a path that only has to exist.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Test, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// From the item on.
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    Differs,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const TESTS: [(&str, Test); 6] = [
    ("==", Test::Equal),
    ("!=", Test::Differs),
    ("<=", Test::LessOrEqual),
    (">=", Test::GreaterOrEqual),
    ("<", Test::Less),
    (">", Test::Greater),
];

impl JsonPath {
    /// Reads a path; the braces of kubectl's templates and a leading `$` may stand around it.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        if text.len() > MAX_LENGTH {
            return Err(JsonPathError(format!("path is longer than {MAX_LENGTH} characters")));
        }
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(inner);
        let mut reader = Reader { rest: inner, depth: 0 };
        let path = reader.path()?;
        match reader.rest {
            "" => Ok(path),
            rest => Err(JsonPathError(format!("unexpected {rest:?}"))),
        }
    }

    /// Everything that the path leads to, in order.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.walk(value, &mut MAX_STEPS.clone())
    }

    /// The first value, which is what columns print.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.find(value).first().copied()
    }

    fn walk<'v>(&self, value: &'v Value, left: &mut usize) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                if *left == 0 {
                    return Vec::new();
                }
                *left -= 1;
                step.follow(value, &mut next, left);
            }
            found = next;
        }
        found
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>, left: &mut usize) {
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        let at = |index: i64| {
            let index = if index < 0 { index + items.len() as i64 } else { index };
            usize::try_from(index).ok().and_then(|index| items.get(index))
        };
        match self {
            Step::Field(name) => found.extend(value.get(name)),
            Step::Fields(names) => found.extend(names.iter().filter_map(|name| value.get(name))),
            Step::Index(index) => found.extend(at(*index)),
            Step::Indices(indices) => found.extend(indices.iter().filter_map(|index| at(*index))),
            Step::Slice(from, to, step) => found.extend(slice(items, *from, *to, *step)),
            Step::All => match value {
                Value::Object(members) => found.extend(members.values()),
                _ => found.extend(items),
            },
            Step::Deep => deep(value, found, left),
            Step::Filter(filter) => found.extend(items.iter().filter(|item| filter.holds(item, left))),
        }
    }
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>, step: i64) -> impl Iterator<Item = &Value> {
    let length = items.len() as i64;
    let place = |index: i64| if index < 0 { (index + length).max(0) } else { index.min(length) } as usize;
    let (from, to) = (place(from.unwrap_or(0)), place(to.unwrap_or(length)));
    items.get(from..to.max(from)).unwrap_or(&[]).iter().step_by(step.max(1) as usize)
}

/// The value and all inside of it, without recursion.
fn deep<'v>(value: &'v Value, found: &mut Vec<&'v Value>, left: &mut usize) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        found.push(value);
        match value {
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(members) => open.extend(members.values().rev()),
            _ => {}
        }
    }
}

impl Filter {
    fn holds(&self, item: &Value, left: &mut usize) -> bool {
        let Some(a) = self.left.value(item, left) else { return false };
        let Some((test, right)) = &self.test else { return true };
        let Some(b) = right.value(item, left) else { return false };
        let order = order(&a, &b);
        match test {
            Test::Equal => a == b || order == Some(Ordering::Equal),
            Test::Differs => a != b && order != Some(Ordering::Equal),
            Test::Less => order == Some(Ordering::Less),
            Test::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Test::Greater => order == Some(Ordering::Greater),
            Test::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Operand {
    fn value(&self, item: &Value, left: &mut usize) -> Option<Value> {
        match self {
            Operand::Literal(value) => Some(value.clone()),
            Operand::Path(path) => path.walk(item, left).first().map(|value| (*value).clone()),
        }
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(x), Value::String(y)) => Some(x.cmp(y)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn take(&mut self, word: &str) -> bool {
        let after = self.rest.strip_prefix(word);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T, JsonPathError> {
        Err(JsonPathError(why.into()))
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Steps, up to something that can be none.
    fn path(&mut self) -> Result<JsonPath, JsonPathError> {
        if !self.take("$") {
            self.take("@");
        }
        let mut steps = Vec::new();
        loop {
            if self.take("..") {
                steps.push(Step::Deep);
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take(".") {
                // A path that is a dot alone is the whole object; a dot before a bracket means nothing.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(JsonPath { steps });
            }
        }
    }

    /// A field's name, in which a backslash makes a dot part of it.
    fn name(&mut self) -> Result<Step, JsonPathError> {
        if self.take("*") {
            return Ok(Step::All);
        }
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                c if c.is_alphanumeric() || "_-/:@+".contains(c) => name.push(c),
                _ => {
                    end = at;
                    break;
                }
            }
        }
        if name.is_empty() {
            return self.fail(format!("a name is missing at {:?}", self.rest));
        }
        self.rest = &self.rest[end..];
        Ok(Step::Field(name))
    }

    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        self.skip_space();
        let step = if self.take("?") {
            self.filter()?
        } else if self.take("*") {
            Step::All
        } else if self.rest.starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            while self.comma() {
                names.push(self.quoted()?);
            }
            match <[String; 1]>::try_from(names) {
                Ok([name]) => Step::Field(name),
                Err(names) => Step::Fields(names),
            }
        } else {
            self.indices()?
        };
        self.skip_space();
        if self.take("]") { Ok(step) } else { self.fail("unterminated array") }
    }

    fn comma(&mut self) -> bool {
        self.skip_space();
        let found = self.take(",");
        self.skip_space();
        found
    }

    fn indices(&mut self) -> Result<Step, JsonPathError> {
        let from = self.number()?;
        if self.take(":") {
            let to = self.number()?;
            let step = if self.take(":") { self.number()?.unwrap_or(1) } else { 1 };
            if step < 1 {
                return self.fail("step must be > 0");
            }
            return Ok(Step::Slice(from, to, step));
        }
        let mut indices = vec![from];
        while self.comma() {
            indices.push(self.number()?);
        }
        match indices.into_iter().collect::<Option<Vec<i64>>>() {
            Some(indices) if indices.len() == 1 => Ok(Step::Index(indices[0])),
            Some(indices) => Ok(Step::Indices(indices)),
            None => self.fail(format!("invalid array index at {:?}", self.rest)),
        }
    }

    fn number(&mut self) -> Result<Option<i64>, JsonPathError> {
        self.skip_space();
        let length = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').len();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.skip_space();
        match digits {
            "" => Ok(None),
            digits => digits.parse().map(Some).or_else(|_| self.fail(format!("invalid array index {digits}"))),
        }
    }

    fn quoted(&mut self) -> Result<String, JsonPathError> {
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return self.fail("a quoted name is missing");
        };
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        self.fail("unterminated quoted string")
    }

    fn filter(&mut self) -> Result<Step, JsonPathError> {
        self.depth += 1;
        if self.depth > 4 {
            return self.fail("filters nest too deeply");
        }
        if !self.take("(") {
            return self.fail("a filter begins with ?(");
        }
        let left = self.operand()?;
        self.skip_space();
        let test = TESTS.iter().find(|(word, _)| self.take(word)).map(|(_, test)| *test);
        let test = test.map(|test| Ok((test, self.operand()?))).transpose()?;
        self.skip_space();
        if !self.take(")") {
            return self.fail("unterminated filter");
        }
        self.depth -= 1;
        Ok(Step::Filter(Filter { left, test }))
    }

    fn operand(&mut self) -> Result<Operand, JsonPathError> {
        self.skip_space();
        if self.rest.starts_with(['@', '$', '.']) {
            return self.path().map(Operand::Path);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(text.into()));
        }
        let end = self.rest.find(|c: char| c.is_whitespace() || ")=!<>".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match serde_json::from_str::<Value>(word) {
            Ok(value) if !value.is_array() && !value.is_object() => Ok(Operand::Literal(value)),
            _ => self.fail(format!("unrecognized operand {word:?} in a filter")),
        }
    }
}

/// A column's cell for what its path found: typed as the column says, null where that does not fit. Times are shown as their
/// age at `now`.
pub fn cell(found: Option<&Value>, column: &str, now: Timestamp) -> Value {
    let Some(value) = found else { return Value::Null };
    match (column, value) {
        ("integer", value) if value.is_i64() || value.is_u64() => value.clone(),
        ("integer", Value::Number(number)) => number.as_f64().map_or(Value::Null, |n| (n.trunc() as i64).into()),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("string", Value::Null) => Value::Null,
        ("string", other) => other.to_string().into(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => crate::time::age(Some(time), now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
