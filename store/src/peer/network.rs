//! Openraft's network: one client for each other member, over the group's shared connections.

use super::{Line, Peers, wire};
use crate::offload::offload;
use crate::proto::Frame;
use crate::raft::snapshot::SnapshotFile;
use crate::raft::types::{TypeConfig, Vote};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::{Response, Status};

type RpcResult<T> = Result<T, RPCError<TypeConfig>>;

/// How long a member may take to make entries durable before the leader gives the stream up: longer than a slow disk stalls.
/// A connection that broke is noticed by itself, a member that is gone by its silence in an election.
const APPEND_PATIENCE: Duration = Duration::from_secs(5);
/// Until a member that cannot be reached is tried again. Raft's own pause is taken by the stream of requests, which nobody
/// reads before there is a connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The bytes of a snapshot in one frame.
const CHUNK: usize = 1 << 20;

pub struct Factory {
    pub peers: Peers,
}

impl RaftNetworkFactory<TypeConfig> for Factory {
    type Network = Network;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Network {
        self.peers.roster.learn(target, &node.addr);
        Network { peers: self.peers.clone(), target }
    }
}

pub struct Network {
    peers: Peers,
    target: u64,
}

impl Network {
    fn client(&self) -> RpcResult<Line> {
        self.peers.line(self.target).ok_or_else(|| RPCError::Unreachable(Unreachable::from_string("no usable address")))
    }

    fn body(&self, answer: Result<Result<Response<Frame>, Status>, tokio::time::error::Elapsed>) -> RpcResult<Bytes> {
        match answer {
            Err(elapsed) => Err(RPCError::Network(NetworkError::new(&elapsed))),
            Ok(Err(status)) => Err(rpc_error(&status)),
            Ok(Ok(frame)) => self.peers.check(frame.into_inner()).map_err(|s| NetworkError::new(&s).into()),
        }
    }
}

fn rpc_error(status: &Status) -> RPCError<TypeConfig> {
    match super::never_sent(status) {
        true => RPCError::Unreachable(Unreachable::new(status)),
        false => RPCError::Network(NetworkError::new(status)),
    }
}

/// An attempt that ended without a stream, and whose like may follow at once.
async fn unreachable_for_now<T>(error: RPCError<TypeConfig>) -> RpcResult<T> {
    tokio::time::sleep(RECONNECT_PAUSE).await;
    Err(error)
}

/// When the requests of a stream that have no answer yet were sent.
#[derive(Clone, Default)]
struct Unanswered(Arc<Mutex<VecDeque<Instant>>>);

impl Unanswered {
    fn sent(&self) {
        self.0.lock().push_back(Instant::now());
    }

    fn answered(&self) {
        self.0.lock().pop_front();
    }

    /// Until when the next answer has to come; a stream without requests may be silent.
    fn deadline(&self) -> Instant {
        self.0.lock().front().copied().unwrap_or_else(Instant::now) + APPEND_PATIENCE
    }
}

/// The next answer of a stream; `None` at its end.
async fn next_answer(
    answers: &mut BoxStream<'static, Result<Frame, Status>>,
    sent: &Unanswered,
    peers: &Peers,
) -> Option<RpcResult<StreamAppendResult<TypeConfig>>> {
    loop {
        let deadline = sent.deadline();
        let frame = match tokio::time::timeout_at(deadline, answers.next()).await {
            // A request that was sent since has its own deadline.
            Err(_) if sent.deadline() > deadline => continue,
            Err(elapsed) => return Some(Err(RPCError::Network(NetworkError::new(&elapsed)))),
            Ok(None) => return None,
            Ok(Some(Err(status))) => return Some(Err(rpc_error(&status))),
            Ok(Some(Ok(frame))) => frame,
        };
        sent.answered();
        let body = peers.check(frame).map_err(|status| RPCError::Network(NetworkError::new(&status)));
        return Some(body.and_then(|body| decoded(wire::streamed(body))));
    }
}

fn decoded<T>(result: Result<T, crate::codec::DecodeError>) -> RpcResult<T> {
    result.map_err(|error| RPCError::Network(NetworkError::new(&error)))
}

