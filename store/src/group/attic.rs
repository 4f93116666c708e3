//! Puts superseded values away: what is not warm any more is looked for in the log, compared with what is in memory, and from
//! then on only its place is kept. Each member does it for itself, and nothing that anyone is told changes by it.
//!
//! It decides when, and which log segments stay for it. Which values are due is `mvcc`'s decision, how a place becomes a value
//! again the archive's.

use super::Handle;
use crate::hub::Traced;
use crate::mvcc::{Mvcc, Place, Superseded, Swap, Warm, Window};
use crate::offload::offload;
use crate::plant::{Plant, planted};
use crate::wal::Wal;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What is kept in memory, and how far back the log is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attic {
    pub warm: Warm,
    /// A value that is more segments before the newest stays in memory: its segment would keep all those after it.
    pub farthest: u64,
    pub every: Duration,
}

impl Default for Attic {
    fn default() -> Self {
        let warm = Warm { bytes: 16 << 20, least: 256 };
        Self { warm, farthest: 16, every: Duration::from_millis(250) }
    }
}

/// Values that are looked for at once.
const FIND_MOST: usize = 1_024;
/// Values that change their place while writes wait.
const SWAP_MOST: usize = 128;

/// Which segments are referred to, and up to which superseding revision.
#[derive(Debug, Default)]
struct Held(BTreeMap<u64, u64>);

impl Held {
    fn add(&mut self, segment: u64, until: u64) {
        let newest = self.0.entry(segment).or_default();
        *newest = until.max(*newest);
    }

    /// The first segment that is still needed when nothing before `oldest` is remembered.
    fn first(&mut self, oldest: u64) -> Option<u64> {
        self.0.retain(|_, until| *until >= oldest);
        self.0.first_key_value().map(|(segment, _)| *segment)
    }
}

pub async fn run(handle: Handle, attic: Attic, cancel: CancellationToken) {
    let mut timer = tokio::time::interval(attic.every);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut window, mut held) = (Window::default(), Held::default());
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            _ = timer.tick() => {}
        }
        while put_away(&handle, &attic, &mut window, &mut held).await && !cancel.is_cancelled() {
            tokio::task::yield_now().await;
        }
        // Read first: what is compacted since is let go of the next time.
        let oldest = handle.hub.look(Mvcc::oldest);
        handle.wal.keep_from(held.first(oldest.0));
        handle.hub.forget_origins(handle.wal.first_known());
    }
}

/// One round; whether there may be more to do.
async fn put_away(handle: &Handle, attic: &Attic, window: &mut Window, held: &mut Held) -> bool {
    let (mut traced, more) = handle.hub.due(window, &attic.warm, FIND_MOST);
    if traced.is_empty() {
        return more;
    }
    // Those that were written together lie together, in the log and in the history.
    traced.sort_unstable_by_key(|traced| traced.index);
    let (wal, farthest) = (handle.wal.clone(), attic.farthest);
    let Ok(swaps) = offload(move || find(&wal, traced, farthest)).await else { return false };
    for some in swaps.chunks(SWAP_MOST) {
        for swap in some {
            if let Some(place) = swap.new.away() {
                held.add(place.segment, swap.old.until);
            }
        }
        handle.hub.put_away(some);
        tokio::task::yield_now().await;
    }
    handle.counts.put_away.fetch_add(swaps.len() as u64, Ordering::Relaxed);
    more
}

/// Finds values in the log. What is not there, or cannot be read, stays in memory. Blocks.
fn find(wal: &Wal, traced: Vec<Traced>, farthest: u64) -> Vec<Swap> {
    let mut swaps = Vec::with_capacity(traced.len());
    for Traced { what, index, at } in traced {
        let Some(written) = wal.refer(index, farthest) else { continue };
        let placed = if planted(Plant::NextEntry) {
            wal.refer(index + 1, farthest)
                .map(|next| next.place_of_anything(at, what.version.value().len()))
                .transpose()
        } else {
            written.place(at, what.version.value())
        };
        match placed {
            Ok(Some(place)) => swaps.push(swap(what, place)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "superseded values stay in memory: the log cannot be read");
                break;
            }
        }
    }
    swaps
}

fn swap(old: Superseded, place: Place) -> Swap {
    let new = old.version.put_away(place);
    Swap { old, new }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_needed_until_the_last_that_refers_to_it_is_forgotten() {
        let mut held = Held::default();
        assert_eq!(held.first(1), None);
        for (segment, until) in [(3, 10), (2, 12), (3, 20), (2, 11), (7, 15)] {
            held.add(segment, until);
        }
        let first: Vec<_> = [12, 13, 16, 20, 21].map(|oldest| held.first(oldest)).into();
        assert_eq!(first, [Some(2), Some(3), Some(3), Some(3), None]);
    }
}
