//! Answers the other members. It hands Raft's messages to openraft and writes to the group's proposer.

use super::{NOT_LEADER, check, error_status, wire};
use crate::codec::{self, Reader};
use crate::group::Handle;
use crate::group::ProposeError;
use crate::group::ReadError;
use crate::proto::Frame;
use crate::proto::peer_server::Peer;
use crate::raft::snapshot::SnapshotFile;
use crate::reply;
use bytes::Bytes;
use openraft::Snapshot;
use std::os::unix::fs::FileExt;
use tonic::{Request, Response, Status, Streaming};

type Answer = Result<Response<Frame>, Status>;

pub struct PeerService {
    group: Handle,
}

impl PeerService {
    pub fn new(group: Handle) -> Self {
        Self { group }
    }

    fn open(&self, frame: Frame) -> Result<Bytes, Status> {
        check(&self.group.peers.group, frame)
    }

    fn answer(&self, body: Vec<u8>) -> Answer {
        Ok(Response::new(self.group.peers.frame(body)))
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
        let response = self.group.raft.append_entries(append).await.map_err(failed)?;
        self.answer(wire::put_appended(&response))
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
        let mut frames = request.into_inner();
        let head = frames.message().await?.ok_or_else(|| Status::invalid_argument("the stream is empty"))?;
        let (vote, meta) = wire::installing(self.open(head)?).map_err(undecodable)?;
        let mut file = self.group.snapshots.dir.temporary("receive").map_err(failed)?;
        while let Some(frame) = frames.message().await? {
            file = store_chunk(file, self.open(frame)?).await.map_err(failed)?;
        }
        let snapshot = Snapshot { meta, snapshot: file };
        let response = self.group.raft.install_full_snapshot(vote, snapshot).await.map_err(failed)?;
        self.answer(wire::put_installed(&response))
    }

    async fn propose(&self, request: Request<Frame>) -> Answer {
        let mut from = Reader::new(self.open(request.into_inner())?);
        let commands = codec::entry(&mut from).map_err(undecodable)?.commands;
        match self.group.propose_here(commands).await {
            Ok(replies) => {
                let mut out = Vec::new();
                reply::put_replies(&mut out, &replies);
                self.answer(out)
            }
            Err(ProposeError::NotLeader(_)) => Err(Status::failed_precondition(NOT_LEADER)),
            Err(ProposeError::Store(error)) => Err(error_status(&error)),
        }
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
            Err(ReadError::Store(error)) => Err(error_status(&error)),
        }
    }
}

/// Appends a chunk to a file that is being received.
async fn store_chunk(mut file: SnapshotFile, chunk: Bytes) -> std::io::Result<SnapshotFile> {
    tokio::task::spawn_blocking(move || {
        file.file.write_all_at(&chunk, file.bytes)?;
        file.bytes += chunk.len() as u64;
        Ok(file)
    })
    .await
    .map_err(std::io::Error::other)?
}
