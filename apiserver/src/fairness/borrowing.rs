//! How the seats of idle levels are lent to busy ones. Decides from what each level wanted lately; never who runs.

use super::queues::Micros;

/// How many seats a level wanted over time: those taken and those waited for.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    since: Micros,
    last: Micros,
    current: usize,
    high: usize,
    area: f64,
    area_of_squares: f64,
    /// Falls slowly, so that a level which is busy now and then keeps what it will want again.
    smooth: f64,
}

/// One period's demand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    pub high: usize,
    pub average: f64,
    pub deviation: f64,
    pub smooth: f64,
}

/// Half of a peak is forgotten after some five minutes of ten seconds each (Kubernetes' coefficient).
const KEEP: f64 = 0.977;

impl Demand {
    pub fn new(now: Micros) -> Self {
        Self { since: now, last: now, current: 0, high: 0, area: 0.0, area_of_squares: 0.0, smooth: 0.0 }
    }

    pub fn update(&mut self, now: Micros, seats: usize) {
        let passed = now.saturating_sub(self.last) as f64;
        let current = self.current as f64;
        self.area += passed * current;
        self.area_of_squares += passed * current * current;
        self.last = self.last.max(now);
        self.current = seats;
        self.high = self.high.max(seats);
    }

    /// The period until now; the next one begins.
    pub fn take(&mut self, now: Micros) -> Reading {
        self.update(now, self.current);
        let passed = now.saturating_sub(self.since) as f64;
        let (average, mean_square) = if passed > 0.0 {
            (self.area / passed, self.area_of_squares / passed)
        } else {
            let current = self.current as f64;
            (current, current * current)
        };
        let deviation = (mean_square - average * average).max(0.0).sqrt();
        let envelope = average + deviation;
        let smooth = envelope.max(KEEP * self.smooth + (1.0 - KEEP) * envelope);
        let reading = Reading { high: self.high, average, deviation, smooth };
        *self = Self { smooth, current: self.current, high: self.current, ..Self::new(now) };
        reading
    }
}

/// One level's bounds and wishes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    pub nominal: usize,
    /// What it keeps when it lends all it may.
    pub lower: usize,
    pub upper: usize,
    pub high: usize,
    pub smooth: f64,
}

/// What a level may get: `target`, times the same fraction for all, within its bounds.
#[derive(Clone, Copy, Debug)]
struct Claim {
    lower: f64,
    upper: f64,
    target: f64,
}

impl Claim {
    fn at(&self, fraction: f64) -> f64 {
        (self.target * fraction).clamp(self.lower, self.upper)
    }
}

impl Wish {
    /// What it has a right to now: its own seats as far as it wants them.
    fn floor(&self) -> usize {
        self.lower.max(self.nominal.min(self.high))
    }

    /// What it aims at.
    pub fn target(&self) -> f64 {
        self.smooth.max(self.floor() as f64)
    }

    fn claim(&self) -> Claim {
        let lower = self.floor() as f64;
        Claim { lower, upper: lower.max(self.upper as f64), target: self.target() }
    }

    /// Of a level that borrows nothing.
    fn own(&self) -> Claim {
        Claim { lower: self.floor() as f64, upper: self.nominal as f64, target: self.nominal as f64 }
    }

    /// Of a level that may not even keep what it has a right to.
    fn pressed(&self) -> Claim {
        let upper = self.floor() as f64;
        Claim { lower: self.lower as f64, upper, target: upper }
    }
}

/// The seats of each level out of `total`. Nobody borrows while everybody has enough; otherwise every level gets the same fraction of
/// its demand, within its bounds, so that all seats are given out. No level gets less than it keeps when it lends all it may, even if
/// that is more than there is.
pub fn share(total: usize, wishes: &[Wish]) -> Vec<usize> {
    let floors: usize = wishes.iter().map(Wish::floor).sum();
    let claims: Vec<Claim> = if floors > total {
        wishes.iter().map(Wish::pressed).collect()
    } else if wishes.iter().all(|wish| wish.high <= wish.nominal) {
        wishes.iter().map(Wish::own).collect()
    } else {
        wishes.iter().map(Wish::claim).collect()
    };
    divide(total, &claims)
}

