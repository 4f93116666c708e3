//! Functions on texts: CEL's own, the string extensions and Kubernetes' `find`. It decides offsets in characters.

use super::super::error::Error;
use super::super::value::{Pay, Text, Val};
use super::{Meter, Row, both, global, index, member, text_cost};
use crate::re2;
use regex::Regex;
use std::sync::Arc;

const TEST: &[&str] = &["string, string -> bool"];

pub(super) const ROWS: &[Row] = &[
    member("contains", TEST, |meter, args| texts(meter, args, |a, b| Val::Bool(a.contains(b)))),
    member("startsWith", TEST, |meter, args| texts(meter, args, |a, b| Val::Bool(a.starts_with(b)))),
    member("endsWith", TEST, |meter, args| texts(meter, args, |a, b| Val::Bool(a.ends_with(b)))),
    both("matches", TEST, |meter, args| {
        let (regex, text) = matcher(meter, args)?;
        Ok(Val::Bool(regex.is_match(text)))
    }),
    member("find", &["string, string -> string"], |meter, args| {
        let (regex, text) = matcher(meter, args)?;
        Ok(Val::text(regex.find(text).map_or("", |found| found.as_str())))
    }),
    member("findAll", &["string, string -> list(string)", "string, string, int -> list(string)"], find_all),
    member("charAt", &["string, int -> string"], |meter, args| match args {
        [Val::Text(text), Val::Int(at)] => {
            let chars = chars(meter, text)?;
            let at = index(*at, chars.len(), false)?;
            Ok(Val::text(chars.get(at).map(char::to_string).unwrap_or_default()))
        }
        _ => Err(Error::no_overload()),
    }),
    member("indexOf", &["string, string -> int", "string, string, int -> int"], index_of),
    member("lastIndexOf", &["string, string -> int", "string, string, int -> int"], last_index_of),
    member("lowerAscii", &["string -> string"], |meter, args| text(meter, args, |t| t.to_ascii_lowercase())),
    member("upperAscii", &["string -> string"], |meter, args| text(meter, args, |t| t.to_ascii_uppercase())),
    member("trim", &["string -> string"], |meter, args| text(meter, args, |t| t.trim().to_owned())),
    global("strings.quote", &["string -> string"], |meter, args| text(meter, args, |t| format!("{t:?}"))),
    member("replace", &["string, string, string -> string", "string, string, string, int -> string"], replace),
    member("split", &["string, string -> list(string)", "string, string, int -> list(string)"], split),
    member("substring", &["string, int -> string", "string, int, int -> string"], substring),
    member("join", &["list(string) -> string", "list(string), string -> string"], join),
    member("format", &["string, list(dyn) -> string"], format),
];

fn texts<'a>(meter: &mut Meter, args: &[Val<'a>], act: fn(&str, &str) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(a), Val::Text(b)] => {
            meter.pay(text_cost(a.as_str().len()))?;
            Ok(act(a.as_str(), b.as_str()))
        }
        _ => Err(Error::no_overload()),
    }
}

fn text<'a>(meter: &mut Meter, args: &[Val<'a>], act: fn(&str) -> String) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            Ok(Val::text(act(text.as_str())))
        }
        _ => Err(Error::no_overload()),
    }
}

fn chars(meter: &mut Meter, text: &Text<'_>) -> Result<Vec<char>, Error> {
    meter.pay(text_cost(text.as_str().len()))?;
    Ok(text.as_str().chars().collect())
}

/// The expression of a call, which was compiled before if it is a literal, and the text to search.
fn matcher<'v>(meter: &mut Meter, args: &'v [Val<'_>]) -> Result<(Arc<Regex>, &'v str), Error> {
    let [Val::Text(text), Val::Text(pattern), ..] = args else { return Err(Error::no_overload()) };
    let (text, pattern) = (text.as_str(), pattern.as_str());
    meter.pay(text_cost(text.len()).saturating_mul(1 + pattern.len() as u64 / 4))?;
    if let Some(regex) = meter.prepared.take() {
        return Ok((regex, text));
    }
    // Compiling takes much longer than matching.
    meter.pay(1000 + 10 * pattern.len() as u64)?;
    let (regex, _) = re2::compile(pattern).map_err(Error::failed)?;
    Ok((Arc::new(regex), text))
}

fn find_all<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let limit = match args {
        [_, _, Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        [_, _] => usize::MAX,
        _ => return Err(Error::no_overload()),
    };
    let (regex, text) = matcher(meter, args)?;
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(limit) {
        meter.pay(1)?;
        found.push(Val::text(part.as_str()));
    }
    Ok(Val::list(found))
}

