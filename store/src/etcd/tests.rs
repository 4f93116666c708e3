//! What etcd's clients are told when they ask for what cannot be: etcd's codes and texts, and nothing was done.

use crate::group::{Group, GroupConfig};
use crate::limits::MAX_OPERATIONS;
use crate::proto::etcd::alarm_request::AlarmAction;
use crate::proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcd::kv_client::KvClient;
use crate::proto::etcd::lease_client::LeaseClient;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::proto::etcd::request_op::Request as Operation;
use crate::proto::etcd::watch_client::WatchClient;
use crate::proto::etcd::watch_request::RequestUnion;
use crate::proto::etcd::*;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

pub const DEADLINE: Duration = Duration::from_secs(30);

/// A member alone, with its clients' port.
pub struct Lone {
    pub group: Group,
    pub address: String,
    _dir: TempDir,
}

impl Lone {
    pub async fn open(change: impl FnOnce(&mut GroupConfig)) -> Self {
        let dir = TempDir::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let members = std::collections::BTreeMap::from([(1, address.clone())]);
        let mut config = GroupConfig { listener: Some(listener), members, ..GroupConfig::single("state", dir.path()) };
        change(&mut config);
        Self { group: Group::open(config).await.unwrap(), address, _dir: dir }
    }

    pub fn channel(&self) -> Channel {
        crate::peer::channel(&self.address, None).unwrap()
    }

    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel())
    }
}

pub fn put(key: &str, len: usize) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: vec![7; len].into(), ..PutRequest::default() }
}

pub fn range(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }
}

pub fn op(request: Operation) -> RequestOp {
    RequestOp { request: Some(request) }
}