fn divide(total: usize, claims: &[Claim]) -> Vec<usize> {
    let sum = |fraction: f64| claims.iter().map(|claim| claim.at(fraction)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    // Beyond this, every level that aims at anything is at its upper bound.
    while sum(high) < total as f64 && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if sum(middle) <= total as f64 { low = middle } else { high = middle }
    }
    let mut seats: Vec<usize> = claims.iter().map(|claim| claim.at(low).floor() as usize).collect();
    // What rounding left goes to who lost most by it.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|a, b| claims[*b].at(low).fract().total_cmp(&claims[*a].at(low).fract()));
    let mut left = total.saturating_sub(seats.iter().sum());
    for at in order {
        if left > 0 && seats[at] < claims[at].upper as usize && claims[at].target > 0.0 {
            seats[at] += 1;
            left -= 1;
        }
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn demand_is_averaged_over_its_period() {
        let mut demand = Demand::new(0);
        demand.update(0, 4);
        demand.update(5_000_000, 0);
        let first = demand.take(10_000_000);
        assert_eq!(first, Reading { high: 4, average: 2.0, deviation: 2.0, smooth: 4.0 });
        let second = demand.take(20_000_000);
        assert_eq!((second.high, second.average), (0, 0.0));
        assert!((second.smooth - 4.0 * KEEP).abs() < 1e-9, "{}", second.smooth);
    }

    fn wish(nominal: usize, lower: usize, upper: usize, high: usize) -> Wish {
        Wish { nominal, lower, upper, high, smooth: high as f64 }
    }

    #[test]
    fn the_busy_borrow_from_the_idle() {
        let check = |wishes: &[Wish], expect: &[usize]| assert_eq!(share(100, wishes), expect, "{wishes:?}");
        // Everybody has enough.
        check(&[wish(60, 10, 100, 5), wish(40, 40, 100, 40)], &[60, 40]);
        // One lends all it may, and no more.
        check(&[wish(60, 10, 100, 0), wish(40, 40, 100, 500)], &[10, 90]);
        // What it wants itself it keeps.
        check(&[wish(60, 10, 100, 50), wish(40, 40, 100, 500)], &[50, 50]);
        check(&[wish(60, 10, 100, 70), wish(40, 40, 100, 500)], &[60, 40]);
        // A limit on borrowing.
        check(&[wish(60, 10, 100, 0), wish(40, 40, 60, 500)], &[40, 60]);
        // Two borrow in proportion to what they want.
        check(&[wish(60, 0, 100, 0), wish(20, 20, 100, 100), wish(20, 20, 100, 300)], &[0, 25, 75]);
    }

    #[test]
    fn what_exempt_requests_take_is_taken_from_all() {
        let wishes = [wish(60, 10, 100, 5), wish(40, 40, 100, 40)];
        assert_eq!(share(90, &wishes), [50, 40], "one can spare it");
        assert_eq!(share(50, &wishes), [10, 40]);
        assert_eq!(share(5, &wishes), [10, 40], "nobody gets less");
        let busy = [wish(60, 10, 100, 60), wish(40, 20, 100, 40)];
        assert_eq!(share(50, &busy), [30, 20], "both lend as far as they must");
        let want_more = [wish(60, 10, 100, 300), wish(40, 20, 100, 0)];
        assert_eq!(share(90, &want_more), [70, 20]);
    }

    proptest! {
        #[test]
        fn nobody_leaves_its_bounds(levels in proptest::collection::vec((0_usize..100, 0_usize..100, 0_usize..300, 0_usize..400), 1..8), exempt in 0_usize..100) {
            let wishes: Vec<Wish> = levels.iter().map(|(nominal, lend, borrow, high)| {
                wish(*nominal, nominal - nominal * lend / 100, nominal + borrow, *high)
            }).collect();
            let all: usize = wishes.iter().map(|wish| wish.nominal).sum();
            let total = all - all * exempt / 100;
            let seats = share(total, &wishes);
            let least = wishes.iter().map(|wish| wish.lower).sum();
            prop_assert!(seats.iter().sum::<usize>() <= total.max(least), "{:?} of {}", seats, total);
            let pressed = wishes.iter().map(Wish::floor).sum::<usize>() > total;
            for (seats, wish) in seats.iter().zip(&wishes) {
                let from = if pressed { wish.lower } else { wish.floor() };
                prop_assert!((from..=wish.upper).contains(seats), "{} {:?}", seats, wish);
            }
        }
    }
}
