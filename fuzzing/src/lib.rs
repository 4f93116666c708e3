//! Bytes that nobody who is well wrote, for everything that decodes bytes: random ones, and valid ones with something changed; and a
//! count of what decoding them takes from the heap. For tests only.

mod heap;

pub use heap::most_bytes;

use proptest::collection::vec;
use proptest::prelude::*;

/// One change of a valid input.
#[derive(Clone, Debug)]
pub enum Change {
    Flip(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Repeat(usize, usize),
}

pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<usize>(), 1..=u8::MAX).prop_map(|(at, bits)| Change::Flip(at, bits)),
        any::<usize>().prop_map(Change::Cut),
        (any::<usize>(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

pub fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let at = |n: &usize| n % (bytes.len() + 1);
        match change {
            Change::Flip(n, bits) => {
                let at = at(n);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Change::Cut(n) => bytes.truncate(at(n)),
            Change::Insert(n, more) => {
                let at = at(n);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Repeat(from, to) => {
                let (from, to) = (at(from).min(at(to)), at(from).max(at(to)));
                bytes.extend_from_within(from..to.min(from + 4_096));
            }
        }
    }
    bytes
}

/// Random bytes, or `valid` with changes.
pub fn input(valid: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..300), vec(change(), 1..5).prop_map(move |changes| changed(valid.clone(), &changes))]
}

/// The same for what is text before it comes to the decoder: parts of `words` and of random text, in any order.
pub fn text(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![4 => proptest::sample::select(words).prop_map(str::to_owned), 1 => ".{0,6}"];
    vec(word, 0..24).prop_map(|words| words.concat())
}
