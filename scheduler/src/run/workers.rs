//! Threads that propose placements for several pods at once, all from the same snapshot.

use crate::engine::{Work, Workers};
use crate::schedule::{Decision, Scratch, schedule};
use crate::snapshot::Snapshot;

/// More than this many do not pay: one committer takes what they propose.
const MOST: usize = 4;
/// Proposals that a worker makes before they are committed: the more, the more often two propose the same machine.
const EACH: usize = 16;
/// A thread costs about as much as this many proposals.
const WORTH: usize = 8;

/// Half of the processors, at most four: the other half is for what the proposals lead to.
pub fn fitting() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 2).clamp(1, MOST)
}

pub(super) struct Threads {
    count: usize,
}

impl Threads {
    pub fn new(count: usize) -> Self {
        Threads { count: count.clamp(1, MOST) }
    }
}

impl Workers for Threads {
    fn width(&self) -> usize {
        if self.count == 1 { 1 } else { self.count * EACH }
    }

    fn propose(&self, snapshot: &Snapshot, work: &[Work], scratch: &mut Scratch) -> Vec<Decision> {
        let each = work.len().div_ceil(self.count).max(WORTH);
        if work.len() <= each {
            return propose(snapshot, work, scratch);
        }
        std::thread::scope(|scope| {
            let (own, others) = work.split_at(each);
            let others: Vec<_> = others
                .chunks(each)
                .map(|part| scope.spawn(move || propose(snapshot, part, &mut Scratch::default())))
                .collect();
            let mut all = propose(snapshot, own, scratch);
            for other in others {
                match other.join() {
                    Ok(decisions) => all.extend(decisions),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        })
    }
}

fn propose(snapshot: &Snapshot, work: &[Work], scratch: &mut Scratch) -> Vec<Decision> {
    work.iter().map(|work| schedule(snapshot, &work.class, work.seed, scratch)).collect()
}
