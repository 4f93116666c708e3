//! Openraft's log storage over the write-ahead log. A thin adapter: it decides nothing.

use super::types::{LogId, RaftEntry, TypeConfig, Vote};
use crate::wal::Wal;
use futures::{Stream, StreamExt, stream};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};

/// The bytes of entries in one message to a follower, about.
const MESSAGE_BYTES: usize = 1 << 20;
/// The bytes of entries that are read at once for applying.
const CHUNK_BYTES: usize = 4 << 20;

#[derive(Clone)]
pub struct Log {
    wal: Wal,
}

impl Log {
    pub fn new(wal: Wal) -> Self {
        Self { wal }
    }
}

fn bounds(range: impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<RaftEntry>> {
        self.wal.read(bounds(range), usize::MAX)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.wal.vote())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<RaftEntry>> {
        self.wal.read(start..end, MESSAGE_BYTES)
    }

    /// Reads in chunks, so that a long log is applied after a restart without being in memory as a whole.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = io::Result<RaftEntry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let wal = self.wal.clone();
        let chunks = stream::unfold(bounds(range), move |rest| {
            let wal = wal.clone();
            async move {
                if rest.is_empty() {
                    return None;
                }
                let end = rest.end;
                let missing = || io::Error::other(format!("the log has no entry {}", rest.start));
                let read = wal.read(rest.clone(), CHUNK_BYTES).and_then(|entries| {
                    let next = entries.last().ok_or_else(missing)?.log_id.index + 1;
                    Ok((entries, next))
                });
                Some(match read {
                    Ok((entries, next)) => (entries.into_iter().map(Ok).collect::<Vec<_>>(), next..end),
                    Err(error) => (vec![Err(error)], end..end),
                })
            }
        });
        Box::pin(chunks.flat_map(stream::iter))
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let (last_purged_log_id, last_log_id) = self.wal.ends();
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.wal.save_vote(*vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.wal.save_committed(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        // It can be ahead of a log whose end was cut off.
        let (_, last) = self.wal.ends();
        Ok(self.wal.committed().min(last))
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.wal.append(entries.into_iter().collect(), flushed);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.wal.truncate_after(last).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.wal.purge(upto).await
    }
}
