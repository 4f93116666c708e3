//! Spans of time as Go and CEL write them: `1h30m`, `-1.5s`. It decides how they are read and shown.

use std::fmt;

const SECOND: i64 = 1_000_000_000;
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// A span of time in nanoseconds; at most 292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Span {
    pub fn parse(text: &str) -> Option<Span> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Span(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut nanos: i128 = 0;
        while !rest.is_empty() {
            let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
            let (digits, after) = rest.split_at(number);
            let unit = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
            let (word, after) = after.split_at(unit);
            let (_, size) = UNITS.iter().find(|(name, _)| *name == word)?;
            nanos = nanos.checked_add(scaled(digits, *size)?)?;
            rest = after;
        }
        i64::try_from(if negative { -nanos } else { nanos }).ok().map(Span)
    }
}

/// `1.5` of a unit, cut off below a nanosecond.
fn scaled(digits: &str, unit: i64) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    let digits: &str = &fraction[..fraction.len().min(15)];
    let part: i128 = if digits.is_empty() { 0 } else { digits.parse::<i64>().ok()?.into() };
    let scale = 10_i128.pow(digits.len() as u32);
    whole.checked_mul(unit.into())?.checked_add(part * i128::from(unit) / scale)
}

/// In seconds, as CEL's `string()` does.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let (whole, fraction) = (nanos / SECOND as u64, nanos % SECOND as u64);
        if fraction == 0 {
            return write!(f, "{sign}{whole}s");
        }
        let fraction = format!("{fraction:09}");
        write!(f, "{sign}{whole}.{}s", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_shown_as_go_does() {
        let check = |text: &str, nanos: i64, shown: &str| {
            let span = Span::parse(text);
            assert_eq!(span, Some(Span(nanos)), "{text}");
            assert_eq!(Span(nanos).to_string(), shown);
        };
        check("0", 0, "0s");
        check("1h30m", 5400 * SECOND, "5400s");
        check("-1.5s", -1_500_000_000, "-1.5s");
        check("1.000000001s", 1_000_000_001, "1.000000001s");
        check("250ms10us", 250_010_000, "0.25001s");
        check(".5m", 30 * SECOND, "30s");
        for text in ["", "-", "1", "s", "1x", "1..5s", "1d", "9999999999h", "1s "] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
