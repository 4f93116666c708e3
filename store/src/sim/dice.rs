//! Chance, all of it from the seed.

use super::with;

/// The finaliser of splitmix64.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The next number of this thread's simulation; `None` outside one.
pub fn next() -> Option<u64> {
    with(|context| {
        context.dice = context.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(context.dice)
    })
}

/// A number below `n`.
pub fn below(n: u64) -> u64 {
    next().expect("only simulations roll dice") % n
}

pub fn percent(chance: u64) -> bool {
    below(100) < chance
}

pub fn between(from: u64, to: u64) -> u64 {
    from + below(to - from)
}

/// The same, for whoever brings no source of chance of its own.
pub struct Fate;

impl gantry_history::Dice for Fate {
    fn below(&mut self, n: u64) -> u64 {
        below(n)
    }
}