/// Where `needle` begins in `hay` at or after `from`.
fn position(meter: &mut Meter, hay: &[char], needle: &[char], from: usize) -> Result<i64, Error> {
    meter.pay(1 + (hay.len() as u64).saturating_mul(needle.len().max(1) as u64) / 10)?;
    if needle.is_empty() {
        return Ok(from as i64);
    }
    let found = hay.get(from..).and_then(|rest| rest.windows(needle.len()).position(|window| window == needle));
    Ok(found.map_or(-1, |at| (at + from) as i64))
}

fn index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(hay), Val::Text(needle), rest @ ..] = args else { return Err(Error::no_overload()) };
    let (hay, needle) = (chars(meter, hay)?, chars(meter, needle)?);
    let from = match rest {
        [] => 0,
        [Val::Int(from)] => index(*from, hay.len(), false)?,
        _ => return Err(Error::no_overload()),
    };
    position(meter, &hay, &needle, from).map(Val::Int)
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(hay), Val::Text(needle), rest @ ..] = args else { return Err(Error::no_overload()) };
    let (hay, needle) = (chars(meter, hay)?, chars(meter, needle)?);
    let last = match rest {
        [] => hay.len(),
        [Val::Int(last)] => index(*last, hay.len(), false)?,
        _ => return Err(Error::no_overload()),
    };
    meter.pay((hay.len() as u64).saturating_mul(needle.len().max(1) as u64) / 10)?;
    let starts = (0..=last.min(hay.len().saturating_sub(needle.len()))).rev();
    let found = starts.into_iter().find(|at| hay[*at..].starts_with(&needle));
    Ok(Val::Int(found.map_or(-1, |at| at as i64)))
}

fn replace<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(text), Val::Text(from), Val::Text(to), rest @ ..] = args else { return Err(Error::no_overload()) };
    let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
    let limit = match rest {
        [] => usize::MAX,
        [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => return Err(Error::no_overload()),
    };
    meter.pay(text_cost(text.len()))?;
    let times = text.matches(from).count().min(limit);
    meter.pay(text_cost(times.saturating_mul(to.len())))?;
    Ok(Val::text(text.replacen(from, to, limit)))
}

fn split<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(text), Val::Text(separator), rest @ ..] = args else { return Err(Error::no_overload()) };
    let limit = match rest {
        [] => -1,
        [Val::Int(limit)] => *limit,
        _ => return Err(Error::no_overload()),
    };
    let (text, separator) = (text.as_str(), separator.as_str());
    meter.pay(text_cost(text.len()))?;
    let mut parts = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest.filter(|_| limit != 0) {
        meter.pay(1)?;
        let last = parts.len() as i64 + 1 == limit;
        let cut = match text.chars().next() {
            _ if last => None,
            // An empty separator parts characters.
            Some(first) if separator.is_empty() => {
                Some(text.split_at(first.len_utf8())).filter(|(_, rest)| !rest.is_empty())
            }
            None if separator.is_empty() => break,
            _ => text.split_once(separator),
        };
        parts.push(Val::text(cut.map_or(text, |(part, _)| part)));
        rest = cut.map(|(_, rest)| rest);
    }
    Ok(Val::list(parts))
}

fn substring<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(text), Val::Int(from), rest @ ..] = args else { return Err(Error::no_overload()) };
    let chars = chars(meter, text)?;
    let from = index(*from, chars.len(), false)?;
    let to = match rest {
        [] => chars.len(),
        [Val::Int(to)] => index(*to, chars.len(), false)?,
        _ => return Err(Error::no_overload()),
    };
    if from > to {
        return Err(Error::failed(format!("invalid substring range. start: {from}, end: {to}")));
    }
    Ok(Val::text(chars[from..to].iter().collect::<String>()))
}

fn join<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let separator = match args {
        [_] => "",
        [_, Val::Text(separator)] => separator.as_str(),
        _ => return Err(Error::no_overload()),
    };
    let list = &args[0];
    let count = list.list_len().ok_or_else(Error::no_overload)?;
    let mut joined = String::new();
    for index in 0..count {
        let Some(Val::Text(part)) = list.item(index) else { return Err(Error::no_overload()) };
        meter.pay(text_cost(part.as_str().len() + separator.len()))?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(part.as_str());
    }
    Ok(Val::text(joined))
}

