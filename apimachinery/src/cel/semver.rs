//! Semantic versions (semver.org, version 2). It decides how they are read and ordered.

use std::cmp::Ordering;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre: Vec<String>,
    build: String,
}

impl Semver {
    pub fn parse(text: &str) -> Option<Semver> {
        let (rest, build) = text.split_once('+').unwrap_or((text, ""));
        let (core, pre) = rest.split_once('-').unwrap_or((rest, ""));
        let mut parts = core.split('.').map(number);
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
        let words = |text: &str| {
            text.split('.').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        };
        let numeric = |word: &str| !word.bytes().all(|b| b.is_ascii_digit()) || number(word).is_some();
        let has_pre = rest.contains('-');
        if parts.next().is_some() || (has_pre && !(words(pre) && pre.split('.').all(numeric))) {
            return None;
        }
        if text.contains('+') && !words(build) {
            return None;
        }
        let pre = if has_pre { pre.split('.').map(str::to_owned).collect() } else { Vec::new() };
        Some(Semver { major, minor, patch, pre, build: build.to_owned() })
    }

    /// With what people leave out: a leading `v`, missing parts, leading zeros.
    pub fn normalized(text: &str) -> Option<Semver> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let mut parts: Vec<&str> = text[..end].split('.').collect();
        parts.resize(parts.len().max(3), "0");
        let stripped = parts.iter().map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            other => other,
        });
        Semver::parse(&format!("{}{}", stripped.collect::<Vec<_>>().join("."), &text[end..]))
    }

    /// Build metadata does not count.
    pub fn compare(&self, other: &Semver) -> Ordering {
        let core = (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch));
        core.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => pre_release(&self.pre, &other.pre),
        })
    }
}

fn pre_release(a: &[String], b: &[String]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = match (number(x), number(y)) {
            (Some(x), Some(y)) => x.cmp(&y),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => x.cmp(y),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// Digits without a leading zero.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if self.build.is_empty() { Ok(()) } else { write!(f, "+{}", self.build) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_the_standard_says() {
        let order = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0",
            "1.0.1",
            "1.10.0",
        ];
        let versions: Vec<Semver> = order.iter().map(|text| Semver::parse(text).unwrap()).collect();
        for pair in versions.windows(2) {
            assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{} {}", pair[0], pair[1]);
            assert_eq!(pair[1].compare(&pair[0]), Ordering::Greater, "{} {}", pair[1], pair[0]);
        }
        for (version, text) in versions.iter().zip(order) {
            assert_eq!(version.to_string(), text);
        }
        for text in ["1.0", "01.0.0", "1.0.0-", "1.0.0-01", "v1.0.0", "1.0.0+", "1.0.0.0"] {
            assert_eq!(Semver::parse(text), None, "{text}");
        }
        let normal = |text: &str| Semver::normalized(text).map(|version| version.to_string());
        assert_eq!(normal("v01.2"), Some("1.2.0".to_owned()));
        assert_eq!(normal("1-alpha"), Some("1.0.0-alpha".to_owned()));
        assert_eq!(normal("x"), None);
    }
}
