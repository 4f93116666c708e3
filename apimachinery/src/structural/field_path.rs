//! Paths to fields, as rules name them: `.spec['a.b'].c`. It decides which are valid for a schema, and how they stand in
//! errors.

use super::node::{Additional, Node};

/// The path without its first dot, if it leads to a field of this schema.
pub(super) fn normalized(path: &str, node: &Node) -> Option<String> {
    let mut node = Some(node);
    let mut rest = path;
    let mut out = String::new();
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            let (name, after) = quoted_name(quoted)?;
            (name, after.strip_prefix(']')?)
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
            (plain[..end].to_owned(), &plain[end..])
        };
        let here = node?;
        node = match &here.additional {
            _ if !here.properties.is_empty() => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&name);
                Some(here.properties.get(&name)?)
            }
            Some(additional) => {
                out.push_str(&format!("[{name}]"));
                match additional {
                    Additional::Of(child) => Some(child),
                    Additional::Any | Additional::Never => None,
                }
            }
            None => return None,
        };
        rest = after;
    }
    (!out.is_empty()).then_some(out)
}

/// A name up to its closing quote, and what follows.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((name, &text[at + 1..])),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
