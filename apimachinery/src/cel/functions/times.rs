//! Points and spans of time. It decides how they are read, and which day and hour a point is in a zone.

use super::super::duration::Span;
use super::super::error::Error;
use super::super::value::{Val, time};
use super::{Meter, Row, global, member};
use crate::time::{MicroTime, Timestamp};

const IN_ZONE: &[&str] = &["timestamp -> int", "timestamp, string -> int"];
/// The same name counts hours of a span.
const OR_SPAN: &[&str] = &["timestamp -> int", "timestamp, string -> int", "duration -> int"];
const DAY_S: i64 = 86_400;

pub(super) const ROWS: &[Row] = &[
    global("duration", &["string -> duration", "duration -> duration"], |_, args| match args {
        [Val::Span(span)] => Ok(Val::Span(*span)),
        [Val::Text(text)] => Span::parse(text.as_str())
            .map(Val::Span)
            .ok_or_else(|| Error::failed("type conversion error from 'string' to 'google.protobuf.Duration'")),
        _ => Err(Error::no_overload()),
    }),
    global("timestamp", &["string -> timestamp", "int -> timestamp", "timestamp -> timestamp"], to_time),
    member("getFullYear", IN_ZONE, |_, args| of_date(args, |date| date.year)),
    member("getMonth", IN_ZONE, |_, args| of_date(args, |date| date.month - 1)),
    member("getDate", IN_ZONE, |_, args| of_date(args, |date| date.day)),
    member("getDayOfMonth", IN_ZONE, |_, args| of_date(args, |date| date.day - 1)),
    member("getDayOfWeek", IN_ZONE, |_, args| of_local(args, |s| (s.div_euclid(DAY_S) + 4).rem_euclid(7))),
    member("getDayOfYear", IN_ZONE, |_, args| of_local(args, day_of_year)),
    member("getHours", OR_SPAN, |_, args| part(args, 3600 * 1_000_000_000, |s| s.rem_euclid(DAY_S) / 3600)),
    member("getMinutes", OR_SPAN, |_, args| part(args, 60 * 1_000_000_000, |s| s.rem_euclid(3600) / 60)),
    member("getSeconds", OR_SPAN, |_, args| part(args, 1_000_000_000, |s| s.rem_euclid(60))),
    member("getMilliseconds", OR_SPAN, |_, args| match args {
        [Val::Span(span)] => Ok(Val::Int(span.0 / 1_000_000 % 1000)),
        [Val::Time(time), ..] => Ok(Val::Int(time.millis().rem_euclid(1000))),
        _ => Err(Error::no_overload()),
    }),
];

/// Whether the year has four digits.
pub(super) fn in_range(micros: i64) -> bool {
    (-62_135_596_800_000_000..=253_402_300_799_999_999).contains(&micros)
}

/// RFC 3339 with as much of a fraction as there is.
pub fn time_text(time: Timestamp) -> String {
    let text = MicroTime(time).to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    match fraction.trim_end_matches('Z').trim_end_matches('0') {
        "" => format!("{}Z", whole.trim_end_matches('Z')),
        fraction => format!("{whole}.{fraction}Z"),
    }
}

fn to_time<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Time(time)] => Ok(Val::Time(*time)),
        [Val::Int(secs)] => {
            let micros = secs.checked_mul(1_000_000).filter(|micros| in_range(*micros));
            micros.map(|m| Val::Time(Timestamp::from_micros(m))).ok_or_else(|| Error::failed("timestamp overflow"))
        }
        [Val::Text(text)] => time(text.as_str())
            .filter(|_| text.as_str().len() > 10)
            .map(Val::Time)
            .ok_or_else(|| Error::failed("type conversion error from 'string' to 'google.protobuf.Timestamp'")),
        _ => Err(Error::no_overload()),
    }
}

/// The seconds since 1970 that a clock in the zone has counted.
fn local(args: &[Val<'_>]) -> Result<i64, Error> {
    match args {
        [Val::Time(time)] => Ok(time.secs()),
        [Val::Time(time), Val::Text(zone)] => Ok(time.secs() + offset(zone.as_str())?),
        _ => Err(Error::no_overload()),
    }
}

/// UTC and fixed offsets; there is no database of places here.
fn offset(zone: &str) -> Result<i64, Error> {
    if ["UTC", "", "Z", "Etc/UTC", "GMT"].contains(&zone) {
        return Ok(0);
    }
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let parts = digits.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2);
    let parsed = parts.and_then(|(h, m)| Some((h.parse::<i64>().ok()?, m.parse::<i64>().ok()?)));
    match parsed {
        Some((hours, minutes)) if hours < 24 && minutes < 60 => Ok(sign * (hours * 3600 + minutes * 60)),
        _ => Err(Error::failed(format!("unknown time zone {zone}"))),
    }
}

fn of_local<'a>(args: &[Val<'a>], part: fn(i64) -> i64) -> Result<Val<'a>, Error> {
    local(args).map(|secs| Val::Int(part(secs)))
}

fn of_date<'a>(args: &[Val<'a>], part: fn(Date) -> i64) -> Result<Val<'a>, Error> {
    local(args).map(|secs| Val::Int(part(date(secs.div_euclid(DAY_S)))))
}

fn part<'a>(args: &[Val<'a>], unit_ns: i64, of_time: fn(i64) -> i64) -> Result<Val<'a>, Error> {
    match args {
        [Val::Span(span)] => Ok(Val::Int(span.0 / unit_ns)),
        _ => of_local(args, of_time),
    }
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// The date of a day since 1970: eras of 400 years that begin on a first of March, so that the leap day is the last.
fn date(days: i64) -> Date {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_in_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
    let shifted_month = (5 * in_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = in_year - (153 * shifted_month + 2) / 5 + 1;
    Date { year: year_in_era + era * 400 + i64::from(month <= 2), month, day }
}

fn day_of_year(secs: i64) -> i64 {
    let days = secs.div_euclid(DAY_S);
    let mut first = days;
    // The first of January is at most a year away: its distance is found by the date's own parts.
    let today = date(days);
    for month in 1..today.month {
        first -= days_in(today.year, month);
    }
    days - (first - (today.day - 1))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
