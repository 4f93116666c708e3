//! Numbers that follow from a seed (SplitMix64). The seed fixes what is asked and done to the members; threads, the network
//! and disks still make every run its own.

use gantry_history::Dice as _;

pub struct Dice(u64);

impl Dice {
    /// The `stream`th source of one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

impl gantry_history::Dice for Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
