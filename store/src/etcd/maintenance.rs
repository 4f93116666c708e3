//! The Maintenance service: how a member is, its fingerprint, and a copy of its state.

use super::cluster::change_status;
use super::errors::{BAD_TRANSFEREE, plain, status};
use super::{Face, OURS};
use crate::api::{Revision, StoreError};
use crate::backup::BLOCK_BYTES;
use crate::group::ChangeError;
use crate::mvcc::{Alarm, AlarmKind, Command};
use crate::proto::etcd::alarm_request::AlarmAction;
use crate::proto::etcd::{self, maintenance_server::Maintenance};
use crate::raft::snapshot::SnapshotFile;
use crate::raft::types::Meta;
use bytes::Bytes;
use futures::Stream;
use sha2::{Digest, Sha256};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;
type Blobs = Pin<Box<dyn Stream<Item = Result<etcd::SnapshotResponse, Status>> + Send>>;

/// The version whose interface this is; clients decide by it what they may ask.
pub const VERSION: &str = "3.5.21";
/// How much of a snapshot goes into one message (etcd's size).
const BLOB_BYTES: usize = 32 << 10;

/// Our hash has 64 bits; etcd's answer has room for half of them.
fn short(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

fn put_alarm(alarm: Alarm) -> etcd::AlarmMember {
    etcd::AlarmMember { member_id: alarm.member, alarm: i32::from(alarm.kind as u8) }
}

/// As etcd's status has it, the blank at the end included.
fn alarm_text(alarm: Alarm) -> String {
    format!("memberID:{} alarm:{} ", alarm.member, alarm.kind.name())
}

#[tonic::async_trait]
impl Maintenance for Face {
    /// What it answers is etcd's rule: those asked for, or the one that was raised or cleared.
    async fn alarm(&self, request: Request<etcd::AlarmRequest>) -> Answer<etcd::AlarmResponse> {
        let request = request.into_inner();
        let kind = u8::try_from(request.alarm).ok().and_then(AlarmKind::from_u8);
        let raise = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Activate) => true,
            Ok(AlarmAction::Deactivate) => false,
            Ok(AlarmAction::Get) | Err(_) => {
                self.store.read_index().await.map_err(status)?;
                let view = self.handle.hub.view();
                let wanted = view.alarms().filter(|alarm| kind.is_none_or(|kind| kind == alarm.kind));
                let alarms = wanted.map(put_alarm).collect();
                return Ok(Response::new(etcd::AlarmResponse { header: self.header_now(), alarms }));
            }
        };
        let mut alarms = Vec::new();
        if let Some(kind) = kind {
            let alarm = Alarm { kind, member: request.member_id };
            if raise || self.handle.hub.view().alarms().any(|raised| raised == alarm) {
                self.store.command(Command::Alarm { alarm, raise }).await.map_err(status)?;
                alarms.push(put_alarm(alarm));
            }
        }
        Ok(Response::new(etcd::AlarmResponse { header: self.header_now(), alarms }))
    }

    async fn status(&self, _: Request<etcd::StatusRequest>) -> Answer<etcd::StatusResponse> {
        let metrics = self.handle.metrics();
        let (index, bytes) = self.handle.snapshots.current().unwrap_or_default();
        let view = self.handle.hub.view();
        let mut errors: Vec<_> = view.alarms().map(alarm_text).collect();
        let leader = self.handle.leader();
        errors.extend(self.troubles().await);
        let size = (bytes + self.handle.wal_bytes_after(index)).cast_signed();
        let mut answer = Response::new(etcd::StatusResponse {
            header: self.header_now(),
            version: VERSION.to_owned(),
            db_size: size,
            db_size_in_use: view.stored_bytes().cast_signed(),
            db_size_quota: self.handle.quota_bytes.cast_signed(),
            leader: leader.unwrap_or(0),
            raft_index: metrics.last_log_index.unwrap_or(0),
            raft_term: metrics.current_term,
            raft_applied_index: metrics.last_applied.map_or(0, |id| id.index),
            errors,
            is_learner: !self.handle.voters().contains(&self.handle.member),
        });
        answer.metadata_mut().insert(OURS, MetadataValue::from_static("1"));
        Ok(answer)
    }

    /// Nothing to do: the log's segments and the snapshots are removed whole.
    async fn defragment(&self, _: Request<etcd::DefragmentRequest>) -> Answer<etcd::DefragmentResponse> {
        Ok(Response::new(etcd::DefragmentResponse { header: self.header_now() }))
    }

    async fn hash(&self, _: Request<etcd::HashRequest>) -> Answer<etcd::HashResponse> {
        let view = self.handle.hub.view();
        Ok(Response::new(etcd::HashResponse { header: self.header(view.revision()), hash: short(view.hash()) }))
    }

    async fn hash_kv(&self, request: Request<etcd::HashKvRequest>) -> Answer<etcd::HashKvResponse> {
        let wanted = u64::try_from(request.into_inner().revision).unwrap_or(0);
        let view = self.handle.hub.view();
        let (current, oldest) = (view.revision(), view.oldest());
        let requested = Revision(wanted);
        let hash = match view.commit(wanted) {
            _ if wanted == 0 => view.hash(),
            Some(commit) => commit.hash,
            None if requested > current => return Err(status(StoreError::Future { requested, current })),
            None => return Err(status(StoreError::Compacted { requested, oldest })),
        };
        // A store that was never compacted (etcd's number).
        let compact_revision = if oldest.0 <= 1 { -1 } else { oldest.0.cast_signed() };
        Ok(Response::new(etcd::HashKvResponse { header: self.header(current), hash: short(hash), compact_revision }))
    }

    type SnapshotStream = Blobs;

    async fn snapshot(&self, _: Request<etcd::SnapshotRequest>) -> Answer<Blobs> {
        let (sender, receiver) = mpsc::channel(4);
        let face = self.clone();
        tokio::task::spawn_blocking(move || {
            let (view, archive) = face.handle.hub.pinned_view();
            let written = face.handle.snapshots.dir.write_from(&Meta::default(), &view, &*archive);
            let sent = match written {
                Ok(file) => send(&face, view.revision(), &file, &sender),
                Err(error) => Err(Some(Status::internal(error.to_string()))),
            };
            if let Err(Some(error)) = sent {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receiver))))
    }

    /// Only the leader hands on what it has (etcd's rule).
    async fn move_leader(&self, request: Request<etcd::MoveLeaderRequest>) -> Answer<etcd::MoveLeaderResponse> {
        self.handle.move_leader(request.into_inner().target_id).await.map_err(|error| match error {
            ChangeError::NoMember => plain(BAD_TRANSFEREE),
            error => change_status(error),
        })?;
        Ok(Response::new(etcd::MoveLeaderResponse { header: self.header_now() }))
    }
}

