//! Shuffle sharding: which few of a level's queues a flow may use. Decides nothing about how long they are.

use std::ops::Deref;

/// SplitMix64's output function: well mixed bits from any number.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// No valid level deals more: its hand and its queues together must not need more than sixty bits of a hash.
const LARGEST: usize = 20;

/// Some of a level's queues, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    cards: [usize; LARGEST],
    count: usize,
}

impl Deref for Hand {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.cards[..self.count]
    }
}

/// `hand` different queues out of `queues`, always the same ones for a flow.
pub fn deal(flow: u64, queues: usize, hand: usize) -> Hand {
    let mut dealt = Hand { cards: [0; LARGEST], count: 0 };
    let mut bits = flow;
    for taken in 0..hand.min(queues).min(LARGEST) {
        bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let left = u64::try_from(queues - taken).expect("a number of queues fits 64 bits");
        let mut pick = usize::try_from(mixed(bits) % left).expect("less than the number of queues");
        // The pick counts the queues that are still in the deck.
        let mut place = 0;
        while place < dealt.len() && pick >= dealt[place] {
            pick += 1;
            place += 1;
        }
        dealt.cards.copy_within(place..dealt.count, place + 1);
        dealt.cards[place] = pick;
        dealt.count += 1;
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hand_is_distinct_stable_and_of_the_deck(flow: u64, queues in 1_usize..300, hand in 1_usize..12) {
            let dealt = deal(flow, queues, hand);
            prop_assert_eq!(&dealt, &deal(flow, queues, hand));
            prop_assert_eq!(dealt.len(), hand.min(queues));
            prop_assert!(dealt.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", dealt);
            prop_assert!(dealt.iter().all(|at| *at < queues));
        }
    }

    #[test]
    fn every_queue_is_dealt_about_as_often() {
        let (queues, hand, flows) = (64, 6, 20_000_usize);
        let mut times = vec![0_usize; queues];
        for flow in 0..flows as u64 {
            deal(flow, queues, hand).iter().for_each(|at| times[*at] += 1);
        }
        let fair = flows * hand / queues;
        assert!(times.iter().all(|n| n.abs_diff(fair) < fair / 8), "{times:?}");
    }
}
