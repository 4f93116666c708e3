//! Which machines are silent, by this process' own clock: a machine's Lease says only *that* it was renewed, never when. Decides
//! silence, the brake and the pace of declaring machines lost; never what follows from them.

use std::collections::{BTreeMap, VecDeque};

use gantry_apimachinery::time::Timestamp;

/// Above this share of silent machines it is more likely that we are cut off than that they died.
const BRAKE_PERCENT: usize = 55;
/// From this many silent machines on, or a tenth of all, they are declared lost at a bounded rate.
const MANY: usize = 3;
const PACE: usize = 2;
const PACE_MS: u64 = 60_000;
/// After being stopped or suspended for this long, nothing is known of anybody.
const BLIND_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug)]
struct Beat {
    renewed: Option<Timestamp>,
    /// When (boot time) the renewal was noticed.
    at_ms: u64,
}

/// The pure state: feed it renewals and ticks.
#[derive(Clone, Debug)]
pub struct Heartbeats {
    silence_ms: u64,
    beats: BTreeMap<String, Beat>,
    last_tick_ms: u64,
    lost: VecDeque<(u64, String)>,
}

impl Heartbeats {
    pub fn new(silence_s: u64, now_ms: u64) -> Self {
        Heartbeats { silence_ms: silence_s * 1000, beats: BTreeMap::new(), last_tick_ms: now_ms, lost: VecDeque::new() }
    }

    /// A machine is there; `renewed` is what its Lease says, if it has one. A machine seen for the first time has a full
    /// silence before it is judged.
    pub fn note(&mut self, node: &str, renewed: Option<Timestamp>, now_ms: u64) {
        match self.beats.get_mut(node) {
            Some(beat) if renewed.is_none() || beat.renewed == renewed => {}
            Some(beat) => *beat = Beat { renewed, at_ms: now_ms },
            None => drop(self.beats.insert(node.to_owned(), Beat { renewed, at_ms: now_ms })),
        }
    }

    pub fn forget(&mut self, node: &str) {
        self.beats.remove(node);
        self.lost.retain(|(_, name)| name != node);
    }

    /// Called every second or so. Having been away ourselves, we start to watch anew.
    pub fn tick(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.last_tick_ms) > BLIND_MS {
            self.beats.values_mut().for_each(|beat| beat.at_ms = now_ms);
        }
        self.last_tick_ms = now_ms;
        let silent: Vec<bool> = self.lost.iter().map(|(_, name)| self.is_silent(name, now_ms)).collect();
        let mut silent = silent.into_iter();
        self.lost.retain(|_| silent.next().unwrap_or(false));
    }

    pub fn is_silent(&self, node: &str, now_ms: u64) -> bool {
        self.beats.get(node).is_some_and(|beat| now_ms.saturating_sub(beat.at_ms) >= self.silence_ms)
    }

    pub fn silent(&self, now_ms: u64) -> Vec<&str> {
        self.beats.keys().filter(|node| self.is_silent(node, now_ms)).map(String::as_str).collect()
    }

    /// So many are silent that none may be declared lost.
    pub fn brake(&self, now_ms: u64) -> bool {
        self.silent(now_ms).len() * 100 > self.beats.len() * BRAKE_PERCENT
    }

    /// Whether this silent machine may be declared lost now, so that its pods are evicted. Once granted it stays granted
    /// until the machine speaks or the brake is on.
    pub fn may_lose(&mut self, node: &str, now_ms: u64) -> bool {
        if self.brake(now_ms) {
            return false;
        }
        if self.lost.iter().any(|(_, name)| name == node) {
            return true;
        }
        let many = self.silent(now_ms).len() >= MANY.max(self.beats.len() / 10);
        let recent = self.lost.iter().filter(|(at, _)| now_ms.saturating_sub(*at) < PACE_MS).count();
        let granted = !many || recent < PACE;
        if granted {
            self.lost.push_back((now_ms, node.to_owned()));
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(count: u64) -> Heartbeats {
        let mut beats = Heartbeats::new(40, 0);
        for n in 0..count {
            beats.note(&format!("n{n}"), Some(Timestamp::from_secs(1)), 0);
        }
        beats
    }

    fn pass(beats: &mut Heartbeats, to_ms: u64, speaking: std::ops::Range<u64>) {
        let from = beats.last_tick_ms;
        for now in (from..=to_ms).step_by(1000) {
            for n in speaking.clone() {
                beats.note(&format!("n{n}"), Some(Timestamp::from_millis(i64::try_from(now).unwrap())), now);
            }
            beats.tick(now);
        }
    }

    #[test]
    fn a_machine_is_silent_after_forty_seconds_of_our_watching() {
        let mut beats = beats(10);
        pass(&mut beats, 39_000, 1..10);
        assert!(!beats.is_silent("n0", 39_999));
        assert!(beats.is_silent("n0", 40_000) && !beats.is_silent("n1", 40_000));
        beats.note("n0", Some(Timestamp::from_secs(2)), 41_000);
        assert!(!beats.is_silent("n0", 41_000));
    }

    #[test]
    fn having_been_away_nobody_is_silent() {
        let mut beats = beats(2);
        beats.tick(100_000);
        assert!(beats.silent(100_000).is_empty());
    }

    #[test]
    fn more_than_half_silent_is_our_fault() {
        let check = |all, speaking: u64, expect| {
            let mut beats = beats(all);
            pass(&mut beats, 60_000, 0..speaking);
            assert_eq!(beats.brake(60_000), expect, "{speaking} of {all}");
        };
        check(1, 0, true);
        check(2, 1, false);
        check(20, 9, false);
        check(20, 8, true);
    }

    #[test]
    fn many_are_lost_two_a_minute() {
        let mut beats = beats(10);
        pass(&mut beats, 40_000, 5..10);
        let lost = |beats: &mut Heartbeats, now| (0..5).filter(|n| beats.may_lose(&format!("n{n}"), now)).count();
        assert_eq!(lost(&mut beats, 40_000), 2);
        pass(&mut beats, 99_000, 5..10);
        assert_eq!(lost(&mut beats, 99_999), 2);
        assert_eq!(lost(&mut beats, 100_000), 4);
    }
}
