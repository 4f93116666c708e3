//! Label selectors: the text form of `?labelSelector=` and the object form of `metav1.LabelSelector`.
//!
//! It decides what matches; it never looks at an object beyond its labels.

use crate::names;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// All requirements must hold. No requirement matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
    /// Matches nothing, whatever the requirements: a null `LabelSelector`.
    nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: String,
    pub op: Op,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Equals(String),
    NotEquals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Why a selector cannot be read. The request is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("unable to parse requirement: {0}")]
    Syntax(String),
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    #[error("invalid label selector: {0}")]
    Shape(String),
}

impl Requirement {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.op {
            Op::Equals(v) => value == Some(v),
            Op::NotEquals(v) => value != Some(v),
            Op::In(set) => value.is_some_and(|v| set.contains(v)),
            Op::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
            Op::Exists => value.is_some(),
            Op::DoesNotExist => value.is_none(),
            Op::GreaterThan(n) => number().is_some_and(|v| v > *n),
            Op::LessThan(n) => number().is_some_and(|v| v < *n),
        }
    }
}

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }
    /// Matches no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }
    pub fn new(requirements: Vec<Requirement>) -> Self {
        Self { requirements, nothing: false }
    }
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Exactly these labels, as a Service's or ReplicationController's selector. An empty map matches everything.
    pub fn from_map(labels: &BTreeMap<String, String>) -> Self {
        let equals = |(k, v): (&String, &String)| Requirement { key: k.clone(), op: Op::Equals(v.clone()) };
        Self::new(labels.iter().map(equals).collect())
    }

    pub fn from_label_selector(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut all = Self::from_map(&selector.match_labels);
        for r in &selector.match_expressions {
            let values = || r.values.iter().cloned().collect::<BTreeSet<_>>();
            let op = match r.operator.as_str() {
                "In" | "NotIn" if r.values.is_empty() => {
                    return Err(SelectorError::Syntax(
                        "for 'in', 'notin' operators, values set can't be empty".to_owned(),
                    ));
                }
                "In" => Op::In(values()),
                "NotIn" => Op::NotIn(values()),
                "Exists" | "DoesNotExist" if !r.values.is_empty() => {
                    return Err(SelectorError::Syntax(
                        "values set must be empty for exists and does not exist".to_owned(),
                    ));
                }
                "Exists" => Op::Exists,
                "DoesNotExist" => Op::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            all.requirements.push(checked(&r.key, op)?);
        }
        Ok(all)
    }

    /// From the JSON of a `metav1.LabelSelector`. Null or absent matches nothing, `{}` matches everything.
    pub fn from_json(selector: Option<&serde_json::Value>) -> Result<Self, SelectorError> {
        match selector {
            None | Some(serde_json::Value::Null) => Ok(Self::nothing()),
            Some(v) => {
                let parsed = LabelSelector::deserialize(v).map_err(|e| SelectorError::Shape(e.to_string()))?;
                Self::from_label_selector(&parsed)
            }
        }
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |set: &BTreeSet<String>| set.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let key = &self.key;
        match &self.op {
            Op::Equals(v) => write!(f, "{key}={v}"),
            Op::NotEquals(v) => write!(f, "{key}!={v}"),
            Op::In(set) => write!(f, "{key} in ({})", list(set)),
            Op::NotIn(set) => write!(f, "{key} notin ({})", list(set)),
            Op::Exists => f.write_str(key),
            Op::DoesNotExist => write!(f, "!{key}"),
            Op::GreaterThan(n) => write!(f, "{key}>{n}"),
            Op::LessThan(n) => write!(f, "{key}<{n}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<_> = self.requirements.iter().collect();
        sorted.sort();
        for (i, r) in sorted.into_iter().enumerate() {
            write!(f, "{}{r}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

fn checked(key: &str, op: Op) -> Result<Requirement, SelectorError> {
    names::qualified_name(key).map_err(|e| SelectorError::Syntax(format!("key: Invalid value: {key:?}: {e}")))?;
    let check = |v: &String| {
        names::label_value(v).map_err(|e| SelectorError::Syntax(format!("values[{key}]: Invalid value: {v:?}: {e}")))
    };
    match &op {
        Op::Equals(v) | Op::NotEquals(v) => check(v)?,
        Op::In(set) | Op::NotIn(set) => set.iter().try_for_each(check)?,
        _ => {}
    }
    Ok(Requirement { key: key.to_owned(), op })
}

/// Reads the text form: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`. Empty text matches everything.
pub fn parse(text: &str) -> Result<Selector, SelectorError> {
    let mut p = Parser { rest: text.trim() };
    let mut requirements = Vec::new();
    while !p.rest.is_empty() {
        requirements.push(p.requirement()?);
        match p.token() {
            "" => break,
            "," if p.rest.is_empty() => return Err(p.unexpected("", "identifier after ','")),
            "," => {}
            other => return Err(p.unexpected(other, "',' or 'end of string'")),
        }
    }
    Ok(Selector::new(requirements))
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn token(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let special = |b: u8| b"=!,()<>".contains(&b);
        let len = match self.rest.as_bytes() {
            [] => 0,
            [b'=', b'=', ..] | [b'!', b'=', ..] => 2,
            [b, ..] if special(*b) => 1,
            bytes => bytes.iter().take_while(|b| !special(**b) && !b.is_ascii_whitespace()).count(),
        };
        let (token, rest) = self.rest.split_at(len);
        self.rest = rest.trim_start();
        token
    }

    fn unexpected(&self, found: &str, expected: &str) -> SelectorError {
        SelectorError::Syntax(format!("found '{found}', expected: {expected}"))
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut key = self.token();
        let negated = key == "!";
        if negated {
            key = self.token();
        }
        if !is_word(key) {
            return Err(self.unexpected(key, "'!, identifier, or ')'"));
        }
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return checked(key, if negated { Op::DoesNotExist } else { Op::Exists });
        }
        if negated {
            let found = self.token();
            return Err(self.unexpected(found, "',' or 'end of string'"));
        }
        let operator = self.token();
        let op = match operator {
            "=" | "==" => Op::Equals(self.value()?.to_owned()),
            "!=" => Op::NotEquals(self.value()?.to_owned()),
            "in" => Op::In(self.values()?),
            "notin" => Op::NotIn(self.values()?),
            ">" => Op::GreaterThan(self.number(key)?),
            "<" => Op::LessThan(self.number(key)?),
            other => return Err(self.unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        };
        checked(key, op)
    }

    fn value(&mut self) -> Result<&'a str, SelectorError> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok("");
        }
        let value = self.token();
        if is_word(value) { Ok(value) } else { Err(self.unexpected(value, "identifier")) }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value()?;
        let wrong = || {
            SelectorError::Syntax(format!(
                "values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        };
        value.parse().map_err(|_| wrong())
    }

    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let open = self.token();
        if open != "(" {
            return Err(self.unexpected(open, "'('"));
        }
        let mut set = BTreeSet::new();
        loop {
            match self.token() {
                ")" if set.is_empty() => {
                    set.insert(String::new());
                    return Ok(set);
                }
                // An empty element stands for the empty value.
                token @ ("," | ")") => {
                    set.insert(String::new());
                    if token == ")" {
                        return Ok(set);
                    }
                }
                word if is_word(word) => {
                    set.insert(word.to_owned());
                    match self.token() {
                        ")" => return Ok(set),
                        "," => {}
                        other => return Err(self.unexpected(other, "',' or ')'")),
                    }
                }
                other => return Err(self.unexpected(other, "',', ')' or identifier")),
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token.bytes().next().is_some_and(|b| !b"=!,()<>".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(',').filter(|s| !s.is_empty());
        pairs.map(|p| p.split_once('=').map(|(k, v)| (k.into(), v.into())).unwrap()).collect()
    }

    #[test]
    fn text_selectors_match() {
        let check = |selector: &str, on: &str, expect: bool| {
            assert_eq!(parse(selector).unwrap().matches(&labels(on)), expect, "{selector} on {on}");
        };
        check("", "a=1", true);
        check("a=1", "a=1,b=2", true);
        check("a==1,b=2", "a=1", false);
        check("a!=1", "", true);
        check("a!=1", "a=1", false);
        check("a in (1, 2)", "a=2", true);
        check("a in (1,2)", "", false);
        check("a notin (1,2)", "", true);
        check("a notin (1,2)", "a=1", false);
        check("a", "a=", true);
        check("!a", "a=", false);
        check("! a", "b=", true);
        check("a=", "a=", true);
        check("a=,b=1", "a=,b=1", true);
        check("a>3", "a=4", true);
        check("a<3", "a=x", false);
        check("in in (in)", "in=in", true);
        check("x.y/z-w in (,a)", "x.y/z-w=", true);
    }

    #[test]
    fn text_survives_a_round_trip() {
        for text in ["a=1,b!=2", "a in (x,y),c notin (z)", "!b,a", "n<2,n>1", ""] {
            let once = parse(text).unwrap();
            assert_eq!(parse(&once.to_string()).unwrap().to_string(), once.to_string());
        }
        assert_eq!(parse(" b = 1 , a ").unwrap().to_string(), "a,b=1");
    }

    #[test]
    fn bad_text_is_refused() {
        for bad in
            ["=", "a=1,", ",a", "a b", "a in", "a in (", "a in (x", "a in (x y)", "a>b", "!a=1", "a=b=c", "-=x", "a=x$"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn object_selectors_match() {
        let check = |selector: serde_json::Value, on: &str, expect: bool| {
            assert_eq!(Selector::from_json(Some(&selector)).unwrap().matches(&labels(on)), expect, "{selector}");
        };
        check(json!(null), "a=1", false);
        check(json!({}), "a=1", true);
        check(json!({"matchLabels": {"a": "1"}}), "a=1", true);
        check(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), "a=1", false);
        check(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), "a=1", true);
        check(
            json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}),
            "a=1",
            true,
        );
        assert!(Selector::from_json(Some(&json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}))).is_err());
        assert!(Selector::from_json(Some(&json!({"matchExpressions": [{"key": "a", "operator": "In"}]}))).is_err());
    }
}
