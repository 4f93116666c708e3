//! The metrics of members, in Prometheus' text form. It decides names; what they say is read elsewhere.

use super::Handle;
use crate::counts::Histogram;
use crate::mvcc::{AlarmKind, Lag, lag};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Compaction that is further behind than this is told as an error: something keeps the leader from it.
pub const LAG_BOUND_MS: u64 = 5 * 60 * 1_000;

/// What one member measures, at one moment; for [`metrics_text`].
#[derive(Clone, Debug)]
pub struct Reading {
    group: String,
    /// Name without the prefix, help, kind, value.
    numbers: Vec<(&'static str, &'static str, &'static str, f64)>,
    histograms: Vec<(&'static str, &'static str, Histogram)>,
    /// By etcd's name.
    alarms: Vec<(&'static str, bool)>,
}

impl Handle {
    /// How far compaction is behind; only the leader knows what time it is in the store.
    pub fn compaction_lag(&self) -> Lag {
        let now_ms = self.leader_time();
        now_ms.map(|now_ms| self.hub.look(|state| lag(state, now_ms, &self.retention))).unwrap_or_default()
    }

    pub fn reading(&self) -> Reading {
        let (view, raft, counts) = (self.hub.view(), self.metrics(), &self.counts);
        let (snapshot_index, snapshot_bytes) = self.snapshots.current().unwrap_or_default();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let yes = |yes: bool| f64::from(u8::from(yes));
        let (lag, hub) = (self.compaction_lag(), self.hub.stats());
        let (in_memory, in_log) = view.superseded_values();
        let (c, g) = ("counter", "gauge");
        let numbers = vec![
            ("has_leader", "Whether the member knows a leader", g, yes(self.leader().is_some())),
            ("is_leader", "Whether the member leads", g, yes(self.is_leader())),
            ("leader_changes_total", "Leaders that the member has seen begin", c, count(&counts.leader_changes)),
            ("term", "Raft's term", g, raft.current_term as f64),
            ("log_index", "The newest log entry", g, raft.last_log_index.unwrap_or(0) as f64),
            (
                "applied_index",
                "The newest log entry that was applied",
                g,
                raft.last_applied.map_or(0, |id| id.index) as f64,
            ),
            ("proposals_total", "Entries that the member proposed or passed on", c, count(&counts.proposed)),
            ("proposals_pending", "Those that nobody has answered yet", g, count(&counts.pending)),
            ("proposals_failed_total", "Those that failed or whose fate is not known", c, count(&counts.failed)),
            ("applied_total", "Entries that the member has applied since it started", c, count(&counts.applied)),
            ("revision", "The newest revision", g, view.revision().0 as f64),
            ("compacted_revision", "The oldest readable revision", g, view.oldest().0 as f64),
            (
                "compaction_lag_revisions",
                "Revisions that should have gone; known to the leader",
                g,
                lag.revisions as f64,
            ),
            ("compaction_lag_seconds", "Since the oldest of them should have gone", g, lag.ms as f64 / 1e3),
            ("keys", "Live keys", g, view.keys() as f64),
            ("leases", "Leases", g, view.leases().len() as f64),
            ("live_bytes", "Live keys and values", g, view.live_bytes() as f64),
            ("history_bytes", "What only history holds", g, view.superseded_bytes() as f64),
            ("history_memory_bytes", "Superseded values in memory", g, in_memory as f64),
            ("history_log_bytes", "Superseded values that are only in the log", g, in_log as f64),
            (
                "put_away_total",
                "Superseded values that went from memory to the log since the start",
                c,
                count(&counts.put_away),
            ),
            ("log_kept_bytes", "The log that only superseded values are kept for", g, self.wal.kept_bytes() as f64),
            ("quota_bytes", "What live keys and history together may have; 0 is no limit", g, self.quota_bytes as f64),
            ("log_bytes", "The log that a restart would apply again", g, self.wal.bytes_after(snapshot_index) as f64),
            ("snapshot_bytes", "The newest snapshot", g, snapshot_bytes as f64),
            ("snapshots_total", "Snapshots written since the start", c, count(&counts.snapshots)),
            (
                "dropped_keys_total",
                "Keys deleted because a namespace or the group had too many",
                c,
                count(&counts.dropped),
            ),
            ("watches", "Watches that the member serves", g, hub.watches as f64),
            ("watch_streams", "Streams that carry them", g, hub.streams as f64),
            ("watch_lag_revisions", "Revisions that the slowest stream is behind", g, hub.behind as f64),
            ("disk_full", "Whether the log waits for space", g, yes(self.wal.is_full())),
        ];
        let histograms = vec![
            ("fsync_duration_seconds", "One fdatasync of the log", counts.fsync.read()),
            ("apply_duration_seconds", "Applying and publishing a batch of entries", counts.apply.read()),
        ];
        let alarms = [AlarmKind::NoSpace, AlarmKind::Corrupt].map(|kind| (kind.name(), view.alarmed(kind))).to_vec();
        Reading { group: self.group.to_string(), numbers, histograms, alarms }
    }
}

/// The metrics of members of different groups: each metric once, with a line for each group.
pub fn metrics_text(readings: &[Reading]) -> String {
    let mut out = String::new();
    write(&mut out, readings).expect("a string takes everything");
    out
}

fn write(out: &mut String, readings: &[Reading]) -> std::fmt::Result {
    // All of them measure the same.
    let Some(Reading { numbers, histograms, .. }) = readings.first() else { return Ok(()) };
    let head = |out: &mut String, name: &str, help: &str, kind: &str| {
        writeln!(out, "# HELP gantry_store_{name} {help}.")?;
        writeln!(out, "# TYPE gantry_store_{name} {kind}")
    };
    for (at, (name, help, kind, _)) in numbers.iter().enumerate() {
        head(out, name, help, kind)?;
        for Reading { group, numbers, .. } in readings {
            writeln!(out, "gantry_store_{name}{{group=\"{group}\"}} {}", numbers[at].3)?;
        }
    }
    head(out, "alarm", "Whether an alarm of this kind stands", "gauge")?;
    for Reading { group, alarms, .. } in readings {
        for (kind, stands) in alarms {
            writeln!(out, "gantry_store_alarm{{group=\"{group}\",type=\"{kind}\"}} {}", u8::from(*stands))?;
        }
    }
    for (at, (name, help, _)) in histograms.iter().enumerate() {
        head(out, name, help, "histogram")?;
        for Reading { group, histograms, .. } in readings {
            write_histogram(out, name, group, &histograms[at].2)?;
        }
    }
    Ok(())
}

fn write_histogram(out: &mut String, name: &str, group: &str, histogram: &Histogram) -> std::fmt::Result {
    for (bound, count) in &histogram.buckets {
        let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
        writeln!(out, "gantry_store_{name}_bucket{{group=\"{group}\",le=\"{bound}\"}} {count}")?;
    }
    writeln!(out, "gantry_store_{name}_sum{{group=\"{group}\"}} {}", histogram.sum_s)?;
    let count = histogram.buckets.last().map_or(0, |(_, count)| *count);
    writeln!(out, "gantry_store_{name}_count{{group=\"{group}\"}} {count}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prometheus_reads() {
        let reading = Reading {
            group: "state".into(),
            numbers: vec![("keys", "Live keys", "gauge", 3.0)],
            histograms: vec![(
                "fsync_duration_seconds",
                "F",
                Histogram { buckets: vec![(0.5, 1), (f64::INFINITY, 4)], sum_s: 2.25 },
            )],
            alarms: vec![("NOSPACE", true)],
        };
        let expect = "# HELP gantry_store_keys Live keys.\n# TYPE gantry_store_keys gauge\n\
            gantry_store_keys{group=\"state\"} 3\n\
            # HELP gantry_store_alarm Whether an alarm of this kind stands.\n# TYPE gantry_store_alarm gauge\n\
            gantry_store_alarm{group=\"state\",type=\"NOSPACE\"} 1\n\
            # HELP gantry_store_fsync_duration_seconds F.\n# TYPE gantry_store_fsync_duration_seconds histogram\n\
            gantry_store_fsync_duration_seconds_bucket{group=\"state\",le=\"0.5\"} 1\n\
            gantry_store_fsync_duration_seconds_bucket{group=\"state\",le=\"+Inf\"} 4\n\
            gantry_store_fsync_duration_seconds_sum{group=\"state\"} 2.25\n\
            gantry_store_fsync_duration_seconds_count{group=\"state\"} 4\n";
        assert_eq!(metrics_text(std::slice::from_ref(&reading)), expect);

        let mut other = reading.clone();
        (other.group, other.numbers[0].3) = ("leases".into(), 5.0);
        let both = metrics_text(&[reading, other]);
        assert!(both.contains("keys{group=\"state\"} 3\ngantry_store_keys{group=\"leases\"} 5\n# HELP"), "{both}");
        assert_eq!(both.matches("# TYPE").count(), expect.matches("# TYPE").count(), "{both}");
        assert_eq!(both.matches("group=").count(), 2 * expect.matches("group=").count(), "{both}");
        assert_eq!(metrics_text(&[]), "");
    }
}
