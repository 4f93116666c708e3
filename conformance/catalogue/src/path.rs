//! Where something is in a JSON value: `spec.containers[0].image`, `metadata.labels["a.b/c"]`, `status.conditions[type=Ready]`.
//! It reads paths and follows them; it never changes a value.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
    /// The first element whose field has this text.
    Where(&'a str, &'a str),
}

/// What is there, or nothing. A path that cannot be read is an error that names it.
pub fn find<'v>(value: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut at = value;
    for segment in segments(path)? {
        let next = match segment {
            Segment::Key(key) => at.get(key),
            Segment::Index(index) => at.get(index),
            Segment::Where(field, text) => {
                at.as_array().into_iter().flatten().find(|element| element.get(field).is_some_and(|v| is(v, text)))
            }
        };
        match next {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn is(value: &Value, text: &str) -> bool {
    value.to_string().trim_matches('"') == text
}

fn segments(path: &str) -> Result<Vec<Segment<'_>>, String> {
    let mut all = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quoted = inside.strip_prefix('"').and_then(|text| text.split_once("\"]"));
            let (segment, after) = match quoted {
                Some((key, after)) => (Segment::Key(key), after),
                None => {
                    let (text, after) = inside.split_once(']').ok_or_else(|| format!("{path}: a [ without its ]"))?;
                    (
                        bracket(text).ok_or_else(|| format!("{path}: [{text}] is neither an index nor field=text"))?,
                        after,
                    )
                }
            };
            all.push(segment);
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("{path}: an empty name"));
            }
            all.push(Segment::Key(&rest[..end]));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    Ok(all)
}

fn bracket(text: &str) -> Option<Segment<'_>> {
    match text.split_once('=') {
        Some((field, value)) => Some(Segment::Where(field, value)),
        None => text.parse().ok().map(Segment::Index),
    }
}

#[cfg(test)]
mod tests {
    use super::find;
    use serde_json::json;

    #[test]
    fn paths_lead_to_what_they_name() {
        let value = json!({"a": {"b.c/d": [{"type": "X", "n": 1}, {"type": "Y", "n": 2, "port": 80}]}, "l": [1, 2]});
        let check = |path: &str, expect: Option<serde_json::Value>| {
            assert_eq!(find(&value, path), Ok(expect.as_ref()), "{path}");
        };
        check("", Some(value.clone()));
        check("l[1]", Some(json!(2)));
        check("l[2]", None);
        check("a[\"b.c/d\"][0].n", Some(json!(1)));
        check("a[\"b.c/d\"][type=Y].n", Some(json!(2)));
        check("a[\"b.c/d\"][port=80].type", Some(json!("Y")));
        check("a[\"b.c/d\"][type=Z].n", None);
        check("a.none.deeper", None);
        for bad in ["a..b", "a[x]", "a[0"] {
            assert!(find(&json!({"a": {}}), bad).is_err(), "{bad}");
        }
    }
}