/// `%s %d %f %e %x %X %o %b %%`, with a precision for `%f` and `%e`.
fn format<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(pattern), list] = args else { return Err(Error::no_overload()) };
    let mut values = list.items();
    let mut out = String::new();
    let mut rest = pattern.as_str();
    meter.pay(text_cost(rest.len()))?;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let digits =
            after.strip_prefix('.').map(|a| &a[..a.len() - a.trim_start_matches(|c: char| c.is_ascii_digit()).len()]);
        let precision = digits.and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(6);
        let after = &after[digits.map_or(0, |digits| digits.len() + 1)..];
        let Some(clause) = after.chars().next() else { return Err(Error::failed("unexpected end of string")) };
        rest = &after[clause.len_utf8()..];
        if clause == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else { return Err(Error::failed("index out of range in format arguments")) };
        let text = formatted(clause, precision.min(100), &value, meter)?;
        meter.pay(text_cost(text.len()))?;
        out.push_str(&text);
    }
    out.push_str(rest);
    Ok(Val::text(out))
}

fn formatted(clause: char, precision: usize, value: &Val<'_>, meter: &mut Meter) -> Result<String, Error> {
    let wrong = || Error::failed(format!("error during formatting: could not convert argument to %{clause}"));
    let whole = match value {
        Val::Int(value) => Some(i128::from(*value)),
        Val::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    let signed = |digits: fn(u128) -> String, value: i128| {
        let sign = if value < 0 { "-" } else { "" };
        format!("{sign}{}", digits(value.unsigned_abs()))
    };
    match (clause, value) {
        ('s', value) => nested(value, meter, 0),
        ('d', Val::Double(value)) => Ok(format!("{value}")),
        ('d', _) => whole.map(|value| value.to_string()).ok_or_else(wrong),
        ('f', Val::Double(value)) => Ok(format!("{value:.precision$}")),
        ('f', _) => whole.map(|value| format!("{:.precision$}", value as f64)).ok_or_else(wrong),
        ('e', Val::Double(value)) => Ok(scientific(*value, precision)),
        ('e', _) => whole.map(|value| scientific(value as f64, precision)).ok_or_else(wrong),
        ('b', Val::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', _) => whole.map(|value| signed(|n| format!("{n:b}"), value)).ok_or_else(wrong),
        ('o', _) => whole.map(|value| signed(|n| format!("{n:o}"), value)).ok_or_else(wrong),
        ('x' | 'X', value) => {
            let bytes = match value {
                Val::Text(text) => Some(text.as_str().as_bytes().to_vec()),
                Val::Bytes(bytes) => Some(bytes.to_vec()),
                _ => None,
            };
            let text = match bytes {
                Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                None => whole.map(|value| signed(|n| format!("{n:x}"), value)).ok_or_else(wrong)?,
            };
            Ok(if clause == 'X' { text.to_uppercase() } else { text })
        }
        _ => Err(Error::failed(format!("unrecognized formatting clause \"{clause}\""))),
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// A value inside a text; lists and maps show their content.
fn nested(value: &Val<'_>, meter: &mut Meter, depth: usize) -> Result<String, Error> {
    meter.pay(1 + value.weight())?;
    if depth > crate::depth::MAX_DEPTH {
        return Err(Error::failed("value nests too deeply"));
    }
    if value.list_len().is_some() {
        let parts: Result<Vec<String>, Error> = value.items().map(|item| nested(&item, meter, depth + 1)).collect();
        return Ok(format!("[{}]", parts?.join(", ")));
    }
    if value.is_map() {
        let mut parts = Vec::new();
        for key in value.keys() {
            let entry = value.entry(&key).unwrap_or(Val::Null);
            parts.push(format!("{}: {}", nested(&key.into(), meter, depth + 1)?, nested(&entry, meter, depth + 1)?));
        }
        return Ok(format!("{{{}}}", parts.join(", ")));
    }
    match value {
        Val::Null => Ok("null".to_owned()),
        Val::Type(name) => Ok((*name).to_owned()),
        Val::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        other => shown(other).ok_or_else(Error::no_overload),
    }
}

/// A scalar as `string()` shows it.
pub fn shown(value: &Val<'_>) -> Option<String> {
    Some(match value {
        Val::Text(text) => text.as_str().to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) if value.is_infinite() => if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Val::Double(value) => crate::structural::go_float(*value),
        Val::Time(time) => super::time_text(*time),
        Val::Span(span) => span.to_string(),
        Val::Quantity(quantity) => quantity.to_string(),
        Val::Url(url) => url.as_str().to_owned(),
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(ip, prefix) => format!("{ip}/{prefix}"),
        Val::Semver(version) => version.to_string(),
        _ => return None,
    })
}
