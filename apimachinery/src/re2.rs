//! Regular expressions as Kubernetes' users write them (RE2 syntax, as Go reads it), on an engine that takes linear time.
//!
//! It decides how RE2's spelling becomes that of the `regex` crate and how large a compiled expression may be. It never
//! decides where expressions are allowed.

use regex::{Regex, RegexBuilder};

/// The size that nearly all expressions stay below, compiled.
pub const SMALL: usize = 1 << 16;
/// The size above which an expression is refused.
pub const LARGE: usize = 1 << 20;
/// RE2 refuses to repeat anything more often.
const MAX_REPEAT: u32 = 1000;

/// Compiles `pattern`; the second value is an upper bound of the memory that it takes.
pub fn compile(pattern: &str) -> Result<(Regex, usize), String> {
    let translated = translate(pattern)?;
    let build = |size: usize| RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(size).build();
    match build(SMALL) {
        Ok(regex) => Ok((regex, SMALL)),
        Err(regex::Error::CompiledTooBig(_)) => build(LARGE).map(|regex| (regex, LARGE)).map_err(|e| reason(&e)),
        Err(error) => Err(reason(&error)),
    }
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
        // The crate draws the expression and points at the place; only the last line says what is wrong.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("error parsing regexp: {}", last.strip_prefix("error: ").unwrap_or(last))
        }
    }
}

/// In RE2 the Perl classes mean ASCII, a brace that starts no repetition is itself, and classes know no operators.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = 0;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match c {
            '\\' => rest = escape(after, class > 0, &mut out)?,
            '[' if class == 0 => {
                class = 1;
                out.push('[');
                rest = class_start(after, &mut out);
            }
            '[' if after.starts_with(':') && after.contains(":]") => {
                let end = after.find(":]").map_or(0, |at| at + 2);
                out.push('[');
                out.push_str(&after[..end]);
                rest = &after[end..];
            }
            '[' | '&' | '~' if class > 0 => out.extend(['\\', c]),
            ']' if class > 0 => {
                class = 0;
                out.push(']');
            }
            '{' if class == 0 => match repetition(after)? {
                true => out.push('{'),
                false => out.push_str("\\{"),
            },
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Copies `^` and a first `]`, which is itself there.
fn class_start<'p>(mut rest: &'p str, out: &mut String) -> &'p str {
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    rest
}

/// What follows a backslash; answers what is left.
fn escape<'p>(rest: &'p str, in_class: bool, out: &mut String) -> Result<&'p str, String> {
    let Some(c) = rest.chars().next() else {
        return Err("error parsing regexp: trailing backslash at end of expression".to_owned());
    };
    let after = &rest[c.len_utf8()..];
    let (inside, negated) = match c {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        's' => ("\\t\\n\\f\\r ", false),
        'S' => ("\\t\\n\\f\\r ", true),
        _ => ("", false),
    };
    match c {
        _ if !inside.is_empty() && in_class && !negated => out.push_str(inside),
        _ if !inside.is_empty() => {
            out.push_str(if negated { "[^" } else { "[" });
            out.push_str(inside);
            out.push(']');
        }
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'Q' if !in_class => {
            let end = after.find("\\E");
            out.push_str(&regex::escape(&after[..end.unwrap_or(after.len())]));
            return Ok(end.map_or("", |at| &after[at + 2..]));
        }
        // Word boundaries in one dialect, themselves in the other.
        '<' | '>' => out.push(c),
        _ => out.extend(['\\', c]),
    }
    Ok(after)
}

/// Whether what follows a brace makes it a repetition.
fn repetition(after: &str) -> Result<bool, String> {
    let Some((counts, _)) = after.split_once('}') else { return Ok(false) };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !number(least) || !(most.is_empty() || number(most)) {
        return Ok(false);
    }
    let too_many = |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |n| n > MAX_REPEAT);
    if too_many(least) || too_many(most) {
        return Err(format!("error parsing regexp: invalid repeat count: `{{{counts}}}`"));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_re2() {
        let check = |pattern: &str, text: &str, expect: bool| {
            let (regex, _) = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(regex.is_match(text), expect, "{pattern} on {text}");
        };
        check(r"^\d+$", "12", true);
        check(r"^\d+$", "१२", false);
        check(r"^[\d\s]+$", "1 2", true);
        check(r"^\D$", "é", true);
        check(r"^[\W]$", "é", true);
        check(r"^[^\w]$", "a", false);
        check(r"\bfoo\b", "a foo b", true);
        check(r"^a{,5}$", "a{,5}", true);
        check(r"^${.+}$", "${x}", false);
        check(r"^\${.+}$", "${x}", true);
        check(r"^[[]$", "[", true);
        check(r"^[]a]$", "]", true);
        check(r"^[a&&b]+$", "a&b", true);
        check(r"^[[:alpha:]]+$", "ab", true);
        check(r"^\Qa.b\E$", "a.b", true);
        check(r"^\Qa.b\E$", "axb", false);
        check(r"^\<a\>$", "<a>", true);
        check(r"^a\/b\-c\_d$", "a/b-c_d", true);
        check(r"^(?P<x>a)(?i)B$", "ab", true);
        check(r"^.$", "é", true);
    }

    #[test]
    fn what_re2_or_memory_refuses_is_refused() {
        let check = |pattern: &str, expect: &str| {
            let error = compile(pattern).expect_err(pattern);
            assert!(error.contains(expect), "{pattern}: {error}");
        };
        check("(", "unclosed group");
        check("a\\", "trailing backslash");
        check("a{1001}", "invalid repeat count");
        check(r"(?:\pL{1000}){100}", "too large");
        check(r"a(?=b)", "look-around");
    }
}