pub fn refused<T: Debug>(what: &str, answer: Result<Response<T>, Status>, code: Code, text: &str) {
    let error = answer.expect_err(what);
    assert_eq!((error.code(), error.message()), (code, text), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_too_large_or_have_no_key_change_nothing() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    kv.put(put("k", 1)).await.unwrap();
    kv.put(put("k", 2)).await.unwrap();
    let before = (lone.group.applied_revision(), lone.group.hash());
    let invalid = Code::InvalidArgument;

    let large = "etcdserver: request is too large";
    refused("a large put", kv.put(put("k", 3 << 19)).await, invalid, large);
    let parts = (0..3).map(|i| op(Operation::RequestPut(put(&format!("part{i}"), 1 << 19))));
    let txn = TxnRequest { success: parts.collect(), ..TxnRequest::default() };
    refused("a large transaction", kv.txn(txn).await, invalid, large);

    let many = "etcdserver: too many operations in txn request";
    let puts = |n: usize| (0..n).map(|i| op(Operation::RequestPut(put(&i.to_string(), 1)))).collect::<Vec<_>>();
    let txn = TxnRequest { success: puts(MAX_OPERATIONS + 1), ..TxnRequest::default() };
    refused("too many operations", kv.txn(txn).await, invalid, many);
    let nested = TxnRequest { success: puts(MAX_OPERATIONS), ..TxnRequest::default() };
    let txn = TxnRequest { failure: vec![op(Operation::RequestTxn(nested))], ..TxnRequest::default() };
    refused("too many operations, nested", kv.txn(txn).await, invalid, many);

    let empty = "etcdserver: key is not provided";
    refused("a put without a key", kv.put(put("", 1)).await, invalid, empty);
    refused("a range without a key", kv.range(range("")).await, invalid, empty);
    refused("a delete without a key", kv.delete_range(DeleteRangeRequest::default()).await, invalid, empty);
    let txn = TxnRequest { success: vec![op(Operation::RequestPut(put("", 1)))], ..TxnRequest::default() };
    refused("a transaction's put without a key", kv.txn(txn).await, invalid, empty);
    let txn = TxnRequest { compare: vec![Compare::default()], ..TxnRequest::default() };
    refused("a comparison without a key", kv.txn(txn).await, invalid, empty);

    assert_eq!((lone.group.applied_revision(), lone.group.hash()), before, "nothing was applied");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_that_cannot_be_change_nothing() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    kv.put(put("k", 1)).await.unwrap();
    kv.put(put("k", 2)).await.unwrap();
    let before = (lone.group.applied_revision(), lone.group.hash());
    let future = "etcdserver: mvcc: required revision is a future revision";
    let at = |revision| RangeRequest { revision, ..range("k") };
    refused("a future range", kv.range(at(99)).await, Code::OutOfRange, future);
    let txn = TxnRequest {
        success: vec![op(Operation::RequestPut(put("new", 1))), op(Operation::RequestRange(at(99)))],
        ..TxnRequest::default()
    };
    refused("a future range beside a put", kv.txn(txn).await, Code::OutOfRange, future);
    let compact = |revision| CompactionRequest { revision, physical: false };
    refused("a future compaction", kv.compact(compact(99)).await, Code::OutOfRange, future);
    let compacted = "etcdserver: mvcc: required revision has been compacted";
    refused("a negative compaction", kv.compact(compact(-1)).await, Code::OutOfRange, compacted);
    // A negative revision of a range means now, as with etcd.
    assert_eq!(kv.range(at(-5)).await.unwrap().into_inner().kvs[0].value.len(), 2);
    for (relation, holds) in [
        (CompareResult::Equal, false),
        (CompareResult::NotEqual, true),
        (CompareResult::Greater, true),
        (CompareResult::Less, false),
    ] {
        let compare = Compare {
            result: relation.into(),
            target: CompareTarget::Mod.into(),
            key: "none".into(),
            target_union: Some(TargetUnion::ModRevision(-1)),
            ..Compare::default()
        };
        let reply = kv.txn(TxnRequest { compare: vec![compare], ..TxnRequest::default() }).await.unwrap();
        assert_eq!(reply.into_inner().succeeded, holds, "{relation:?} than a negative revision");
    }
    assert_eq!((lone.group.applied_revision(), lone.group.hash()), before, "nothing was applied");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_leases_and_malformed_ranges_change_nothing() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    kv.put(put("k", 1)).await.unwrap();
    let before = (lone.group.applied_revision(), lone.group.hash());
    let no_lease = "etcdserver: requested lease not found";
    let leased = PutRequest { lease: 42, ..put("k", 1) };
    refused("a put with an unknown lease", kv.put(leased).await, Code::NotFound, no_lease);
    let mut lease = LeaseClient::new(lone.channel());
    refused(
        "an unknown lease's end",
        lease.lease_revoke(LeaseRevokeRequest { id: 42 }).await,
        Code::NotFound,
        no_lease,
    );
    let left = lease.lease_time_to_live(LeaseTimeToLiveRequest { id: 42, keys: true }).await.unwrap().into_inner();
    assert_eq!((left.ttl, left.granted_ttl), (-1, 0));

    // A range whose end is not after its start holds nothing.
    let upside_down = RangeRequest { range_end: "a".into(), ..range("k") };
    assert_eq!(kv.range(upside_down).await.unwrap().into_inner().count, 0);
    let delete = DeleteRangeRequest { key: "k".into(), range_end: "a".into(), prev_kv: true };
    assert_eq!(kv.delete_range(delete).await.unwrap().into_inner().deleted, 0);
    let sort = RangeRequest { sort_order: 9, ..range("k") };
    refused("an unknown order", kv.range(sort).await, Code::InvalidArgument, "etcdserver: invalid sort option");
    let watch = WatchCreateRequest { key: "k".into(), range_end: "a".into(), ..WatchCreateRequest::default() };
    let watch = WatchRequest { request_union: Some(RequestUnion::CreateRequest(watch)) };
    let watches = futures::StreamExt::chain(futures::stream::iter([watch]), futures::stream::pending());
    let mut answers = WatchClient::new(lone.channel()).watch(watches).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((answer.created, answer.canceled, answer.watch_id), (true, true, -1));
    assert_eq!(answer.cancel_reason, "mvcc: watcher range is empty");

    assert_eq!((lone.group.applied_revision(), lone.group.hash()), before, "nothing was applied");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_raises_an_alarm_and_refuses_puts_until_it_is_disarmed() {
    let lone = Lone::open(|config| config.quota_bytes = 20_000).await;
    let (mut kv, mut maintenance) = (lone.kv(), MaintenanceClient::new(lone.channel()));
    let mut lease = LeaseClient::new(lone.channel());
    lease.lease_grant(LeaseGrantRequest { ttl: 600, id: 7 }).await.unwrap();
    let full = "etcdserver: mvcc: database space exceeded";
    let alarm = |action: AlarmAction, member_id, alarm: AlarmType| AlarmRequest {
        action: action.into(),
        member_id,
        alarm: alarm.into(),
    };
    let all = alarm(AlarmAction::Get, 0, AlarmType::None);
    assert_eq!(maintenance.alarm(all).await.unwrap().into_inner().alarms, []);

    let mut written = 0;
    let error = loop {
        match kv.put(put(&format!("k{written}"), 3_000)).await {
            Ok(_) if written < 50 => written += 1,
            Ok(_) => panic!("the store is never full"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.code(), error.message(), written), (Code::ResourceExhausted, full, 6));
    let raised = AlarmMember { member_id: 1, alarm: AlarmType::Nospace.into() };
    assert_eq!(maintenance.alarm(all).await.unwrap().into_inner().alarms, [raised]);
    let other = alarm(AlarmAction::Get, 0, AlarmType::Corrupt);
    assert_eq!(maintenance.alarm(other).await.unwrap().into_inner().alarms, []);
    let status = maintenance.status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.errors, ["memberID:1 alarm:NOSPACE "]);
    assert_eq!(status.db_size_quota, 20_000);
    assert!(status.db_size_in_use > 18_000 && status.db_size_in_use <= 20_000, "{}", status.db_size_in_use);

    // Even what would fit is refused now, and so is a lease; the way out is open.
    refused("a small put", kv.put(put("small", 1)).await, Code::ResourceExhausted, full);
    let grant = LeaseGrantRequest { ttl: 600, id: 8 };
    refused("a lease", lease.lease_grant(grant).await, Code::ResourceExhausted, full);
    assert_eq!(kv.range(range("k0")).await.unwrap().into_inner().count, 1);
    lease.lease_revoke(LeaseRevokeRequest { id: 7 }).await.unwrap();
    let delete = DeleteRangeRequest { key: "k".into(), range_end: "l".into(), prev_kv: false };
    let deleted = kv.delete_range(delete).await.unwrap().into_inner();
    assert_eq!(deleted.deleted, 6);
    kv.put(put("still", 1)).await.unwrap_err();
    let revision = deleted.header.unwrap().revision;
    kv.put(put("x", 1)).await.unwrap_err();
    kv.compact(CompactionRequest { revision, physical: true }).await.unwrap();

    let disarm = alarm(AlarmAction::Deactivate, 1, AlarmType::Nospace);
    let disarmed = maintenance.alarm(disarm).await.unwrap().into_inner().alarms;
    // The member may have been quicker: it clears the alarm itself when there is room again.
    assert!(disarmed.is_empty() || disarmed == [raised], "{disarmed:?}");
    kv.put(put("small", 1)).await.unwrap();
    assert_eq!(maintenance.alarm(all).await.unwrap().into_inner().alarms, []);

    let corrupt = alarm(AlarmAction::Activate, 9, AlarmType::Corrupt);
    let raised = AlarmMember { member_id: 9, alarm: AlarmType::Corrupt.into() };
    assert_eq!(maintenance.alarm(corrupt).await.unwrap().into_inner().alarms, [raised]);
    let delete = DeleteRangeRequest { key: "small".into(), ..DeleteRangeRequest::default() };
    refused("a delete", kv.delete_range(delete).await, Code::DataLoss, "etcdserver: corrupt cluster");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_survives_a_restart_and_clears_itself_when_there_is_room() {
    let dir = TempDir::new().unwrap();
    let config = || GroupConfig { quota_bytes: 10_000, ..GroupConfig::single("state", dir.path()) };
    let put = |key: String| crate::api::Txn {
        success: vec![crate::api::Op::put(key, vec![0; 4_000])],
        ..crate::api::Txn::default()
    };
    use crate::api::{Store, StoreError};
    let group = Group::open(config()).await.unwrap();
    group.txn(put("a".into())).await.unwrap();
    group.txn(put("b".into())).await.unwrap();
    assert!(matches!(group.txn(put("c".into())).await, Err(StoreError::NoSpace)));
    group.snapshot().await.unwrap();
    group.shutdown().await;
    drop(group);
    // From the log or from the snapshot: it is part of the state.
    for _ in 0..2 {
        let group = Group::open(config()).await.unwrap();
        assert!(matches!(group.txn(put("c".into())).await, Err(StoreError::NoSpace)));
        group.snapshot().await.unwrap();
        group.shutdown().await;
    }
    let group = Group::open(GroupConfig { quota_bytes: 0, ..config() }).await.unwrap();
    let written = async {
        while let Err(error) = group.txn(put("c".into())).await {
            assert!(matches!(error, StoreError::NoSpace), "{error:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, written).await.expect("the alarm is cleared");
    group.shutdown().await;
}

/// An authority and what it signs: a certificate for 127.0.0.1.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: rcgen::Issuer::new(params, key) }
    }

    fn sign(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let chain = vec![leaf.signed_by(&key, &self.issuer).unwrap().der().clone()];
        (chain, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn roots(&self) -> Arc<rustls::RootCertStore> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Arc::new(roots)
    }

    /// A client that trusts this authority's members and shows a certificate of `signer`.
    fn client(&self, signer: &Self) -> Arc<rustls::ClientConfig> {
        let (chain, key) = signer.sign();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }

    fn tls(&self) -> crate::peer::StoreTls {
        let (chain, key) = self.sign();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(self.roots(), provider.clone());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        crate::peer::StoreTls { server: Arc::new(server), client: self.client(self) }
    }
}

/// What a member answers to HTTP/2's first bytes; an error when the handshake is refused.
async fn first_byte(address: &str, client: Arc<rustls::ClientConfig>) -> std::io::Result<u8> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(client).connect(name, stream).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    stream.read_u8().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_authority_is_refused_at_the_handshake() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let lone = Lone::open(|config| config.tls = Some(ours.tls())).await;
    assert!(first_byte(&lone.address, ours.client(&ours)).await.is_ok());
    let error = first_byte(&lone.address, ours.client(&theirs)).await.unwrap_err();
    assert!(error.to_string().contains("received fatal alert"), "{error}");
    lone.group.shutdown().await;
}
