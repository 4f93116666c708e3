//! When a client that was turned away shall come again. Decides from how many were turned away lately: the answer doubles while they
//! keep coming and falls by one second at a time (as Kubernetes does it); never who is turned away.

use super::queues::Micros;
use std::collections::VecDeque;

/// Nobody is asked to stay away longer.
const LONGEST_S: u32 = 32;
const SECOND: Micros = 1_000_000;

/// A level's refusals of the last half minute, and what its clients are told.
#[derive(Debug)]
pub struct RetryAfter {
    /// `(second, refusals in it)`, oldest first.
    seconds: VecDeque<(u64, u64)>,
    after_s: u32,
    raised_at: Option<u64>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self { seconds: VecDeque::new(), after_s: 1, raised_at: None }
    }
}

impl RetryAfter {
    /// Somebody is turned away: the seconds to tell it.
    pub fn refused(&mut self, now: Micros) -> u32 {
        let second = now / SECOND;
        match self.seconds.back_mut() {
            Some((last, count)) if *last >= second => *count += 1,
            _ => {
                self.adjust(second);
                self.seconds.push_back((second, 1));
            }
        }
        self.after_s
    }

    /// By what happened in the seconds before this one, as many of them as clients are asked to stay away.
    fn adjust(&mut self, second: u64) {
        let oldest = second.saturating_sub(u64::from(LONGEST_S));
        while self.seconds.front().is_some_and(|(at, _)| *at < oldest) {
            self.seconds.pop_front();
        }
        let wait = u64::from(self.after_s);
        let recent: u64 = self.seconds.iter().filter(|(at, _)| at + wait >= second).map(|(_, count)| count).sum();
        let may_rise = self.raised_at.is_none_or(|at| at + wait <= second);
        if may_rise && recent >= 3 * wait {
            self.after_s = (self.after_s * 2).min(LONGEST_S);
            self.raised_at = Some(second);
        } else if recent < wait && self.after_s > 1 {
            self.after_s -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_doubles_under_pressure_and_falls_slowly() {
        let mut retry = RetryAfter::default();
        let mut at = |second: u64, times: u32| (0..times).map(|_| retry.refused(second * SECOND)).last().unwrap();
        assert_eq!(at(1, 2), 1);
        assert_eq!(at(2, 3), 1, "two in a second are few");
        assert_eq!(at(3, 6), 2);
        assert_eq!(at(4, 50), 2, "not sooner than those who were told can come again");
        assert_eq!(at(5, 50), 4);
        assert_eq!(at(9, 200), 8);
        assert_eq!(at(17, 200), 16);
        assert_eq!(at(33, 200), 32);
        assert_eq!(at(65, 200), 32, "that is the most");
        assert_eq!(at(200, 1), 31, "nobody came for long");
        assert_eq!(at(201, 1), 30);
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut retry = RetryAfter::default();
        for second in 0..1_000 {
            retry.refused(second * SECOND);
        }
        assert!(retry.seconds.len() <= LONGEST_S as usize + 2, "{}", retry.seconds.len());
    }
}
