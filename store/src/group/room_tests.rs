//! Disks that fill up and get space again under running members.

use super::tests::{Cluster, put, wait};
use super::*;
use crate::etcd::RemoteStore;
use crate::wal::Space;
use std::sync::atomic::Ordering;
use tempfile::TempDir;

fn large(key: usize) -> Txn {
    put(&format!("large/{key:03}"), &"x".repeat(1 << 20))
}

/// Writes until a write is refused because the disk is full; answers how many were tried before. Only a write that is under
/// way while the lead is handed on may have another end: nobody knows what becomes of it.
async fn fill(store: &dyn Store, from: usize, several: bool) -> usize {
    for key in from..from + 100 {
        match store.txn(large(key)).await {
            Ok(_) => {}
            Err(StoreError::DiskFull { member }) => {
                assert!(member > 0);
                return key;
            }
            Err(StoreError::Unknown(_)) if several => return key + 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the disk is never full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_keeps_reads_and_recovers() {
    let dir = TempDir::new().unwrap();
    let space = Space::default();
    let config = || GroupConfig { space: space.clone(), ..GroupConfig::single("state", dir.path()) };
    let group = Group::open(config()).await.unwrap();
    space.used_up.store(true, Ordering::SeqCst);
    let taken = fill(&group, 0, false).await;
    let count = RangeRequest { count_only: true, ..RangeRequest::prefix("large/") };
    assert_eq!(group.range(count.clone()).await.unwrap().count, taken, "what was refused was not done");
    assert!(matches!(group.txn(put("a", "1")).await, Err(StoreError::DiskFull { member: 1 })));
    space.used_up.store(false, Ordering::SeqCst);
    wait(|| !group.handle.is_full()).await;
    group.txn(large(taken)).await.unwrap();
    assert_eq!(group.range(count.clone()).await.unwrap().count, taken + 1);

    // A member whose disk is full can stop, and start again.
    space.used_up.store(true, Ordering::SeqCst);
    let taken = fill(&group, taken + 1, false).await;
    let hash = group.hash();
    group.shutdown().await;
    drop(group);
    let group = Group::open(config()).await.unwrap();
    assert_eq!((group.hash(), group.range(count).await.unwrap().count), (hash, taken));
    group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_is_full_steps_aside_and_catches_up_later() {
    let cluster = Cluster::start(None).await;
    wait(|| cluster.leader().is_some()).await;
    let full = cluster.leader().unwrap();
    let other = (full + 1) % 3;
    cluster.spaces[full].used_up.store(true, Ordering::SeqCst);
    let taken = fill(cluster.group(full), 0, true).await;
    wait(|| cluster.leader().is_some_and(|leader| leader != full)).await;
    // The others go on, and whoever asks the member that is full is sent to them.
    let members: Vec<_> = (0..3).map(|i| cluster.members[&((full + i) as u64 % 3 + 1)].clone()).collect();
    let remote = RemoteStore::new(&members, None).unwrap();
    for key in taken..taken + 5 {
        remote.txn(large(key)).await.unwrap();
    }
    let refused = cluster.group(full).txn(large(0)).await;
    assert!(matches!(refused, Err(StoreError::DiskFull { member }) if member == full as u64 + 1), "{refused:?}");
    assert!(cluster.group(full).applied_revision() < cluster.group(other).applied_revision());
    cluster.spaces[full].used_up.store(false, Ordering::SeqCst);
    let revision = cluster.group(other).applied_revision();
    wait(|| cluster.running().all(|group| group.applied_revision() == revision)).await;
    let hashes: Vec<_> = cluster.running().map(Group::hash).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:x?}");
    cluster.stop_all().await;
}
