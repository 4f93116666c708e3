//! Field selectors: the text form of `?fieldSelector=`.
//!
//! It decides syntax and matching; which fields a kind can be selected by is for that kind's strategy.

use std::collections::BTreeMap;
use std::fmt;

/// All terms must hold. No term matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub field: String,
    pub value: String,
    /// `!=` instead of `=`.
    pub negated: bool,
}

/// Why a selector cannot be read. The request is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term { selector: String, term: String },
    #[error("invalid field selector: {0:?} has an invalid escape sequence")]
    Escape(String),
}

impl FieldSelector {
    pub fn everything() -> Self {
        Self::default()
    }
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
    pub fn equals(field: &str, value: &str) -> Self {
        Self { terms: vec![Term { field: field.to_owned(), value: value.to_owned(), negated: false }] }
    }
    /// The value that a match must have in this field, when the selector names exactly one.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| !t.negated && t.field == field).map(|t| t.value.as_str())
    }

    /// Reads `a=b,c==d,e!=f`; in values `\,` `\=` `\\` stand for themselves.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut terms = Vec::new();
        for term in split_unescaped(text).into_iter().filter(|t| !t.is_empty()) {
            let bad = || FieldSelectorError::Term { selector: text.to_owned(), term: term.to_owned() };
            let at = term.find(['=', '!']).ok_or_else(bad)?;
            let (field, rest) = term.split_at(at);
            let (negated, value) = if let Some(v) = rest.strip_prefix("!=") {
                (true, v)
            } else if let Some(v) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
                (false, v)
            } else {
                return Err(bad());
            };
            if field.is_empty() {
                return Err(bad());
            }
            terms.push(Term { field: field.to_owned(), value: unescape(value)?, negated });
        }
        Ok(Self { terms })
    }

    /// Matches against a lookup of field values; an unknown field counts as the empty value.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|t| (lookup(&t.field).unwrap_or("") == t.value) != t.negated)
    }

    pub fn matches(&self, fields: &BTreeMap<String, String>) -> bool {
        self.matches_with(|f| fields.get(f).map(String::as_str))
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> Result<String, FieldSelectorError> {
    let bad = || FieldSelectorError::Escape(value.to_owned());
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(e @ ('\\' | ',' | '=')) => out.push(e),
                _ => return Err(bad()),
            },
            ',' | '=' => return Err(bad()),
            c => out.push(c),
        }
    }
    Ok(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, t) in self.terms.iter().enumerate() {
            let value = t.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{}{}{value}", if i > 0 { "," } else { "" }, t.field, if t.negated { "!=" } else { "=" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_by_fields() {
        let fields: BTreeMap<_, _> =
            [("metadata.name", "a"), ("x", "1,2")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let check = |text: &str, expect: bool| {
            let selector = FieldSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&fields), expect, "{text}");
            assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector, "{text}");
        };
        check("", true);
        check("metadata.name=a", true);
        check("metadata.name==a,x!=3", true);
        check("metadata.name!=a", false);
        check("x=1\\,2", true);
        check("absent=", true);
        check("spec.nodeName!=", false);
    }

    #[test]
    fn bad_text_is_refused() {
        for bad in ["a", "=x", "a=b=c", "a=\\x", "a!b", "a=\\"] {
            assert!(FieldSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_required_value_is_found() {
        let s = FieldSelector::parse("spec.nodeName=n1,status.phase!=Failed").unwrap();
        assert_eq!((s.required("spec.nodeName"), s.required("status.phase")), (Some("n1"), None));
    }
}