impl RaftNetworkV2<TypeConfig> for Network {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<TypeConfig>> {
        let mut client = self.client()?;
        let call = client.append(self.peers.frame(self.target, wire::put_append(&rpc)));
        let answer = tokio::time::timeout(option.hard_ttl(), call).await;
        decoded(wire::appended(self.body(answer)?))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, RpcResult<BoxStream<'s, RpcResult<StreamAppendResult<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        Box::pin(async move {
            let mut client = match self.client() {
                Ok(client) => client,
                Err(error) => return unreachable_for_now(error).await,
            };
            let (sent, peers, target) = (Unanswered::default(), self.peers.clone(), self.target);
            let noted = sent.clone();
            let frames = input.map(move |request| {
                noted.sent();
                peers.frame(target, wire::put_append(&request))
            });
            let call = tokio::time::timeout(APPEND_PATIENCE, client.append_stream(frames)).await;
            let answers = match call {
                Err(elapsed) => return Err(RPCError::Network(NetworkError::new(&elapsed))),
                Ok(Err(status)) => return unreachable_for_now(rpc_error(&status)).await,
                Ok(Ok(answers)) => answers,
            };
            let peers = self.peers.clone();
            let answers = stream::unfold(Some((answers, sent, peers)), |state| async move {
                let (mut answers, sent, peers) = state?;
                match next_answer(&mut answers, &sent, &peers).await? {
                    Ok(answer) => Some((Ok(answer), Some((answers, sent, peers)))),
                    Err(error) => Some((Err(error), None)),
                }
            });
            Ok(Box::pin(answers) as BoxStream<'s, _>)
        })
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> RpcResult<VoteResponse<TypeConfig>> {
        let mut client = self.client()?;
        let call = client.vote(self.peers.frame(self.target, wire::put_vote(&rpc)));
        let answer = tokio::time::timeout(option.hard_ttl(), call).await;
        decoded(wire::voted(self.body(answer)?))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        let mut client = self.client()?;
        let call = client.pre_vote(self.peers.frame(self.target, wire::put_vote(&rpc)));
        let answer = tokio::time::timeout(option.hard_ttl(), call).await;
        decoded(wire::voted(self.body(answer)?))
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<TransferLeaderResponse<TypeConfig>> {
        let mut client = self.client()?;
        let call = client.transfer_leader(self.peers.frame(self.target, wire::put_transfer(&request)));
        let answer = tokio::time::timeout(option.hard_ttl(), call).await;
        // Whether it took the lead is seen by its votes.
        self.body(answer).map(|_| Ok(()))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let mut client = self.client()?;
        let head = self.peers.frame(self.target, wire::put_installing(&vote, &snapshot.meta));
        let (peers, target) = (self.peers.clone(), self.target);
        let (failed, failure) = oneshot::channel();
        let chunks = chunks(snapshot.snapshot, failed).map(move |chunk| peers.frame(target, chunk));
        let frames = stream::iter([head]).chain(chunks);
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            // Leaving the call resets its stream: to the receiver it did not end, it broke.
            Ok(error) = failure => Err(RPCError::Network(NetworkError::new(&error)).into()),
            answer = client.install(Box::pin(frames)) => Ok(decoded(wire::installed(self.body(Ok(answer))?))?),
        }
    }
}

/// The file in pieces. One that cannot be read is told through `failed`, and then nothing follows, not even the end.
fn chunks(file: SnapshotFile, failed: oneshot::Sender<io::Error>) -> impl Stream<Item = Vec<u8>> + Send {
    stream::unfold((0, file, failed), |(at, file, failed)| async move {
        let reader = file.clone();
        let chunk = offload(move || read_chunk(&reader, at)).await.map_err(io::Error::other).flatten();
        match chunk {
            Ok(chunk) => chunk.map(|chunk| {
                let next = at + chunk.len() as u64;
                (chunk, (next, file, failed))
            }),
            Err(error) => {
                // Whoever does not listen any more has left the call.
                let _ = failed.send(error);
                std::future::pending().await
            }
        }
    })
}

fn read_chunk(file: &SnapshotFile, at: u64) -> io::Result<Option<Vec<u8>>> {
    let mut chunk = vec![0; CHUNK];
    let n = file.file.read_at(&mut chunk, at)?;
    chunk.truncate(n);
    Ok((n > 0).then_some(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::mvcc::Mvcc;
    use crate::raft::roster::Roster;
    use std::collections::BTreeMap;

    #[tokio::test]
    async fn a_member_that_cannot_be_reached_is_not_tried_again_at_once() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let roster = Roster::new(&BTreeMap::from([(2, closed)]));
        let peers = Peers::new("state", 1, Hub::new(Mvcc::default()), None, roster);
        for (target, what) in [(2, "nobody listens"), (3, "nobody knows its address")] {
            let mut network = Network { peers: peers.clone(), target };
            let before = Instant::now();
            let failed = network.stream_append(stream::pending(), RPCOption::new(APPEND_PATIENCE)).await;
            assert!(matches!(failed, Err(RPCError::Unreachable(_))), "{what}");
            // Raft calls again when this returns.
            assert!(before.elapsed() >= RECONNECT_PAUSE, "{what}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_breaks_its_stream() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.snap");
        std::fs::write(&path, b"some bytes").unwrap();
        let mut file = SnapshotFile::open_on(&crate::disk::RealDisk::shared(), &path).unwrap();
        let (failed, mut failure) = oneshot::channel();
        let whole: Vec<_> = chunks(file.clone(), failed).collect().await;
        assert_eq!(whole, [b"some bytes".to_vec()]);
        assert!(failure.try_recv().is_err());

        file.file = Arc::new(std::fs::OpenOptions::new().append(true).open(&path).unwrap());
        let (failed, failure) = oneshot::channel();
        let mut broken = std::pin::pin!(chunks(file, failed));
        tokio::select! {
            chunk = broken.next() => panic!("the stream went on with {chunk:?}"),
            error = failure => assert!(error.is_ok()),
        }
    }
}
