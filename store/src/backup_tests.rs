//! What was saved comes back in another group, and nobody who watched the old one takes the new one for it.

use super::*;
use crate::api::{LeaseId, Op, RangeRequest, Store, StoreError, Txn, WatchRequest};
use crate::etcd::RemoteStore;
use crate::group::{Group, GroupConfig};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);
const BUMP: u64 = 1_000_000_000;

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn open(dir: &Path, member: u64, members: &BTreeMap<u64, String>, listener: TcpListener) -> Group {
    let members = members.clone();
    let config = GroupConfig { member, members, listener: Some(listener), ..GroupConfig::single("state", dir) };
    Group::open(config).await.unwrap()
}

async fn write(store: &dyn Store, n: usize) {
    for i in 0..n {
        let key = format!("k{:03}", i % 50);
        store.txn(Txn { success: vec![Op::put(key, vec![i as u8; 900])], ..Txn::default() }).await.unwrap();
    }
}

fn everything() -> RangeRequest {
    RangeRequest { whole: true, ..RangeRequest::prefix("") }
}

/// Waits until the group has a number.
async fn founded(group: &Group) -> u64 {
    let named = async {
        loop {
            match group.cluster() {
                0 => tokio::time::sleep(Duration::from_millis(5)).await,
                cluster => return cluster,
            }
        }
    };
    tokio::time::timeout(DEADLINE, named).await.expect("the group is founded")
}

/// It has what `before` saw, at a later revision.
async fn goes_on_from(group: &Group, before: &crate::api::RangeReply) {
    let after = group.range(everything()).await.unwrap();
    assert_eq!(after.kvs, before.kvs);
    assert_eq!(after.revision.0, before.revision.0 + BUMP);
    // Whoever watched the old group learns that there is nothing to go on from.
    for from in [2, before.revision.0, before.revision.0 + 1, before.revision.0 + BUMP - 1] {
        let request = WatchRequest { start: "k".into(), end: "l".into(), from: Revision(from), prev_kv: false };
        let error = match group.watch(request).await {
            Err(error) => error,
            Ok(mut watch) => watch.next().await.unwrap().unwrap_err(),
        };
        assert!(matches!(error, StoreError::Compacted { .. }), "{from}: {error:?}");
    }
}

