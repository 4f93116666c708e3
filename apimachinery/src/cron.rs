//! Cron schedules as a CronJob's `spec.schedule` writes them: five fields, or a descriptor such as `@daily`.
//!
//! It decides how a schedule is read and which minutes of a calendar it names; it knows no clock and no time zone.
//! Behaviour follows <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax>.

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The zone named in front (`TZ=…`), which new CronJobs name in a field of its own.
    pub zone: Option<String>,
    pub rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At a fixed distance, in seconds; at least one.
    Every(u64),
    Calendar(Calendar),
}

/// Sets of minutes, hours, days, months and weekdays, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the field names every day, so that the other of the two decides alone.
    any_day: bool,
    any_weekday: bool,
}

/// A minute of the civil calendar: months and days count from 1, weekdays from Sunday at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub minute: u8,
    pub hour: u8,
    pub day: u8,
    pub month: u8,
    pub weekday: u8,
}

struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field {
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Schedule {
    /// Reads a schedule; the error is what Kubernetes' users see.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let zoned = ["TZ=", "CRON_TZ="].iter().find_map(|prefix| text.strip_prefix(prefix));
        let (zone, rest) = match zoned {
            None => (None, text),
            Some(rest) => {
                let (zone, rest) = rest.split_once(' ').ok_or("missing fields after the time zone")?;
                (Some(zone.to_owned()), rest.trim())
            }
        };
        let rule = if rest.starts_with('@') { descriptor(rest)? } else { Rule::Calendar(calendar(rest)?) };
        Ok(Self { zone, rule })
    }
}

impl Calendar {
    /// Whether this minute is one of them. A restricted day and a restricted weekday are alternatives.
    pub fn names(&self, at: Moment) -> bool {
        let has = |set: u64, value: u8| set >> value & 1 == 1;
        let (day, weekday) = (has(self.days, at.day), has(self.weekdays, at.weekday));
        let days = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        has(self.minutes, at.minute) && has(self.hours, at.hour) && has(self.months, at.month) && days
    }
}

fn descriptor(text: &str) -> Result<Rule, String> {
    if let Some((_, fields)) = DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        return Ok(Rule::Calendar(calendar(fields)?));
    }
    let Some(duration) = text.strip_prefix("@every ") else { return Err(format!("unrecognized descriptor: {text}")) };
    let nanos = nanoseconds(duration)
        .ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {duration:?}"))?;
    Ok(Rule::Every(u64::try_from(nanos / 1_000_000_000).unwrap_or(0).max(1)))
}

/// A duration such as `1h30m`; nothing for what is none.
pub fn nanoseconds(text: &str) -> Option<i128> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("μs", 1_000),
    ];
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0i128;
    while !rest.is_empty() || total == 0 && text.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |at| end + at);
        let (_, size) = UNITS.iter().find(|(unit, _)| *unit == &rest[end..unit_end])?;
        total = total.checked_add((number * *size as f64) as i128).filter(|total| *total <= i128::from(i64::MAX))?;
        rest = &rest[unit_end..];
    }
    Some(if negative { -total } else { total })
}

fn calendar(text: &str) -> Result<Calendar, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    };
    let [(minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday)] = [
        field(minute, &FIELDS[0])?,
        field(hour, &FIELDS[1])?,
        field(day, &FIELDS[2])?,
        field(month, &FIELDS[3])?,
        field(weekday, &FIELDS[4])?,
    ];
    Ok(Calendar { minutes, hours, days, months, weekdays, any_day, any_weekday })
}

/// The values that a field names, and whether it names them with a star.
fn field(text: &str, field: &Field) -> Result<(u64, bool), String> {
    let (mut set, mut star) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (values, any) = range(part, field)?;
        set |= values;
        star |= any;
    }
    Ok((set, star))
}

fn range(text: &str, field: &Field) -> Result<(u64, bool), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let mut star = matches!(ends[0], "*" | "?");
    let (low, mut high) = match ends.as_slice() {
        _ if star => (field.low, field.high),
        [one] => number_or_name(one, field).map(|value| (value, value))?,
        [low, high] => (number_or_name(low, field)?, number_or_name(high, field)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                high = field.high;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    star &= step <= 1;
    if low < field.low {
        return Err(format!("beginning of range ({low}) below minimum ({}): {text}", field.low));
    }
    if high > field.high {
        return Err(format!("end of range ({high}) above maximum ({}): {text}", field.high));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let values = (low..=high).step_by(step as usize).fold(0u64, |set, value| set | 1 << value);
    Ok((values, star))
}

fn number_or_name(text: &str, field: &Field) -> Result<u32, String> {
    let name = text.to_lowercase();
    match (field.low..).zip(field.names).find(|(_, known)| **known == name) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(value) if value < 0 => Err(format!("negative number ({value}) not allowed: {text}")),
        Ok(value) => Ok(u32::try_from(value).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_schedule_is_said() {
        let check = |text: &str, expect: &str| assert_eq!(Schedule::parse(text), Err(expect.to_owned()), "{text}");
        check("", "empty spec string");
        check("error", "expected exactly 5 fields, found 1: [error]");
        check("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]");
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("* * * * 7", "end of range (7) above maximum (6): 7");
        check("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3");
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax");
        check("@often", "unrecognized descriptor: @often");
        check("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\"");
        check("@every ", "failed to parse duration @every : time: invalid duration \"\"");
    }

    #[test]
    fn a_schedule_names_its_minutes() {
        let noon = Moment { minute: 0, hour: 12, day: 13, month: 2, weekday: 5 };
        let check = |text: &str, at: Moment, expect: bool| {
            let Ok(Schedule { rule: Rule::Calendar(calendar), .. }) = Schedule::parse(text) else { panic!("{text}") };
            assert_eq!(calendar.names(at), expect, "{text}");
        };
        check("* * * * *", noon, true);
        check("*/15 * * * *", noon, true);
        check("5/15 * * * *", noon, false);
        check("0 9-17 * FEB Mon-Fri", noon, true);
        check("0 9-17/2 * * *", noon, false);
        check("0,30 12 * * *", noon, true);
        check("0 12 13 * 1", noon, true);
        check("0 12 12 * 5", noon, true);
        check("0 12 12 * *", noon, false);
        check("0 12 */2 * 1", noon, true);
        check("@yearly", noon, false);
        check("@hourly", noon, true);
    }

    #[test]
    fn distances_and_zones_are_read() {
        let every = |text: &str| Schedule::parse(text).map(|schedule| schedule.rule);
        assert_eq!(every("@every 1h30m"), Ok(Rule::Every(5400)));
        assert_eq!(every("@every 1.5s"), Ok(Rule::Every(1)));
        assert_eq!(every("@every 10ms"), Ok(Rule::Every(1)));
        let zoned = Schedule::parse("CRON_TZ=Europe/Berlin 0 6 * * *").unwrap();
        assert_eq!(zoned.zone.as_deref(), Some("Europe/Berlin"));
    }
}