/// How long a member may take to hear that it is in touch with the others, when it is asked how it is.
const IN_TOUCH: Duration = Duration::from_secs(1);

impl Face {
    /// What keeps this member from its work, besides alarms.
    async fn troubles(&self) -> Vec<String> {
        let (handle, metrics) = (&self.handle, self.handle.metrics());
        let mut troubles = Vec::new();
        if handle.is_full() {
            troubles.push(StoreError::DiskFull { member: handle.member }.to_string());
        }
        let (is_new, members) = (!handle.takes_part(), handle.members());
        if metrics.running_state.is_err() {
            troubles.push("it has stopped: its log says why; start it again".to_owned());
        } else if is_new {
            troubles.push("it takes no part yet: its directory is new, see its log".to_owned());
        } else if !members.is_empty() && members.iter().all(|member| member.id != handle.member) {
            troubles.push("it was removed from the group: stop it".to_owned());
        } else if handle.leader().is_none() {
            troubles.push("etcdserver: no leader".to_owned());
        } else if !matches!(tokio::time::timeout(IN_TOUCH, self.store.read_index()).await, Ok(Ok(_))) {
            troubles.push("it does not reach the group's leader, or the leader no majority".to_owned());
        }
        troubles
    }
}

/// Sends a snapshot, filled up with zeros to whole blocks and followed by its SHA-256. `None`: nobody listens any more.
fn send(
    face: &Face,
    revision: Revision,
    file: &SnapshotFile,
    to: &mpsc::Sender<Result<etcd::SnapshotResponse, Status>>,
) -> Result<(), Option<Status>> {
    let whole = file.bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
    let mut hash = Sha256::new();
    let mut at = 0;
    let blob = |blob: Bytes, remaining_bytes: u64| {
        let response = etcd::SnapshotResponse { header: face.header(revision), remaining_bytes, blob };
        to.blocking_send(Ok(response)).map_err(|_| None)
    };
    while at < whole {
        let mut buffer = vec![0; BLOB_BYTES.min((whole - at) as usize)];
        let data = (file.bytes.saturating_sub(at) as usize).min(buffer.len());
        file.file.read_exact_at(&mut buffer[..data], at).map_err(|error| Some(Status::internal(error.to_string())))?;
        hash.update(&buffer);
        at += buffer.len() as u64;
        blob(buffer.into(), whole - at + 32)?;
    }
    blob(Bytes::copy_from_slice(&hash.finalize()), 0)
}
