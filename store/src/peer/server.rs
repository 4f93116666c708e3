//! Answers the other members. It hands Raft's messages to openraft and writes to the group's proposer.

use super::{NOT_LEADER, wire};
use crate::api::StoreError;
use crate::codec;
use crate::etcd::errors;
use crate::group::Handle;
use crate::group::ReadError;
use crate::offload::offload;
use crate::proto::Frame;
use crate::proto::peer_server::Peer;
use crate::raft::snapshot::{SnapshotDir, SnapshotError, SnapshotFile};
use crate::raft::types::{Meta, TypeConfig};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use openraft::Snapshot;
use openraft::raft::AppendEntriesRequest;
use parking_lot::Mutex;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// Batches of one follower that are on their way at once; more wait in its stream.
const FORWARDED: usize = 64;

type Answer = Result<Response<Frame>, Status>;

pub struct PeerService {
    group: Handle,
}

impl PeerService {
    pub fn new(group: Handle) -> Self {
        Self { group }
    }

    fn open(&self, frame: Frame) -> Result<Bytes, Status> {
        self.group.peers.check(frame)
    }

    fn answer(&self, body: Vec<u8>) -> Answer {
        Ok(Response::new(self.group.peers.frame(0, body)))
    }

    /// Takes entries that follow each other; an answer to each.
    pub fn append_frames(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Send + 'static,
    ) -> BoxStream<'static, Result<Frame, Status>> {
        let (group, broken) = (self.group.clone(), Arc::new(Mutex::new(None)));
        let requests = stream::unfold((Box::pin(frames), broken.clone()), move |(mut frames, broken)| {
            let group = group.clone();
            async move {
                let next = frames.next().await?.and_then(|frame| {
                    let append = group.peers.check(frame).and_then(|body| wire::append(body).map_err(undecodable))?;
                    group.heard(&append);
                    group.check_room(&append).map(|()| append)
                });
                match next {
                    Ok(append) => Some((append, (frames, broken))),
                    Err(status) => {
                        *broken.lock() = Some(status);
                        None
                    }
                }
            }
        });
        let peers = self.group.peers.clone();
        let answers = self.group.raft.stream_append(requests).map(move |answer| {
            let result = answer.map_err(failed)?;
            Ok(peers.frame(0, wire::put_streamed(&result)))
        });
        // What could not be read ends the answers, after those to what was read before.
        let last = stream::once(async move { broken.lock().take().map(Err) });
        Box::pin(answers.chain(last.filter_map(std::future::ready)))
    }

    /// Takes batches of writes in order, and answers each once its fate is known.
    pub fn propose_frames(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Send + 'static,
    ) -> BoxStream<'static, Result<Frame, Status>> {
        let (group, answering) = (self.group.clone(), self.group.clone());
        let taken = frames.then(move |frame| {
            let group = group.clone();
            async move {
                let (number, commands) = wire::forward(group.peers.check(frame?)?).map_err(undecodable)?;
                Ok((number, group.take(commands).await))
            }
        });
        let answers = taken.map(move |taken: Result<_, Status>| {
            let group = answering.clone();
            async move {
                let (number, taken) = taken?;
                let outcome = group.settle_taken(taken).await;
                Ok(group.peers.frame(0, wire::put_forwarded(number, &outcome)))
            }
        });
        Box::pin(answers.buffer_unordered(FORWARDED))
    }

    /// Takes a snapshot: its head, then its pieces.
    pub async fn install_frames(&self, frames: impl Stream<Item = Result<Frame, Status>>) -> Answer {
        let mut frames = Box::pin(frames);
        let head = frames.next().await.ok_or_else(|| Status::invalid_argument("the stream is empty"))??;
        let (vote, meta) = wire::installing(self.open(head)?).map_err(undecodable)?;
        self.group.heard.note(vote.leader_id.node_id);
        let peers = self.group.peers.clone();
        let chunks = frames.map(move |frame| peers.check(frame?));
        let file = receive(&self.group.snapshots.dir, &meta, chunks).await?;
        let snapshot = Snapshot { meta, snapshot: file };
        let response = self.group.raft.install_full_snapshot(vote, snapshot).await.map_err(failed)?;
        self.answer(wire::put_installed(&response))
    }
}

impl Handle {
    /// Only one that leads sends entries, or none to be heard; one that was deposed and does not know it yet does not count.
    fn heard(&self, append: &AppendEntriesRequest<TypeConfig>) {
        let leader = append.vote.leader_id;
        if leader.term >= self.term() {
            self.heard.note(leader.node_id);
        }
    }

    /// Entries have to be refused before Raft has them: it would not answer, not even to a vote, until they are on disk.
    fn check_room(&self, append: &AppendEntriesRequest<TypeConfig>) -> Result<(), Status> {
        let refuses = self.is_full() && !append.entries.is_empty();
        if refuses { Err(errors::status(StoreError::DiskFull { member: self.member })) } else { Ok(()) }
    }
}

fn undecodable(error: codec::DecodeError) -> Status {
    Status::invalid_argument(format!("the frame cannot be decoded: {error}"))
}

