//! Whether a JSON value is as a behaviour says: a pattern is a value that must be found in the other one.
//!
//! Objects name the fields that must be there, others may be; arrays name every element in order; scalars are equal. A string
//! that begins with `~` is a regular expression; `<absent>`, `<any>`, `<string>`, `<number>`, `<time>`, `<uuid>` and
//! `<version>` say what kind of thing must be there. An object whose keys all stand in `<…>` has operators: see [`OPERATORS`].

use regex::Regex;
use serde_json::{Map, Value};

/// What an operator's argument says of the value.
pub const OPERATORS: [&str; 10] = [
    "<contains>",  // an array that has, for each pattern, an element like it
    "<unordered>", // an array with exactly these, in any order
    "<each>",      // an array (or object) whose every element is like this
    "<length>",    // an array, object or string of so many
    "<exactly>",   // the very same value, nothing more
    "<not>",       // anything but this
    "<above>",     // a number, or a text of digits, greater than this one
    "<all>",       // like every one of these patterns
    "<one of>",    // like one of these patterns
    "<keys>",      // an object with exactly these keys
];

/// What does not fit, one line each; empty when everything does.
pub fn differences(pattern: &Value, actual: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    compare(pattern, actual, "", &mut found);
    found
}

fn fits(pattern: &Value, actual: Option<&Value>) -> bool {
    differences(pattern, actual).is_empty()
}

fn compare(pattern: &Value, actual: Option<&Value>, at: &str, found: &mut Vec<String>) {
    let actual = actual.filter(|value| !value.is_null());
    match pattern {
        Value::Null => absent(actual, at, found),
        Value::String(text) => string(text, actual, at, found),
        Value::Object(map) if is_operators(map) => {
            for (operator, argument) in map {
                if let Some(problem) = operate(operator, argument, actual) {
                    found.push(format!("{}: {problem}", place(at)));
                }
            }
        }
        Value::Object(map) => match actual {
            Some(Value::Object(other)) => {
                for (key, inner) in map {
                    compare(inner, other.get(key), &join(at, key), found);
                }
            }
            other => differ("an object", other, at, found),
        },
        Value::Array(patterns) => match actual {
            Some(Value::Array(elements)) if elements.len() == patterns.len() => {
                for (index, (inner, element)) in patterns.iter().zip(elements).enumerate() {
                    compare(inner, Some(element), &format!("{at}[{index}]"), found);
                }
            }
            Some(Value::Array(elements)) => {
                found.push(format!(
                    "{}: {} elements, not {}: {}",
                    place(at),
                    elements.len(),
                    patterns.len(),
                    brief(&Value::from(elements.clone()))
                ));
            }
            other => differ("an array", other, at, found),
        },
        other => {
            if actual != Some(other) {
                differ(&other.to_string(), actual, at, found);
            }
        }
    }
}

fn is_operators(map: &Map<String, Value>) -> bool {
    !map.is_empty() && map.keys().all(|key| key.starts_with('<') && key.ends_with('>'))
}

fn absent(actual: Option<&Value>, at: &str, found: &mut Vec<String>) {
    if let Some(value) = actual {
        found.push(format!("{}: should not be there, is {}", place(at), brief(value)));
    }
}

