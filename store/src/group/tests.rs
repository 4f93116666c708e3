//! Members: restarts, elections and what survives them.

use super::*;
use crate::api::{Compare, EventKind, Op};
use crate::etcd::RemoteStore;
use bytes::Bytes;
use std::net::TcpListener;
use tempfile::TempDir;

pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn put(key: &str, value: &str) -> Txn {
    let op = Op::put(key.to_owned(), value.to_owned());
    Txn { success: vec![op], ..Txn::default() }
}

pub async fn keys(store: &dyn Store) -> Vec<(String, String)> {
    let reply = store.range(RangeRequest::prefix("")).await.unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    reply.kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
}

fn expected(n: usize) -> Vec<(String, String)> {
    (0..n).map(|i| (format!("k{i:03}"), format!("v{i}"))).collect()
}

pub async fn write(store: &dyn Store, range: std::ops::Range<usize>) {
    for i in range {
        store.txn(put(&format!("k{i:03}"), &format!("v{i}"))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_member_recovers_from_its_log_and_from_a_snapshot() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    write(&group, 0..20).await;
    let (revision, hash) = (group.applied_revision(), group.hash());
    assert_eq!(revision, Revision(21));
    group.shutdown().await;

    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    assert_eq!((group.applied_revision(), group.hash()), (revision, hash));
    group.snapshot().await.unwrap();
    wait(|| group.handle.snapshots.current().is_some()).await;
    write(&group, 20..30).await;
    let (revision, hash) = (group.applied_revision(), group.hash());
    group.shutdown().await;

    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    assert_eq!((group.applied_revision(), group.hash()), (revision, hash));
    assert_eq!(keys(&group).await, expected(30));
    // History survives, too: a watch goes on from where it was.
    let request = WatchRequest { start: "k".into(), end: "l".into(), from: Revision(15), prev_kv: false };
    let first = group.watch(request).await.unwrap().next().await.unwrap().unwrap();
    assert_eq!(first.events.first().map(|e| (e.kind, e.kv.mod_revision)), Some((EventKind::Put, Revision(15))));
    group.shutdown().await;
}

/// Polls until `condition` holds; the deadline is far beyond what it takes.
pub async fn wait(mut condition: impl FnMut() -> bool) {
    let polled = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, polled).await.expect("the condition holds in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_is_kept_out_and_bad_requests_never_reach_the_log() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    let second = Group::open(GroupConfig::single("state", dir.path())).await;
    assert!(matches!(second.err(), Some(GroupError::Log(OpenError::InUse { .. }))));
    let large = Txn { success: vec![Op::put("k", vec![0; 2 << 20])], ..Txn::default() };
    assert!(matches!(group.txn(large.clone()).await, Err(StoreError::TooLarge { .. })));
    let replies = group.txn_batch(vec![large, put("a", "1")]).await.unwrap();
    assert!(matches!(replies[..], [Err(StoreError::TooLarge { .. }), Ok(TxnReply { revision: Revision(2), .. })]));
    group.shutdown().await;
    assert!(matches!(group.txn(put("b", "2")).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_conditional_writes_have_one_winner() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(GroupConfig::single("state", dir.path())).await.unwrap();
    let tasks = (0..64).map(|i| {
        let group = group.clone();
        tokio::spawn(async move {
            let txn = Txn { compare: vec![Compare::absent("k")], ..put("k", &i.to_string()) };
            group.txn(txn).await.unwrap().succeeded
        })
    });
    let won: usize = futures::future::join_all(tasks).await.into_iter().map(|won| usize::from(won.unwrap())).sum();
    assert_eq!((won, group.applied_revision()), (1, Revision(2)));
    group.shutdown().await;
}

/// Three members in one process, on ports that the kernel picked.
pub struct Cluster {
    dirs: Vec<TempDir>,
    pub members: BTreeMap<u64, String>,
    pub groups: Vec<Option<Group>>,
    pub spaces: [crate::wal::Space; 3],
    tls: Option<StoreTls>,
}

impl Cluster {
    pub async fn start(tls: Option<StoreTls>) -> Self {
        let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |(i, l): (usize, &TcpListener)| (i as u64 + 1, l.local_addr().unwrap().to_string());
        let members = listeners.iter().enumerate().map(address).collect();
        let dirs = (0..3).map(|_| TempDir::new().unwrap()).collect();
        let mut cluster = Self { dirs, members, groups: vec![None, None, None], spaces: Default::default(), tls };
        for (i, listener) in listeners.into_iter().enumerate() {
            cluster.open(i, listener).await;
        }
        for group in cluster.running() {
            group.ready(DEADLINE).await.unwrap();
        }
        cluster
    }

    async fn open(&mut self, i: usize, listener: TcpListener) {
        let config = GroupConfig {
            member: i as u64 + 1,
            members: self.members.clone(),
            listener: Some(listener),
            tls: self.tls.clone(),
            space: self.spaces[i].clone(),
            log_keep: 5,
            ..GroupConfig::single("state", self.dirs[i].path())
        };
        self.groups[i] = Some(Group::open(config).await.unwrap());
    }

    pub fn running(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten()
    }

    pub fn leader(&self) -> Option<usize> {
        self.groups.iter().position(|group| group.as_ref().is_some_and(Group::is_leader))
    }

    pub fn group(&self, i: usize) -> &Group {
        self.groups[i].as_ref().unwrap()
    }

    pub async fn stop(&mut self, i: usize) {
        self.groups[i].take().unwrap().shutdown().await;
    }

    pub async fn stop_all(mut self) {
        for i in 0..3 {
            if self.groups[i].is_some() {
                self.stop(i).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_loses_nothing_and_comes_back() {
    let mut cluster = Cluster::start(None).await;
    wait(|| cluster.leader().is_some()).await;
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    let watching = WatchRequest { start: "k".into(), end: "l".into(), from: Revision(2), prev_kv: false };
    let mut watch = cluster.group(follower).watch(watching).await.unwrap();
    write(cluster.group(follower), 0..10).await;
    assert_eq!(keys(cluster.group((leader + 2) % 3)).await, expected(10), "a read on the third member sees them");
    let address = cluster.members[&(leader as u64 + 1)].clone();
    cluster.stop(leader).await;

    // A write that meets the election either waits for it or is certainly not done; none here is sent to a dead leader.
    for i in 10..20 {
        let done = async {
            while let Err(error) = cluster.group(follower).txn(put(&format!("k{i:03}"), &format!("v{i}"))).await {
                assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Unknown(_)), "{error:?}");
            }
        };
        tokio::time::timeout(DEADLINE, done).await.expect("the others elect a leader");
    }
    assert_eq!(keys(cluster.group(follower)).await, expected(20));

    cluster.open(leader, TcpListener::bind(address).unwrap()).await;
    assert_eq!(keys(cluster.group(leader)).await, expected(20), "the old leader catches up");
    let revision = cluster.group(follower).applied_revision();
    wait(|| cluster.running().all(|group| group.applied_revision() == revision)).await;
    let hashes: Vec<_> = cluster.running().map(Group::hash).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:x?}");

    let mut seen = Vec::new();
    while seen.last().is_none_or(|(_, last)| *last < revision) {
        let batch = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap().unwrap();
        seen.extend(batch.events.into_iter().map(|event| (event.kv.key, event.kv.mod_revision)));
    }
    let revisions: Vec<_> = seen.iter().map(|(_, revision)| revision.0).collect();
    assert_eq!(revisions, (2..=revision.0).collect::<Vec<_>>(), "the follower's watch lost and doubled nothing");
    cluster.stop_all().await;
}

/// What became of writes, by key.
#[derive(Default)]
struct Fates {
    done: std::sync::atomic::AtomicUsize,
    /// Keys whose write is not known to be done, and whether it may be.
    open: parking_lot::Mutex<BTreeMap<String, bool>>,
}

/// Writes one key after the other until it is told to stop.
async fn keep_writing(store: Group, writer: usize, fates: Arc<Fates>, stop: CancellationToken) {
    for n in 0.. {
        let key = format!("{writer}/{n}");
        match store.txn(put(&key, "v")).await {
            Ok(_) => drop(fates.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
            Err(StoreError::Unknown(_)) => drop(fates.open.lock().insert(key, true)),
            Err(StoreError::Unavailable(_)) => drop(fates.open.lock().insert(key, false)),
            Err(error) => panic!("{error:?}"),
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followers_writes_are_done_once_while_the_lead_moves() {
    let cluster = Cluster::start(None).await;
    let (fates, stop) = (Arc::<Fates>::default(), CancellationToken::new());
    let write = |writer| tokio::spawn(keep_writing(cluster.group(0).clone(), writer, fates.clone(), stop.clone()));
    let writers: Vec<_> = (0..8).map(write).collect();
    let done = || fates.done.load(std::sync::atomic::Ordering::Relaxed);
    // The first member's writes go to the two others in turn, and for a while to itself.
    for to in [2, 3, 2, 1, 3] {
        let moved = || async {
            match cluster.leader() {
                Some(leader) => cluster.group(leader).handle.move_leader(to).await.is_ok(),
                None => false,
            }
        };
        let moved = async {
            while !moved().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, moved).await.expect("the lead moves in time");
        let before = done();
        wait(|| done() >= before + 50).await;
    }
    stop.cancel();
    for writer in writers {
        writer.await.unwrap();
    }
    let found = cluster.group(0).range(RangeRequest::prefix("")).await.unwrap().kvs;
    assert!(found.iter().all(|kv| kv.version == 1), "nothing is written twice");
    let open = fates.open.lock().clone();
    let found: BTreeSet<_> = found.iter().map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect();
    assert!(open.iter().all(|(key, perhaps)| *perhaps || !found.contains(key)), "what was not done is not there");
    assert_eq!(found.iter().filter(|key| !open.contains_key(*key)).count(), done());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_missed_what_the_log_forgot_gets_a_snapshot() {
    let mut cluster = Cluster::start(None).await;
    wait(|| cluster.leader().is_some()).await;
    let leader = cluster.leader().unwrap();
    let behind = (leader + 1) % 3;
    let address = cluster.members[&(behind as u64 + 1)].clone();
    cluster.stop(behind).await;
    write(cluster.group(leader), 0..20).await;
    cluster.group(leader).snapshot().await.unwrap();
    let wal = cluster.group(leader).handle.wal.clone();
    wait(|| wal.ends().0.is_some_and(|purged| purged.index > 0)).await;
    drop(wal);
    cluster.open(behind, TcpListener::bind(address).unwrap()).await;
    let revision = cluster.group(leader).applied_revision();
    wait(|| cluster.group(behind).applied_revision() == revision).await;
    assert_eq!(cluster.group(behind).hash(), cluster.group(leader).hash());
    assert!(cluster.group(behind).handle.snapshots.current().is_some());
    cluster.stop_all().await;
}

/// A CA and one certificate for 127.0.0.1 that serves and asks.
fn tls() -> StoreTls {
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let ca_der: CertificateDer<'static> = ca.self_signed(&ca_key).unwrap().der().clone();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let chain = vec![leaf.signed_by(&key, &issuer).unwrap().der().clone()];
    let key = || PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca_der).unwrap();
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain.clone(), key())
        .unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key())
        .unwrap();
    StoreTls { server: Arc::new(server), client: Arc::new(client) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_store_works_over_tls_and_strangers_do_not() {
    let cluster = Cluster::start(Some(tls())).await;
    let addresses: Vec<_> = cluster.members.values().cloned().collect();
    let remote = RemoteStore::new(&addresses, cluster.tls.as_ref()).unwrap();
    let request = WatchRequest { start: "k".into(), end: "l".into(), from: Revision(2), prev_kv: true };
    let mut watch = remote.watch(request).await.unwrap();
    write(&remote, 0..3).await;
    assert_eq!(keys(&remote).await, expected(3));
    let failed = Txn { compare: vec![Compare::exists("none")], failure: vec![Op::get("k001")], ..put("x", "") };
    let reply = remote.txn(failed).await.unwrap();
    assert!(!reply.succeeded);
    let found = reply.ops.into_iter().next().and_then(crate::api::OpReply::into_key_value);
    assert_eq!(found.map(|kv| kv.value), Some("v1".into()));
    let mut revisions = Vec::new();
    while revisions.len() < 3 {
        let batch = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap().unwrap();
        revisions.extend(batch.events.iter().map(|event| event.kv.mod_revision.0));
    }
    assert_eq!(revisions, [2, 3, 4]);
    watch.request_progress();
    let progress = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((progress.revision >= Revision(4), progress.events.len()), (true, 0));
    assert_eq!(remote.read_revision().await.unwrap(), Revision(4));
    // An answer that would be too large comes in parts, unless the whole is asked for.
    for n in 0..9 {
        remote
            .txn(Txn { success: vec![Op::put(format!("large/{n}"), vec![0; 1 << 20])], ..Txn::default() })
            .await
            .unwrap();
    }
    let large = RangeRequest::prefix("large/");
    let part = remote.range(large.clone()).await.unwrap();
    let whole = remote.range(RangeRequest { whole: true, ..large }).await.unwrap();
    assert_eq!((part.kvs.len(), part.more, whole.kvs.len(), whole.more), (8, true, 9, false));
    remote.compact(Revision(3)).await.unwrap();
    let old = RangeRequest { revision: Some(Revision(2)), ..RangeRequest::key("k000") };
    // A member that has not applied the compaction yet may still answer from the past, and rightly.
    let compacted = async {
        loop {
            match remote.range(old.clone()).await {
                Ok(past) => assert_eq!(past.kvs[0].mod_revision, Revision(2)),
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let refused = tokio::time::timeout(DEADLINE, compacted).await.unwrap();
    assert!(matches!(refused, StoreError::Compacted { oldest: Revision(3), .. }), "{refused:?}");

    let plain = RemoteStore::new(&addresses, None).unwrap();
    assert!(plain.read_revision().await.is_err());
    let stranger = RemoteStore::new(&addresses, Some(&tls())).unwrap();
    assert!(stranger.read_revision().await.is_err());
    cluster.stop_all().await;
}
