//! How many of a job's pods got a machine lately. Decides nothing: it counts, over a window that slides in small steps.

/// How far back it looks.
pub const WINDOW_MS: u64 = 2_000;
const SLOT_MS: u64 = 100;
const SLOTS: usize = (WINDOW_MS / SLOT_MS) as usize;

/// The binds of the last two seconds, the slot that the present lies in included: never more than those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binds {
    slots: [u32; SLOTS],
    /// The number of the newest slot since boot.
    newest: u64,
}

impl Binds {
    /// One more pod was placed. Time never goes back; a call from the past counts as now.
    pub fn seen(&mut self, boot_ms: u64) {
        let slot = (boot_ms / SLOT_MS).max(self.newest);
        for stale in (self.newest + 1..=slot).take(SLOTS) {
            self.slots[place(stale)] = 0;
        }
        // A gap that is longer than the window leaves nothing.
        if slot - self.newest > SLOTS as u64 {
            self.slots = [0; SLOTS];
        }
        self.newest = slot;
        self.slots[place(slot)] += 1;
    }

    pub fn recent(&self, boot_ms: u64) -> usize {
        let slot = (boot_ms / SLOT_MS).max(self.newest);
        let oldest = (slot + 1).saturating_sub(SLOTS as u64);
        (oldest..=self.newest).map(|slot| self.slots[place(slot)] as usize).sum()
    }
}

fn place(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every bind of the last 1.9 s counts and none that is older than 2 s.
        #[test]
        fn counts_the_window(steps in prop::collection::vec((0..700_u64, 0..4_usize), 0..60), later in 0..3_000_u64) {
            let (mut binds, mut at, mut all) = (Binds::default(), 5_000_u64, Vec::new());
            for (pause_ms, count) in steps {
                at += pause_ms;
                for _ in 0..count {
                    binds.seen(at);
                    all.push(at);
                }
                let within = |window_ms: u64| all.iter().filter(|seen| at - **seen < window_ms).count();
                prop_assert!(binds.recent(at) <= within(WINDOW_MS));
                prop_assert!(binds.recent(at) >= within(WINDOW_MS - SLOT_MS));
            }
            at += later;
            let within = |window_ms: u64| all.iter().filter(|seen| at - **seen < window_ms).count();
            prop_assert!(binds.recent(at) <= within(WINDOW_MS) && binds.recent(at) >= within(WINDOW_MS - SLOT_MS));
        }
    }
}
