//! What a running member does unasked, and says of itself.

use super::tests::{put, wait};
use super::*;
use crate::mvcc::Caps;
use tempfile::TempDir;

fn value(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(&format!("gantry_store_{name}{{")))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_much_goes_and_is_counted() {
    let dir = TempDir::new().unwrap();
    let caps = Some(Caps { slash: 2, each_bytes: 3_000, all_bytes: 1 << 20 });
    let group = Group::open(GroupConfig { caps, ..GroupConfig::single("events", dir.path()) }).await.unwrap();
    for i in 0..10 {
        group.txn(put(&format!("/loud/{i}"), &"x".repeat(500))).await.unwrap();
    }
    group.txn(put("/quiet/0", &"x".repeat(500))).await.unwrap();
    wait(|| group.handle.hub.view().live_bytes() < 4_000).await;
    let reply = group.range(RangeRequest::prefix("/")).await.unwrap();
    let keys: Vec<_> = reply.kvs.iter().map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect();
    assert_eq!(keys, ["/loud/5", "/loud/6", "/loud/7", "/loud/8", "/loud/9", "/quiet/0"]);
    wait(|| value(&group.metrics(), "dropped_keys_total") == Some(5.0)).await;
    // Eleven writes and five deletions, a revision each.
    assert_eq!((reply.revision, value(&group.metrics(), "revision")), (Revision(17), Some(17.0)));
    group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_follow_what_the_member_does() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    wait(|| group.cluster() != 0).await;
    let before = group.metrics();
    for i in 0..20 {
        group.txn(put(&format!("k{i}"), "12345678")).await.unwrap();
    }
    let after = group.metrics();
    let grew = |name: &str| value(&after, name).unwrap() - value(&before, name).unwrap();
    for name in
        ["proposals_total", "applied_total", "apply_duration_seconds_count", "fsync_duration_seconds_count", "revision"]
    {
        assert_eq!(grew(name), 20.0, "{name}");
    }
    assert!(grew("log_bytes") > 0.0);
    // Ten keys of two bytes, ten of three, and their values.
    assert_eq!((grew("keys"), grew("live_bytes")), (20.0, 10.0 * 10.0 + 10.0 * 11.0));
    for (name, expect) in
        [("is_leader", 1.0), ("has_leader", 1.0), ("leader_changes_total", 1.0), ("proposals_pending", 0.0)]
    {
        assert_eq!(value(&after, name), Some(expect), "{name}");
    }
    assert!(after.contains("gantry_store_alarm{group=\"state\",type=\"NOSPACE\"} 0"));
    group.snapshot().await.unwrap();
    wait(|| value(&group.metrics(), "snapshots_total") == Some(1.0)).await;
    assert!(value(&group.metrics(), "snapshot_bytes").unwrap() > 200.0);
    assert_eq!(value(&group.metrics(), "log_bytes"), Some(0.0));
    group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_that_a_client_asks_for_carries_the_leaders_hash() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    for i in 0..5 {
        group.txn(put(&format!("k{i}"), "v")).await.unwrap();
    }
    let newest = (group.applied_revision(), group.hash());
    group.compact(Revision(4)).await.unwrap();
    let (_, last) = group.handle.wal.ends();
    let last = last.unwrap().index;
    let entries = group.handle.wal.read(0..last + 1, usize::MAX).unwrap();
    let compactions: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.payload {
            openraft::EntryPayload::Normal(proposal) => Some(proposal.0.commands.clone()),
            _ => None,
        })
        .flatten()
        .filter(|command| matches!(command, Command::Compact(_)))
        .collect();
    assert_eq!(compactions, [Command::Compact(Compact { revision: Revision(4), check: Some(newest) })]);
    group.shutdown().await;
}
