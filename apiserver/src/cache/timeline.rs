//! When a store group was at which revision, as far as this server saw: so that a reader can ask for a time and not for a
//! revision. It decides what a time means, and keeps one mark a second for longer than the store keeps history.

use gantry_apimachinery::cron;
use gantry_apimachinery::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The store keeps less: five minutes.
const KEPT: Duration = Duration::from_secs(900);
const APART: Duration = Duration::from_secs(1);

/// The last revision of about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub revision: u64,
}

#[derive(Debug, Default)]
pub struct Timeline {
    /// When the first second began whose marks are all here.
    since: Option<Timestamp>,
    /// Apart by a second at least; the last one is still moving.
    marks: VecDeque<Mark>,
    /// Where the last mark's second began.
    second: Option<Timestamp>,
}

/// Why there is no revision for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is before anything that this server saw.
    Before(Timestamp),
    Future,
    /// Nothing was seen yet.
    Nothing,
}

impl Timeline {
    pub fn note(&mut self, now: Timestamp, revision: u64) {
        self.since.get_or_insert(now);
        let mark = Mark { at: now, revision };
        match (self.second, self.marks.back_mut()) {
            // A clock that was set back makes no new mark: marks stay in order.
            (Some(second), Some(last)) if now < second + APART => {
                last.revision = revision.max(last.revision);
                last.at = now.max(last.at);
            }
            _ => {
                self.second = Some(now);
                self.marks.push_back(mark);
            }
        }
        while self.marks.get(1).is_some_and(|second| second.at < now - KEPT) {
            self.marks.pop_front();
            self.since = self.marks.front().map(|first| first.at);
        }
    }

    /// The revision that the group was at, a second before `when` at the earliest.
    pub fn at(&self, when: Timestamp, now: Timestamp) -> Result<u64, Unknown> {
        let since = self.since.ok_or(Unknown::Nothing)?;
        if when > now {
            return Err(Unknown::Future);
        }
        let not_after = self.marks.partition_point(|mark| mark.at <= when);
        match not_after.checked_sub(1).and_then(|at| self.marks.get(at)) {
            Some(mark) => Ok(mark.revision),
            None => Err(Unknown::Before(since)),
        }
    }
}

/// A time as people write it: RFC 3339, or how long ago (`-2m`, `-1m30s`).
pub fn parse(text: &str, now: Timestamp) -> Option<Timestamp> {
    match text.strip_prefix('-') {
        Some(ago) => {
            let ago = u64::try_from(cron::nanoseconds(ago)?).ok()?;
            Some(now - Duration::from_nanos(ago))
        }
        None => Timestamp::parse(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::parse("2026-01-01T00:00:00Z").unwrap() + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_time_is_the_last_revision_before_it() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.at(at(1.0), at(2.0)), Err(Unknown::Nothing));
        for (seconds, revision) in [(10.0, 5), (10.2, 6), (10.9, 9), (11.5, 12), (20.0, 13)] {
            timeline.note(at(seconds), revision);
        }
        let rows = [
            (9.9, Err(Unknown::Before(at(10.0)))),
            (10.9, Ok(9)),
            (11.4, Ok(9)),
            (11.5, Ok(12)),
            (19.9, Ok(12)),
            (20.0, Ok(13)),
            (25.0, Ok(13)),
            (25.1, Err(Unknown::Future)),
        ];
        for (when, expect) in rows {
            assert_eq!(timeline.at(at(when), at(25.0)), expect, "{when}");
        }
    }

    #[test]
    fn one_mark_a_second_and_a_quarter_of_an_hour_are_kept() {
        let mut timeline = Timeline::default();
        for tenth in 0..20_000u32 {
            timeline.note(at(f64::from(tenth) / 10.0), tenth.into());
        }
        assert!(timeline.marks.len() <= 902, "{}", timeline.marks.len());
        let now = at(2_000.0);
        assert!(timeline.at(at(1_100.0), now).is_ok());
        assert!(matches!(timeline.at(at(1_050.0), now), Err(Unknown::Before(since)) if since > at(1_050.0)));
    }

    #[test]
    fn a_clock_that_is_set_back_changes_nothing_that_was_marked() {
        let mut timeline = Timeline::default();
        timeline.note(at(100.0), 5);
        timeline.note(at(90.0), 6);
        timeline.note(at(102.0), 7);
        assert_eq!(timeline.at(at(101.0), at(103.0)), Ok(6));
        assert_eq!(timeline.at(at(102.0), at(103.0)), Ok(7));
    }

    #[test]
    fn times_are_written_as_people_do() {
        let now = at(1_000.0);
        assert_eq!(parse("-2m", now), Some(at(880.0)));
        assert_eq!(parse("-1m30s", now), Some(at(910.0)));
        assert_eq!(parse("2026-01-01T00:00:05Z", now), Some(at(5.0)));
        assert_eq!(parse("2026-01-01T02:00:05+02:00", now), Some(at(5.0)));
        for wrong in ["", "-", "2m", "-2", "yesterday", "--2m", "-99999999999999h"] {
            assert_eq!(parse(wrong, now), None, "{wrong}");
        }
    }
}