fn failed(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn append(&self, request: Request<Frame>) -> Answer {
        let append = wire::append(self.open(request.into_inner())?).map_err(undecodable)?;
        self.group.heard(&append);
        self.group.check_room(&append)?;
        let response = self.group.raft.append_entries(append).await.map_err(failed)?;
        self.answer(wire::put_appended(&response))
    }

    type AppendStreamStream = BoxStream<'static, Result<Frame, Status>>;

    async fn append_stream(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Self::AppendStreamStream>, Status> {
        Ok(Response::new(self.append_frames(request.into_inner())))
    }

    async fn vote(&self, request: Request<Frame>) -> Answer {
        let vote = wire::vote(self.open(request.into_inner())?).map_err(undecodable)?;
        let response = self.group.raft.vote(vote).await.map_err(failed)?;
        self.answer(wire::put_voted(&response))
    }

    async fn pre_vote(&self, request: Request<Frame>) -> Answer {
        let vote = wire::vote(self.open(request.into_inner())?).map_err(undecodable)?;
        let response = self.group.raft.pre_vote(vote).await.map_err(failed)?;
        self.answer(wire::put_voted(&response))
    }

    async fn install(&self, request: Request<Streaming<Frame>>) -> Answer {
        self.install_frames(request.into_inner()).await
    }

    type ProposeStreamStream = BoxStream<'static, Result<Frame, Status>>;

    async fn propose_stream(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Self::ProposeStreamStream>, Status> {
        Ok(Response::new(self.propose_frames(request.into_inner())))
    }

    async fn transfer_leader(&self, request: Request<Frame>) -> Answer {
        let transfer = wire::transfer(self.open(request.into_inner())?).map_err(undecodable)?;
        match self.group.raft.handle_transfer_leader(transfer).await.map_err(failed)? {
            Ok(()) => self.answer(vec![]),
            Err(refused) => Err(failed(refused)),
        }
    }

    async fn lease(&self, request: Request<Frame>) -> Answer {
        let (id, renew) = wire::lease(self.open(request.into_inner())?).map_err(undecodable)?;
        match self.group.lease_here(id, renew).await {
            Ok(standing) => self.answer(wire::put_standing(&standing)),
            Err(ReadError::NotLeader(_)) => Err(Status::failed_precondition(NOT_LEADER)),
            Err(ReadError::Store(error)) => Err(errors::status(error)),
        }
    }

    async fn greet(&self, request: Request<Frame>) -> Answer {
        let frame = request.into_inner();
        let from = frame.from;
        let greeting = wire::greeting(self.group.peers.check_greeting(frame)?).map_err(undecodable)?;
        let welcome = self.group.welcome(from, greeting).await.map_err(failed)?;
        self.answer(wire::put_welcome(&welcome))
    }

    async fn read_index(&self, request: Request<Frame>) -> Answer {
        self.open(request.into_inner())?;
        match self.group.read_index_here().await {
            Ok(revision) => {
                let mut out = Vec::new();
                codec::put_u64(&mut out, revision.0);
                self.answer(out)
            }
            Err(ReadError::NotLeader(_)) => Err(Status::failed_precondition(NOT_LEADER)),
            Err(ReadError::Store(error)) => Err(errors::status(error)),
        }
    }
}

/// Puts a snapshot's pieces together in a file of its own. What is not whole never reaches Raft, which would stop over it.
async fn receive(
    dir: &SnapshotDir,
    meta: &Meta,
    chunks: impl Stream<Item = Result<Bytes, Status>>,
) -> Result<SnapshotFile, Status> {
    let mut chunks = std::pin::pin!(chunks);
    let mut file = dir.temporary("receive").map_err(failed)?;
    while let Some(chunk) = chunks.next().await {
        file = store_chunk(file, chunk?).await.map_err(failed)?;
    }
    let read = move || file.read().map(|(found, _)| (found, file));
    let (found, file) = offload(read).await.map_err(failed)?.map_err(damaged)?;
    if found.last_log_id != meta.last_log_id {
        return Err(Status::data_loss("the snapshot is another one than its head says"));
    }
    Ok(file)
}

fn damaged(error: SnapshotError) -> Status {
    Status::data_loss(format!("the snapshot did not arrive whole: {error}"))
}

/// Appends a chunk to a file that is being received.
async fn store_chunk(mut file: SnapshotFile, chunk: Bytes) -> std::io::Result<SnapshotFile> {
    offload(move || {
        file.file.write_all_at(&chunk, file.bytes)?;
        file.bytes += chunk.len() as u64;
        Ok(file)
    })
    .await
    .map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::Mvcc;
    use futures::stream;

    #[tokio::test]
    async fn only_a_whole_snapshot_is_received() {
        let dir = tempfile::tempdir().unwrap();
        let (files, _) = SnapshotDir::open(dir.path()).unwrap();
        let meta = Meta::default();
        let written = files.write(&meta, &Mvcc::default()).unwrap();
        let bytes = Bytes::from(std::fs::read(&written.path).unwrap());
        drop(written);
        let half = bytes.len() / 2;
        let pieces = |to: usize| vec![Ok(bytes.slice(..half)), Ok(bytes.slice(half..to))];
        let received = receive(&files, &meta, stream::iter(pieces(bytes.len()))).await.unwrap();
        assert_eq!(std::fs::read(&received.path).unwrap(), bytes);

        // Another stream at the same time does not touch the first one's file.
        let truncated = receive(&files, &meta, stream::iter(pieces(bytes.len() - 3))).await;
        assert_eq!(truncated.unwrap_err().code(), tonic::Code::DataLoss);
        let broken = vec![Ok(bytes.clone()), Err(Status::cancelled("gone"))];
        assert_eq!(receive(&files, &meta, stream::iter(broken)).await.unwrap_err().code(), tonic::Code::Cancelled);
        assert_eq!(std::fs::read(&received.path).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "what failed leaves nothing behind");
    }
}