fn refuses_what_is_wrong(order: &impl Fn(u64) -> Restore, taken: &Path, revision: u64) {
    assert!(matches!(restore(&Restore { dir: taken.into(), ..order(1) }), Err(BackupError::NotEmpty { .. })));
    assert!(matches!(restore(&Restore { group: "leases".into(), ..order(1) }), Err(BackupError::Group { .. })));
    assert!(matches!(restore(&Restore { member: 4, ..order(1) }), Err(BackupError::Members(_))));
    for bump in [u64::MAX, i64::MAX.cast_unsigned(), (1 << 62) - revision] {
        let refused = restore(&Restore { bump, ..order(1) });
        assert!(matches!(refused, Err(BackupError::Bump { .. })), "{bump}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_snapshot_begins_a_new_group_of_three() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    let (listener, address) = listen();
    let old = open(&path("old"), 1, &BTreeMap::from([(1, address.clone())]), listener).await;
    let cluster = founded(&old).await;
    write(&old, 400).await;
    let put = crate::api::Put { key: "leased".into(), value: "v".into(), lease: LeaseId(5), ..Default::default() };
    old.command(crate::mvcc::Command::Grant { id: LeaseId(5), ttl_s: 1_000 }).await.unwrap();
    old.txn(Txn { success: vec![Op::Put(put)], ..Txn::default() }).await.unwrap();
    let before = old.range(everything()).await.unwrap();

    let file = path("saved");
    let mut seen = Vec::new();
    let saved = save(&address, None, &file, |done, all| seen.push((done, all))).await.unwrap();
    assert_eq!(seen.last(), Some(&(saved.bytes, saved.bytes)));
    assert!(seen.iter().all(|(_, all)| *all == saved.bytes), "how much there is is known from the start");
    assert_eq!((saved.revision, saved.keys, saved.leases), (before.revision, 51, 1));
    assert_eq!((saved.group.as_deref(), saved.cluster, saved.hash), (Some("state"), Some(cluster), old.hash()));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!path("saved.part").exists());
    assert_eq!(inspect(&file).unwrap(), saved);

    let (places, members): (Vec<_>, BTreeMap<_, _>) =
        (1..=3u64).map(|_| listen()).enumerate().map(|(i, (l, a))| (l, (i as u64 + 1, a))).unzip();
    let order = |member: u64| Restore {
        from: file.clone(),
        dir: path(&format!("new{member}")),
        group: "state".into(),
        member,
        members: members.clone(),
        bump: BUMP,
    };
    refuses_what_is_wrong(&order, &path("old"), before.revision.0);
    assert!(!path("new1").exists(), "what is refused makes nothing");
    let mut groups = Vec::new();
    for (member, listener) in (1..).zip(places) {
        let restored = restore(&order(member)).unwrap();
        assert_eq!(restored.revision.0, before.revision.0 + BUMP);
        assert_eq!(std::fs::metadata(path(&format!("new{member}"))).unwrap().permissions().mode() & 0o777, 0o700);
        groups.push(open(&path(&format!("new{member}")), member, &members, listener).await);
    }
    for group in &groups {
        group.ready(DEADLINE).await.unwrap();
        // Its first leader settles the number.
        assert_eq!(founded(group).await, founded(&groups[0]).await);
        assert_ne!(group.cluster(), cluster);
        goes_on_from(group, &before).await;
    }
    let addresses: Vec<_> = members.values().cloned().collect();
    let remote = RemoteStore::new(&addresses, None).unwrap();
    write(&remote, 5).await;
    assert_eq!(remote.read_revision().await.unwrap().0, before.revision.0 + BUMP + 5);
    // The same words make another group, and a member of the one before is none of it.
    let (listener, address) = listen();
    let moved: BTreeMap<_, _> =
        members.iter().map(|(id, at)| (*id, if *id == 1 { &address } else { at }.clone())).collect();
    let again = Restore { dir: path("again1"), ..order(1) };
    restore(&again).unwrap();
    let again = open(&path("again1"), 1, &moved, listener).await;
    let refused = tokio::time::timeout(DEADLINE, again.refused()).await.expect("it is refused in time").to_string();
    assert!(refused.contains("member 1 has already taken part with another directory"), "{refused}");
    again.shutdown().await;
    // The lease came along, with its key.
    groups[1].command(crate::mvcc::Command::Revoke { id: LeaseId(5) }).await.unwrap();
    assert_eq!(remote.range(RangeRequest::key("leased")).await.unwrap().count, 0);
    for group in groups.into_iter().chain([old]) {
        group.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_members_directory_is_saved_and_damage_is_seen() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    let single = |name: &str| GroupConfig::single("events", path(name));
    let group = Group::open(single("old")).await.unwrap();
    founded(&group).await;
    write(&group, 60).await;
    group.snapshot().await.unwrap();
    write(&group, 30).await;
    let (hash, before) = (group.hash(), group.range(everything()).await.unwrap());
    let file = path("saved");
    assert!(matches!(save_stopped(&path("old"), &file), Err(BackupError::Log(OpenError::InUse { .. }))));
    group.shutdown().await;
    drop(group);
    assert!(save_stopped(&path("none"), &file).is_err() && !path("none").exists());
    let saved = save_stopped(&path("old"), &file).unwrap();
    assert_eq!((saved.hash, saved.revision, saved.group.as_deref()), (hash, before.revision, Some("events")));

    let good = std::fs::read(&file).unwrap();
    for at in [20, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(path("bad"), &bad).unwrap();
        assert!(matches!(inspect(&path("bad")), Err(BackupError::Hash { .. })), "byte {at}");
    }
    std::fs::write(path("bad"), &good[..good.len() - 5]).unwrap();
    assert!(matches!(inspect(&path("bad")), Err(BackupError::Length { .. })));

    let order = Restore {
        from: file,
        dir: path("new"),
        group: "events".into(),
        member: 1,
        members: BTreeMap::from([(1, String::new())]),
        bump: 0,
    };
    restore(&order).unwrap();
    let twice: Vec<_> = ["twice", "new"].map(path).into_iter().collect();
    restore(&Restore { dir: twice[0].clone(), ..order.clone() }).unwrap();
    let mut numbers = Vec::new();
    for dir in &twice {
        let group = Group::open(GroupConfig::single("events", dir)).await.unwrap();
        numbers.push(founded(&group).await);
        group.shutdown().await;
    }
    assert!(numbers[0] != numbers[1] && !numbers.contains(&saved.cluster.unwrap()), "{numbers:x?}");
    let group = Group::open(single("new")).await.unwrap();
    let after = group.range(everything()).await.unwrap();
    assert_eq!((after.kvs, after.revision.0), (before.kvs, before.revision.0 + 1));
    write(&group, 1).await;
    let hash = group.hash();
    group.shutdown().await;
    drop(group);
    // It is a group like any other: it starts again.
    let group = Group::open(single("new")).await.unwrap();
    assert_eq!(group.hash(), hash);
    group.shutdown().await;
}
