//! What a watch's deliveries must be like whatever was written: in order, whole, not before what was asked for, and none
//! after a bookmark that excluded it. What they contain is checked against the model, revision by revision.

use crate::record::{End, Event, History, Watch};
use crate::{Violation, WatchFault};
use std::collections::BTreeMap;

/// What one watcher was told of each revision that its deliveries cover.
pub struct Told<'a> {
    pub watch: &'a Watch,
    /// The covered revisions, ends included, per session.
    covered: Vec<(u64, u64)>,
    events: BTreeMap<u64, Vec<&'a Event>>,
}

impl Told<'_> {
    pub fn covers(&self, revision: u64) -> bool {
        self.covered.iter().any(|(from, to)| (*from..=*to).contains(&revision))
    }

    /// Whether it was told exactly this of `revision`, whose `events` are in key order.
    pub fn agrees(&self, revision: u64, events: &[Event]) -> bool {
        let expected = events.iter().filter(|event| self.watch.span.contains(&event.key));
        let mut found = self.events.get(&revision).cloned().unwrap_or_default();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        let same = |(found, expected): (&&Event, &Event)| {
            let prev = if self.watch.prev { found.prev == expected.prev } else { found.prev.is_none() };
            found.key == expected.key && found.now == expected.now && prev
        };
        expected.clone().count() == found.len() && found.iter().zip(expected).all(same)
    }
}

/// Checks the form of every watch and gathers what it was told.
pub fn gather(history: &History) -> Result<Vec<Told<'_>>, Violation> {
    history.watches.iter().enumerate().map(|(number, watch)| gather_one(history, number, watch)).collect()
}

fn gather_one<'a>(history: &History, number: usize, watch: &'a Watch) -> Result<Told<'a>, Violation> {
    let mut told = Told { watch, covered: Vec::new(), events: BTreeMap::new() };
    for session in &watch.sessions {
        // The last revision that the session has said everything of.
        let mut said = session.from.saturating_sub(1);
        let mut bookmark = 0;
        for batch in &session.batches {
            let mut last = 0;
            for event in &batch.events {
                let fault = |fault| Violation::Watch { watch: number, revision: event.revision, fault };
                if event.revision < session.from {
                    return Err(fault(WatchFault::Early));
                }
                if event.revision <= bookmark {
                    return Err(fault(WatchFault::Bookmark));
                }
                if event.revision <= said {
                    return Err(fault(if event.revision == said { WatchFault::Split } else { WatchFault::Order }));
                }
                if event.revision < last || event.revision > batch.revision {
                    return Err(fault(WatchFault::Order));
                }
                last = event.revision;
                told.events.entry(event.revision).or_default().push(event);
            }
            if batch.events.is_empty() {
                bookmark = bookmark.max(batch.revision);
            }
            said = said.max(batch.revision);
        }
        told.covered.push((session.from, said));
        if let End::Compacted { oldest } = session.end
            && (oldest <= session.from || oldest > history.compacted_to)
        {
            return Err(Violation::Forgotten { requested: session.from, oldest });
        }
    }
    Ok(told)
}
