//! A set of machines as bits, 64 to a word: what a walk intersects instead of asking each machine. Decides nothing.

/// Grows on demand; what lies beyond the end is not in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

pub const WORD: usize = 64;

impl Bits {
    pub fn get(&self, at: usize) -> bool {
        self.word(at / WORD) >> (at % WORD) & 1 == 1
    }

    /// Returns whether that changed anything.
    pub fn set(&mut self, at: usize, is_in: bool) -> bool {
        let (word, bit) = (at / WORD, 1_u64 << (at % WORD));
        if word >= self.0.len() {
            if !is_in {
                return false;
            }
            self.0.resize(word + 1, 0);
        }
        let old = self.0[word];
        self.0[word] = if is_in { old | bit } else { old & !bit };
        self.0[word] != old
    }

    pub fn word(&self, word: usize) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| ones(*bits).map(move |bit| word * WORD + bit))
    }
}

/// The positions of the ones in a word, from the lowest.
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let at = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            at
        })
    })
}

/// Keeps those ones of `mask` for which `keep` holds; bit 0 is machine `word * 64`.
pub fn filtered(word: usize, mask: u64, keep: impl Fn(usize) -> bool) -> u64 {
    ones(mask).filter(|bit| keep(word * WORD + bit)).fold(0, |kept, bit| kept | 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_numbers() {
        let mut bits = Bits::default();
        assert!(bits.is_empty() && !bits.get(1000) && !bits.set(1000, false));
        for at in [0, 63, 64, 200] {
            assert!(bits.set(at, true) && !bits.set(at, true));
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        assert!(bits.set(63, false));
        assert_eq!((bits.count(), bits.get(63), bits.get(64), bits.word(9)), (3, false, true, 0));
        assert_eq!(filtered(1, 0b111, |machine| machine != 65), 0b101);
    }
}
