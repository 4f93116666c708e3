//! How members reach each other: gRPC over mutual TLS, one connection to each. It carries frames and decides nothing.

mod network;
mod server;
mod tls;
mod wire;

use crate::api::{LeaseId, Revision, StoreError};
use crate::codec::{DecodeError, Reader};
use crate::etcd::errors;
use crate::group::Standing;
use crate::mvcc::Reply;
use crate::proto::Frame;
use crate::proto::peer_client::PeerClient;
use crate::raft::roster::Roster;
use crate::reply;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

pub use network::Factory;
pub use server::PeerService;
pub use tls::{Services, StoreTls, TlsError, channel, serve};

/// The version of every frame's body.
const VERSION: u32 = 2;
/// Above any message: a batch of writes, a run of entries.
pub const MAX_MESSAGE: usize = 64 << 20;
/// Told by a member that does not lead; the write was certainly not taken.
const NOT_LEADER: &str = "not the leader";
const FORWARD_TIMEOUT: Duration = Duration::from_secs(10);

/// A write or a read that another member did not answer.
#[derive(Debug)]
pub enum ForwardError {
    /// Certainly not done: try the next leader.
    NotLeader,
    /// Certainly not done: the member cannot be reached.
    Unreachable(String),
    /// Perhaps done.
    Unknown(String),
    /// An answer.
    Store(StoreError),
}

/// Connections to the other members of one group. Cheap to clone; clones share them.
#[derive(Clone)]
pub struct Peers {
    group: Arc<str>,
    tls: Option<StoreTls>,
    pub roster: Roster,
    /// By member, with the address that each was made for.
    channels: Arc<Mutex<BTreeMap<u64, (String, Channel)>>>,
}

impl Peers {
    pub fn new(group: &str, tls: Option<&StoreTls>, roster: Roster) -> Self {
        Self { group: group.into(), tls: tls.cloned(), roster, channels: Arc::default() }
    }

    /// Connects when it is first used, and again when it broke or the member has moved. `None`: nobody knows where it is.
    pub fn channel(&self, id: u64) -> Option<Channel> {
        let address = self.roster.address(id)?;
        let mut channels = self.channels.lock();
        if let Some((known, channel)) = channels.get(&id)
            && *known == address
        {
            return Some(channel.clone());
        }
        match channel(&address, self.tls.as_ref()) {
            Ok(made) => {
                channels.insert(id, (address, made.clone()));
                Some(made)
            }
            Err(error) => {
                tracing::warn!(member = id, %error, "a member's address cannot be used");
                None
            }
        }
    }

    fn client(&self, id: u64) -> Option<PeerClient<Channel>> {
        let client = PeerClient::new(self.channel(id)?);
        Some(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
    }

    fn frame(&self, body: impl Into<Bytes>) -> Frame {
        Frame { group: self.group.to_string(), version: VERSION, body: body.into() }
    }

    /// Passes encoded commands on to the leader.
    pub async fn propose(&self, leader: u64, commands: Bytes) -> Result<Vec<Reply>, ForwardError> {
        let mut client = self.client(leader).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.propose(self.frame(commands))).await?;
        reply::replies(&mut Reader::new(self.body(answer)?)).map_err(decoding)
    }

    /// Asks the leader for a revision that every acknowledged write is at or before.
    pub async fn read_index(&self, leader: u64) -> Result<Revision, ForwardError> {
        let mut client = self.client(leader).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.read_index(self.frame(Bytes::new()))).await?;
        Reader::new(self.body(answer)?).u64().map(Revision).map_err(decoding)
    }

    /// Asks the leader how a lease stands, after renewing it if so asked.
    pub async fn lease(&self, leader: u64, id: LeaseId, renew: bool) -> Result<Standing, ForwardError> {
        let mut client = self.client(leader).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.lease(self.frame(wire::put_lease(id, renew)))).await?;
        wire::standing(self.body(answer)?).map_err(decoding)
    }

    fn body(&self, frame: Frame) -> Result<Bytes, ForwardError> {
        check(&self.group, frame).map_err(|status| ForwardError::Unknown(status.to_string()))
    }
}

async fn within(call: impl Future<Output = Result<tonic::Response<Frame>, Status>>) -> Result<Frame, ForwardError> {
    match tokio::time::timeout(FORWARD_TIMEOUT, call).await {
        Err(_) => Err(ForwardError::Unknown("the leader did not answer in time".into())),
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(forward_error(status)),
    }
}

fn forward_error(status: Status) -> ForwardError {
    if status.code() == Code::FailedPrecondition && status.message() == NOT_LEADER {
        return ForwardError::NotLeader;
    }
    if let Some(error) = errors::known(&status) {
        return ForwardError::Store(error);
    }
    if never_sent(&status) {
        ForwardError::Unreachable(status.to_string())
    } else {
        ForwardError::Unknown(status.to_string())
    }
}

/// Whether a failed call certainly did not reach the other side: no connection could be made.
pub fn never_sent(status: &Status) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() || error.is::<tls::ConnectFailed>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The body of a frame of this group and version.
fn check(group: &str, frame: Frame) -> Result<Bytes, Status> {
    if frame.group != group {
        return Err(Status::invalid_argument(format!("this is group {group:?}, the frame is for {:?}", frame.group)));
    }
    if frame.version != VERSION {
        return Err(Status::invalid_argument(format!("unknown frame version {}", frame.version)));
    }
    Ok(frame.body)
}

fn decoding(error: DecodeError) -> ForwardError {
    ForwardError::Unknown(format!("the leader's answer cannot be decoded: {error}"))
}
