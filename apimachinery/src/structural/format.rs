//! The `format`s of strings that Kubernetes checks. It decides whether a text has a format; formats that are not here say
//! nothing.

use crate::{names, re2};
use base64::Engine;
use regex::Regex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// A known format; `None` for words that are only documentation.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub name: &'static str,
    holds: fn(&str) -> bool,
}

const FORMATS: [Format; 27] = [
    Format { name: "bsonobjectid", holds: |t| t.len() == 24 && hex(t) },
    Format { name: "byte", holds: is_base64 },
    Format { name: "cidr", holds: |t| cidr(t).is_some() },
    Format { name: "creditcard", holds: is_credit_card },
    Format { name: "date", holds: is_date },
    Format { name: "date-time", holds: is_date_time },
    Format { name: "datetime", holds: is_date_time },
    Format { name: "duration", holds: |t| crate::cel::Span::parse(t).is_some() || is_long_duration(t) },
    Format { name: "email", holds: is_email },
    Format { name: "hexcolor", holds: |t| matches("hexcolor", r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", t) },
    Format { name: "hostname", holds: is_hostname },
    Format { name: "ipv4", holds: |t| t.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", holds: |t| t.parse::<Ipv6Addr>().is_ok() },
    Format { name: "isbn", holds: |t| is_isbn10(t) || is_isbn13(t) },
    Format { name: "isbn10", holds: is_isbn10 },
    Format { name: "isbn13", holds: is_isbn13 },
    Format { name: "k8s-long-name", holds: |t| names::dns1123_subdomain(t).is_ok() },
    Format { name: "k8s-short-name", holds: |t| names::dns1123_label(t).is_ok() },
    Format { name: "mac", holds: is_mac },
    Format { name: "password", holds: |_| true },
    Format { name: "rgbcolor", holds: is_rgb },
    Format { name: "ssn", holds: |t| matches("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", t) },
    Format { name: "uri", holds: is_uri },
    Format { name: "uuid", holds: |t| is_uuid(t, None) },
    Format { name: "uuid3", holds: |t| is_uuid(t, Some('3')) },
    Format { name: "uuid4", holds: |t| is_uuid(t, Some('4')) },
    Format { name: "uuid5", holds: |t| is_uuid(t, Some('5')) },
];

/// What expressions find under `format.named()`.
const LIBRARY: [Format; 13] = [
    Format { name: "byte", holds: is_base64 },
    Format { name: "date", holds: is_date },
    Format { name: "datetime", holds: is_date_time },
    Format { name: "dns1035Label", holds: |t| names::dns1035_label(t).is_ok() },
    Format { name: "dns1035LabelPrefix", holds: |t| names::dns1035_label(&masked(t)).is_ok() },
    Format { name: "dns1123Label", holds: |t| names::dns1123_label(t).is_ok() },
    Format { name: "dns1123LabelPrefix", holds: |t| names::dns1123_label(&masked(t)).is_ok() },
    Format { name: "dns1123Subdomain", holds: |t| names::dns1123_subdomain(t).is_ok() },
    Format { name: "dns1123SubdomainPrefix", holds: |t| names::dns1123_subdomain(&masked(t)).is_ok() },
    Format { name: "labelValue", holds: |t| names::label_value(t).is_ok() },
    Format { name: "qualifiedName", holds: |t| names::qualified_name(t).is_ok() },
    Format { name: "uri", holds: is_uri },
    Format { name: "uuid", holds: |t| is_uuid(t, None) },
];

/// A prefix of a name may end with a dash, as something follows.
fn masked(prefix: &str) -> String {
    prefix.strip_suffix('-').filter(|p| !p.is_empty()).map_or_else(|| prefix.to_owned(), |p| format!("{p}a"))
}

impl Format {
    pub fn library(name: &str) -> Option<Format> {
        LIBRARY.iter().find(|format| format.name == name).copied()
    }

    /// Why a text has not the format.
    pub fn problem(&self, text: &str) -> Option<String> {
        if self.holds(text) {
            return None;
        }
        let why = match self.name {
            "dns1123Label" => names::dns1123_label(text),
            "dns1035Label" => names::dns1035_label(text),
            "dns1123Subdomain" => names::dns1123_subdomain(text),
            "dns1123LabelPrefix" => names::dns1123_label(&masked(text)),
            "dns1035LabelPrefix" => names::dns1035_label(&masked(text)),
            "dns1123SubdomainPrefix" => names::dns1123_subdomain(&masked(text)),
            "qualifiedName" => names::qualified_name(text),
            "labelValue" => names::label_value(text),
            _ => Ok(()),
        };
        Some(why.err().unwrap_or_else(|| format!("invalid {}", self.name)))
    }

    pub fn named(name: &str) -> Option<Format> {
        FORMATS.iter().find(|format| format.name == name).copied()
    }

    pub fn holds(&self, text: &str) -> bool {
        (self.holds)(text)
    }
}

/// Expressions for formats, compiled once each.
fn matches(name: &'static str, pattern: &'static str, text: &str) -> bool {
    static COMPILED: [OnceLock<Option<Regex>>; FORMATS.len()] = [const { OnceLock::new() }; FORMATS.len()];
    let place = FORMATS.iter().position(|format| format.name == name).unwrap_or_default();
    let regex = COMPILED[place].get_or_init(|| re2::compile(pattern).ok().map(|(regex, _)| regex));
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Address and prefix length.
pub(crate) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bare = !prefix.is_empty() && prefix.len() <= 3 && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix: u8 = prefix.parse().ok().filter(|_| bare)?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

pub(crate) fn is_date(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00Z").parse::<crate::time::Timestamp>().is_ok()
}

pub(crate) fn is_date_time(text: &str) -> bool {
    text.parse::<crate::time::Timestamp>().is_ok()
}

/// Besides Go's durations, a count with a word: `3 days`, `1w`.
fn is_long_duration(text: &str) -> bool {
    let pattern = r"^\s*(\d+\s*(ns|nanos?|us|µs|micros?|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|hrs?|d|days?|w|wks?|weeks?)\s*)+$";
    matches("duration", pattern, text)
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').and_then(|(_, rest)| rest.trim_end().strip_suffix('>')).unwrap_or(text);
    matches("email", r#"^[^\s@<>()\[\],;:\\"]+@([^\s@<>()\[\],;:\\"]+|\[[^\s\]]+\])$"#, address.trim())
        && !address.contains("..")
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let mark = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && (c.is_alphabetic() || !c.is_whitespace()));
        let ends = label.starts_with('-') || label.ends_with('-');
        !label.is_empty() && label.len() <= 63 && !ends && label.chars().all(|c| mark(c) || c == '-')
    };
    text.len() <= 255
        && text.split('.').all(label)
        && text.rsplit('.').next().is_some_and(|l| !text.contains('.') || l.len() > 1)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let pattern = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$";
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let variant = || digits.chars().nth(16).is_some_and(|c| "89abAB".contains(c));
    matches("uuid", pattern, text)
        && version.is_none_or(|v| digits.chars().nth(12) == Some(v) && (v == '3' || variant()))
}

fn is_mac(text: &str) -> bool {
    let group = |separator: char, digits: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == digits && hex(part))
    };
    group(':', 2, &[6, 8, 20]) || group('-', 2, &[6, 8, 20]) || group('.', 4, &[3, 4, 10])
}

fn is_rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        let part = |p: &&str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u8>().is_ok();
        parts.len() == 3 && parts.iter().all(part)
    })
}

