//! How much of the server a request takes: seats, and for how long after the answer. Decides from what kind of request it is and how
//! much there is to list or to tell; never who runs.

use super::queues::Micros;

/// No request is wider.
const MOST_SEATS: usize = 10;
/// A list takes a seat for every so many objects that it looks at (Kubernetes' number).
const OBJECTS_PER_SEAT: usize = 100;
/// What it costs to deliver one event to one watcher.
const DELIVERY_US: u64 = 10;
/// A write's fan-out takes as many seats as it needs to be over in that time.
const FAN_OUT_WITHIN_US: Micros = 5_000;
/// Fewer watchers than this are told in no time.
const FEW_WATCHERS: usize = 100;
/// No request is wider than this part of its level (Kubernetes' number), so that one does not take all of it.
const PART_OF_LEVEL: f64 = 0.15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub seats: usize,
    /// How long the seats are taken after the answer.
    pub after_us: Micros,
}

impl Work {
    pub const ONE: Self = Self { seats: 1, after_us: 0 };

    /// A list that looks at so many objects.
    pub fn list(objects: usize) -> Self {
        Self { seats: objects.div_ceil(OBJECTS_PER_SEAT).clamp(1, MOST_SEATS), after_us: 0 }
    }

    /// A write that so many watchers are told of.
    pub fn write(watchers: usize) -> Self {
        if watchers < FEW_WATCHERS {
            return Self::ONE;
        }
        let seat_time = DELIVERY_US.saturating_mul(u64::try_from(watchers).unwrap_or(u64::MAX));
        let wanted = usize::try_from(seat_time.div_ceil(FAN_OUT_WITHIN_US)).unwrap_or(usize::MAX);
        let seats = wanted.clamp(1, MOST_SEATS);
        Self { seats, after_us: seat_time / seats as u64 }
    }

    /// The same work in a level with so many seats: narrower, and longer for that.
    pub fn within(self, level_seats: usize) -> Self {
        let most = ((level_seats as f64 * PART_OF_LEVEL).ceil() as usize).max(1);
        if self.seats <= most {
            return self;
        }
        let seat_time = self.after_us.saturating_mul(self.seats as u64);
        Self { seats: most, after_us: seat_time / most as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_wide_as_what_they_return() {
        let check = |objects: usize, expect: usize| assert_eq!(Work::list(objects).seats, expect, "{objects}");
        check(0, 1);
        check(100, 1);
        check(101, 2);
        check(1_000, 10);
        check(1_000_000, 10);
    }

    #[test]
    fn writes_take_what_their_watchers_take() {
        let check = |watchers: usize, seats: usize, after_us: Micros| {
            assert_eq!(Work::write(watchers), Work { seats, after_us }, "{watchers}");
        };
        check(0, 1, 0);
        check(99, 1, 0);
        check(100, 1, 1_000);
        check(1_000, 2, 5_000);
        check(10_000, 10, 10_000);
        check(100_000, 10, 100_000);
    }

    #[test]
    fn small_levels_make_it_narrow_and_long() {
        let wide = Work { seats: 10, after_us: 3_000 };
        let check = |level: usize, seats: usize, after_us: Micros| {
            assert_eq!(wide.within(level), Work { seats, after_us }, "{level}");
        };
        check(100, 10, 3_000);
        check(20, 3, 10_000);
        check(1, 1, 30_000);
        check(0, 1, 30_000);
        check(usize::MAX, 10, 3_000);
    }
}