fn string(text: &str, actual: Option<&Value>, at: &str, found: &mut Vec<String>) {
    let scalar = actual.and_then(scalar_text);
    let fits = match text {
        "<absent>" => return absent(actual, at, found),
        "<any>" => actual.is_some(),
        "<string>" => actual.is_some_and(Value::is_string),
        "<number>" => actual.is_some_and(Value::is_number),
        "<time>" => scalar.is_some_and(|text| matches(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", &text)),
        "<uuid>" => scalar.is_some_and(|text| matches("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", &text)),
        "<version>" => scalar.is_some_and(|text| matches("^[1-9][0-9]*$", &text)),
        _ => match text.strip_prefix('~') {
            None => actual.and_then(Value::as_str) == Some(text),
            Some(expression) => match Regex::new(expression) {
                Err(error) => return found.push(format!("{}: the catalogue's own expression: {error}", place(at))),
                Ok(regex) => scalar.is_some_and(|text| regex.is_match(&text)),
            },
        },
    };
    if !fits {
        differ(&format!("{text:?}"), actual, at, found);
    }
}

fn matches(expression: &str, text: &str) -> bool {
    Regex::new(expression).is_ok_and(|regex| regex.is_match(text))
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// What is wrong, if anything.
fn operate(operator: &str, argument: &Value, actual: Option<&Value>) -> Option<String> {
    let elements = || actual.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let patterns = || argument.as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = actual.map_or_else(|| "nothing".to_owned(), brief);
    match operator {
        "<contains>" => {
            let missing = patterns().iter().find(|p| !elements().iter().any(|element| fits(p, Some(element))));
            missing.map(|pattern| format!("no element like {pattern} in {shown}"))
        }
        "<unordered>" => {
            let all = actual.is_some_and(Value::is_array) && elements().len() == patterns().len();
            (!all || !pairs(patterns(), elements())).then(|| format!("not exactly, in any order, {argument}: {shown}"))
        }
        "<each>" => {
            let all: Vec<&Value> = match actual {
                Some(Value::Object(map)) => map.values().collect(),
                _ => elements().iter().collect(),
            };
            let odd = all.into_iter().find(|element| !fits(argument, Some(element)));
            odd.map(|element| format!("an element unlike {argument}: {}", brief(element)))
        }
        "<length>" => {
            let length = match actual {
                Some(Value::Array(all)) => Some(all.len()),
                Some(Value::Object(all)) => Some(all.len()),
                Some(Value::String(text)) => Some(text.chars().count()),
                _ => None,
            };
            let expected = length.map(Value::from);
            (!fits(argument, expected.as_ref())).then(|| format!("its length is not {argument}: {shown}"))
        }
        "<exactly>" => (actual != Some(argument)).then(|| format!("not exactly {argument}: {shown}")),
        "<not>" => fits(argument, actual).then(|| format!("should not be like {argument}: {shown}")),
        "<above>" => {
            let above = number(actual).zip(number(Some(argument))).is_some_and(|(actual, other)| actual > other);
            (!above).then(|| format!("not above {argument}: {shown}"))
        }
        "<all>" => {
            let problems: Vec<String> = patterns().iter().flat_map(|pattern| differences(pattern, actual)).collect();
            (!problems.is_empty()).then(|| problems.join("; "))
        }
        "<one of>" => (!patterns().iter().any(|pattern| fits(pattern, actual)))
            .then(|| format!("like none of {argument}: {shown}")),
        "<keys>" => {
            let mut keys: Vec<&str> =
                actual.and_then(Value::as_object).into_iter().flat_map(|m| m.keys()).map(String::as_str).collect();
            let mut expected: Vec<&str> = patterns().iter().filter_map(Value::as_str).collect();
            keys.sort_unstable();
            expected.sort_unstable();
            (keys != expected).then(|| format!("its keys are {keys:?}, not {expected:?}"))
        }
        other => Some(format!("the catalogue names an operator that does not exist: {other}")),
    }
}

/// Whether every pattern has an element of its own. Few elements: trying all ways is fine.
fn pairs(patterns: &[Value], elements: &[Value]) -> bool {
    let Some((first, rest)) = patterns.split_first() else { return true };
    elements.iter().enumerate().filter(|(_, element)| fits(first, Some(element))).any(|(index, _)| {
        let mut others = elements.to_vec();
        others.remove(index);
        pairs(rest, &others)
    })
}

fn number(value: Option<&Value>) -> Option<f64> {
    value.and_then(scalar_text).and_then(|text| text.parse().ok())
}

fn differ(expected: &str, actual: Option<&Value>, at: &str, found: &mut Vec<String>) {
    let actual = actual.map_or_else(|| "nothing".to_owned(), brief);
    found.push(format!("{}: expected {expected}, got {actual}", place(at)));
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the whole" } else { at }
}

fn join(at: &str, key: &str) -> String {
    match (at.is_empty(), key.contains(['.', '/'])) {
        (_, true) => format!("{at}[{key:?}]"),
        (true, false) => key.to_owned(),
        (false, false) => format!("{at}.{key}"),
    }
}

/// A value for a person: not more than a few lines of it.
pub fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{OPERATORS, differences, fits};
    use serde_json::{Value, json};

    fn check(pattern: Value, actual: Value, expect: &[&str]) {
        assert_eq!(differences(&pattern, Some(&actual)), expect, "{pattern} and {actual}");
    }

    #[test]
    fn a_pattern_says_what_must_be_there_and_no_more() {
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), &[]);
        check(json!({"a": {"b": [1, {"c": "x"}]}}), json!({"a": {"b": [1, {"c": "x", "d": 1}]}}), &[]);
        check(json!({"a": {"b": [1, 3]}}), json!({"a": {"b": [1, 2]}}), &["a.b[1]: expected 3, got 2"]);
        check(json!({"a": [1]}), json!({"a": [1, 2]}), &["a: 2 elements, not 1: [1,2]"]);
        check(json!({"x.y/z": 1}), json!({}), &["[\"x.y/z\"]: expected 1, got nothing"]);
        check(json!({"a": {}}), json!({"a": 7}), &["a: expected an object, got 7"]);
        check(json!({"a": []}), json!({}), &["a: expected an array, got nothing"]);
        check(json!({"a": null, "b": "<absent>"}), json!({"a": null}), &[]);
        check(json!({"a": null}), json!({"a": 1}), &["a: should not be there, is 1"]);
        check(json!("7"), json!(7), &["the whole: expected \"7\", got 7"]);
    }

    #[test]
    fn words_say_what_kind_of_thing() {
        let rows = [
            (json!("~^a.c$"), json!("abc"), true),
            (json!("~^a.c$"), json!("abd"), false),
            (json!("~^5"), json!(51), true),
            (json!("~("), json!("("), false),
            (json!("<any>"), json!(false), true),
            (json!("<any>"), json!(null), false),
            (json!("<string>"), json!(1), false),
            (json!("<number>"), json!(1), true),
            (json!("<time>"), json!("2026-01-02T03:04:05Z"), true),
            (json!("<time>"), json!("2026-01-02"), false),
            (json!("<uuid>"), json!("0b6f1a3e-0000-4000-8000-00000000000a"), true),
            (json!("<uuid>"), json!("0b6f1a3e"), false),
            (json!("<version>"), json!("12"), true),
            (json!("<version>"), json!("0"), false),
        ];
        for (pattern, actual, expect) in rows {
            assert_eq!(fits(&pattern, Some(&actual)), expect, "{pattern} {actual}");
        }
    }

    #[test]
    fn each_operator_can_hold_and_can_fail() {
        let rows = [
            (json!({"<contains>": [{"n": 2}]}), json!([{"n": 1}, {"n": 2}]), json!([{"n": 1}])),
            (json!({"<unordered>": [{"n": 1}, {"<above>": 0}]}), json!([3, {"n": 1}]), json!([3, {"n": 1}, 4])),
            (json!({"<each>": {"n": "<any>"}}), json!([{"n": 1}, {"n": 2}]), json!([{"n": 1}, {}])),
            (json!({"<length>": 2}), json!({"a": 1, "b": 2}), json!([1])),
            (json!({"<exactly>": {"a": 1}}), json!({"a": 1}), json!({"a": 1, "b": 1})),
            (json!({"<not>": "a"}), json!("b"), json!("a")),
            (json!({"<above>": "9"}), json!("10"), json!("9")),
            (json!({"<all>": ["~^a", "~b$"]}), json!("ab"), json!("ac")),
            (json!({"<one of>": [1, 2]}), json!(2), json!(3)),
            (json!({"<keys>": ["b", "a"]}), json!({"a": 1, "b": 1}), json!({"a": 1})),
        ];
        assert_eq!(rows.len(), OPERATORS.len());
        for ((pattern, holds, fails), operator) in rows.into_iter().zip(OPERATORS) {
            assert!(pattern.get(operator).is_some(), "{operator} has its row");
            assert!(fits(&pattern, Some(&holds)), "{pattern} {holds}");
            assert!(!fits(&pattern, Some(&fails)), "{pattern} {fails}");
        }
        assert!(!fits(&json!({"<odd>": 1}), Some(&json!(1))));
        assert!(
            fits(&json!({"<unordered>": ["~.", "a"]}), Some(&json!(["a", "b"]))),
            "the first try may be the wrong one"
        );
    }
}
