//! Points in wall-clock time as the API writes them: RFC 3339 in UTC, whole seconds or microseconds.
//!
//! It decides how times are read, written and shown as ages; it never reads a clock.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const MICROS: i64 = 1_000_000;

/// A point in time, in microseconds since 1970-01-01T00:00:00Z. Written as `metav1.Time`: whole seconds, truncated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// The same point written as `metav1.MicroTime`: always six digits of fraction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroTime(pub Timestamp);

/// The text is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {0:?}: not an RFC 3339 date and time")]
pub struct ParseTimeError(String);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(MICROS))
    }
    pub const fn micros(self) -> i64 {
        self.0
    }
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
    /// Whole seconds, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(MICROS)
    }
    /// The same time with its fraction of a second cut off, as it would come back from the API.
    pub const fn truncated_to_secs(self) -> Self {
        Self::from_secs(self.secs())
    }
    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
    pub fn add_secs(self, secs: i64) -> Self {
        Self(self.0.saturating_add(secs.saturating_mul(MICROS)))
    }
    /// `2006-01-02T15:04:05.000000Z`.
    pub fn to_micro_string(self) -> String {
        MicroTime(self).to_string()
    }

    /// Reads any RFC 3339 time, with or without a fraction, in any zone. Digits finer than a microsecond are dropped.
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        parse(text).ok_or_else(|| ParseTimeError(text.to_owned()))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, d: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, d: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let b = text.as_bytes();
    let separated =
        b.len() >= 20 && b[4] == b'-' && b[7] == b'-' && matches!(b[10], b'T' | b't') && b[13] == b':' && b[16] == b':';
    if !separated {
        return None;
    }
    let (year, month, day) = (digits(&b[0..4])?, digits(&b[5..7])?, digits(&b[8..10])?);
    let (hour, minute, second) = (digits(&b[11..13])?, digits(&b[14..16])?, digits(&b[17..19])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &b[19..];
    let mut micros = 0;
    if rest[0] == b'.' || rest[0] == b',' {
        let len = rest[1..].iter().take_while(|c| c.is_ascii_digit()).count();
        if len == 0 {
            return None;
        }
        let mut scale = 100_000;
        for c in &rest[1..1 + len.min(6)] {
            micros += i64::from(c - b'0') * scale;
            scale /= 10;
        }
        rest = &rest[1 + len..];
    }
    let offset_s = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (h, m) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if h > 24 || m > 59 {
                return None;
            }
            (h * 3600 + m * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let secs = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    Some(Timestamp(secs * MICROS + micros))
}

fn digits(b: &[u8]) -> Option<i64> {
    b.iter().try_fold(0, |n, c| c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0')))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that leap days come last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn write_to_second(t: Timestamp, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let secs = t.secs();
    let (year, month, day) = civil_from_days(secs.div_euclid(86_400));
    let s = secs.rem_euclid(86_400);
    write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_to_second(*self, f)?;
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&MicroTime(*self), f)
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_to_second(self.0, f)?;
        write!(f, ".{:06}Z", self.0.0.rem_euclid(MICROS))
    }
}

impl fmt::Debug for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimeError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::parse(s)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(d).map(MicroTime)
    }
}

/// An age as kubectl prints it: `12s`, `3m4s`, `47m`, `5h12m`, `3d4h`, `90d`, `2y3d`. Negative beyond a second is `<invalid>`.
pub fn human_duration(secs: i64) -> String {
    let (minutes, hours) = (secs / 60, secs / 3600);
    let pair = |big: i64, b: &str, small: i64, s: &str| match small {
        0 => format!("{big}{b}"),
        _ => format!("{big}{b}{small}{s}"),
    };
    match () {
        () if secs < -1 => "<invalid>".to_owned(),
        () if secs < 0 => "0s".to_owned(),
        () if secs < 120 => format!("{secs}s"),
        () if minutes < 10 => pair(minutes, "m", secs % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

/// The AGE column of an object created at `created`; `<unknown>` when that is not known.
pub fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(|| "<unknown>".to_owned(), |c| human_duration((now.0 - c.0) / MICROS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_rfc3339() {
        let check = |input: &str, seconds: &str, micros: &str| {
            let t = Timestamp::parse(input).unwrap();
            assert_eq!((t.to_string(), t.to_micro_string()), (seconds.into(), micros.into()), "{input}");
        };
        check("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z");
        check("2024-02-29T23:59:59.1234567Z", "2024-02-29T23:59:59Z", "2024-02-29T23:59:59.123456Z");
        check("2025-01-01T01:30:00+02:00", "2024-12-31T23:30:00Z", "2024-12-31T23:30:00.000000Z");
        check("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z");
        check("9999-12-31T23:59:59-00:30", "10000-01-01T00:29:59Z", "10000-01-01T00:29:59.000000Z");
    }

    #[test]
    fn refuses_what_is_not_a_time() {
        for bad in [
            "",
            "2024",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+0200",
            "2024-01-01T00:00:00Zx",
        ] {
            assert!(Timestamp::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_day_survives_the_calendar() {
        for days in (-800_000..800_000).step_by(13) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
            assert!((1..=days_in_month(y, m)).contains(&d));
        }
    }

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        let check = |secs, expect: &str| assert_eq!(human_duration(secs), expect);
        check(-5, "<invalid>");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(125, "2m5s");
        check(600, "10m");
        check(3 * 3600, "3h");
        check(3 * 3600 + 300, "3h5m");
        check(8 * 3600 + 300, "8h");
        check(48 * 3600, "2d");
        check(50 * 3600, "2d2h");
        check(9 * 86_400, "9d");
        check(800 * 86_400, "2y70d");
        check(3000 * 86_400, "8y");
    }
}