/// A request's URI: absolute, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    text.starts_with('/') || crate::cel::Url::parse(text).is_some_and(|url| !url.scheme().is_empty())
}

fn digits(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits(text);
    let value = |(place, c): (usize, char)| match c {
        'X' if place == 9 => Some(10 * 10),
        _ => c.to_digit(10).map(|d| d * (place as u32 + 1)),
    };
    let sum: Option<u32> = text.chars().enumerate().map(value).sum();
    text.chars().count() == 10 && sum.is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let text = digits(text);
    let value = |(place, c): (usize, char)| c.to_digit(10).map(|d| if place % 2 == 0 { d } else { 3 * d });
    let sum: Option<u32> = text.chars().enumerate().map(value).sum();
    text.chars().count() == 13 && sum.is_some_and(|sum| sum % 10 == 0)
}

/// Length and Luhn's checksum.
fn is_credit_card(text: &str) -> bool {
    let text = digits(text);
    let value = |(place, c): (usize, char)| {
        let digit = c.to_digit(10)?;
        Some(if place % 2 == 0 { digit } else { 2 * digit / 10 + 2 * digit % 10 })
    };
    let sum: Option<u32> = text.chars().rev().enumerate().map(value).sum();
    (13..=19).contains(&text.chars().count()) && sum.is_some_and(|sum| sum % 10 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_and_refuses() {
        let check = |format: &str, good: &[&str], bad: &[&str]| {
            let holds = Format::named(format).unwrap();
            good.iter().for_each(|text| assert!(holds.holds(text), "{format}: {text}"));
            bad.iter().for_each(|text| assert!(!holds.holds(text), "{format}: {text}"));
        };
        check("byte", &["aGVsbG8="], &["a", "%%%", ""]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8", "x/8"]);
        check("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", "1"]);
        check("date", &["2024-02-29"], &["2023-02-29", "2024-2-1"]);
        check("date-time", &["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.5+01:00"], &["2024-01-02", "now"]);
        check("duration", &["1h30m", "3 days", "1.5s"], &["soon", "5"]);
        check("email", &["a@b.c", "Ann <a@b.c>"], &["a", "a@", "@b", "a b@c"]);
        check("hexcolor", &["#fff", "00ff00"], &["#ff", "red"]);
        check("hostname", &["a", "a.example.com", "1.example"], &["", "-a", "a..b", "a_b"]);
        check("ipv4", &["10.0.0.1"], &["10.0.0.256", "::1"]);
        check("ipv6", &["::1"], &["10.0.0.1", ":"]);
        check("isbn", &["0-306-40615-2", "978-3-16-148410-0"], &["0-306-40615-3", "x"]);
        check("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00:5e", "zz:00:5e:00:53:01"]);
        check("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2)", "rgb(1,2,256)"]);
        check("ssn", &["123-45-6789"], &["123"]);
        check("uri", &["https://example.com/a?b=c", "/a"], &["a b", "example", ""]);
        check("uuid", &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], &["6ba7b810"]);
        check("uuid4", &["f47ac10b-58cc-4372-a567-0e02b2c3d479"], &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]);
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
    }
}
