//! How members reach each other: gRPC over mutual TLS, one connection to each. It carries frames and decides nothing.

mod door;
mod forward;
mod gathered;
mod line;
mod network;
mod server;
mod tls;
mod trust;
pub mod wire;

use crate::api::{LeaseId, Revision, StoreError};
use crate::codec::{DecodeError, Reader};
use crate::etcd::errors;
use crate::group::{Greeting, Standing, Welcome};
use crate::hub::Hub;
use crate::proto::Frame;
use crate::proto::peer_client::PeerClient;
use crate::raft::roster::Roster;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

pub use forward::Forwarder;
pub use gathered::Gathered;
pub use line::Line;
pub use network::Factory;
pub use server::PeerService;
#[cfg(test)]
pub use tls::ConnectFailed;
pub use tls::{Services, StoreTls, TlsError, channel, serve};
pub use trust::distrust;

/// The version of every frame's body.
const VERSION: u32 = 2;
/// Above any message: a batch of writes, a run of entries.
pub const MAX_MESSAGE: usize = 64 << 20;
/// Told by a member that does not lead; the write was certainly not taken.
const NOT_LEADER: &str = "not the leader";
/// Different refusals that are logged, each once.
const STRANGERS: usize = 16;
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
    member: u64,
    hub: Arc<Hub>,
    tls: Option<StoreTls>,
    pub roster: Roster,
    /// Until it does, its member hears greetings only.
    pub takes_part: Arc<AtomicBool>,
    /// What was last said about members that do not belong together: it is said once.
    strangers: Arc<Mutex<BTreeSet<String>>>,
    /// By member, with the address that each was made for.
    channels: Arc<Mutex<BTreeMap<u64, (String, Channel)>>>,
    /// Instead of connections.
    #[cfg(test)]
    pub simulated: Option<crate::sim::Lines>,
}

impl Peers {
    pub fn new(group: &str, member: u64, hub: Arc<Hub>, tls: Option<&StoreTls>, roster: Roster) -> Self {
        let (channels, strangers) = (Arc::default(), Arc::default());
        Self {
            group: group.into(),
            member,
            hub,
            tls: tls.cloned(),
            roster,
            takes_part: Arc::new(AtomicBool::new(true)),
            channels,
            strangers,
            #[cfg(test)]
            simulated: None,
        }
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The cluster that this member belongs to; 0 until it is known.
    fn cluster(&self) -> u64 {
        self.hub.look(|state| state.identity().map_or(0, |identity| identity.cluster))
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

    fn line(&self, id: u64) -> Option<Line> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return Some(Line::Simulated(simulated.line(id)));
        }
        let client = PeerClient::new(self.channel(id)?);
        Some(Line::Wire(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE)))
    }

    /// `to` is 0 in an answer.
    fn frame(&self, to: u64, body: impl Into<Bytes>) -> Frame {
        let (group, cluster) = (self.group.to_string(), self.cluster());
        Frame { group, version: VERSION, body: body.into(), cluster, from: self.member, to }
    }

    /// The body of a frame that is for this member, if it takes part.
    fn check(&self, frame: Frame) -> Result<Bytes, Status> {
        if !self.takes_part.load(Ordering::Acquire) {
            return Err(Status::unavailable(format!("member {} takes no part yet", self.member)));
        }
        self.check_greeting(frame)
    }

    fn check_greeting(&self, frame: Frame) -> Result<Bytes, Status> {
        let ours = Ours { group: &self.group, cluster: self.cluster(), member: self.member };
        check(&ours, frame).inspect_err(|refusal| {
            if self.is_news(refusal.message()) {
                tracing::error!(member = self.member, "refused a member's message: {}", refusal.message());
            }
        })
    }

    /// Says once what is strange about another member.
    pub fn warn_of(&self, what: &str) {
        if self.is_news(what) {
            tracing::warn!(group = &*self.group, member = self.member, "{what}");
        }
    }

    fn is_news(&self, what: &str) -> bool {
        let mut said = self.strangers.lock();
        said.len() < STRANGERS && said.insert(what.to_owned())
    }

    pub async fn greet(&self, id: u64, greeting: &Greeting) -> Result<Welcome, ForwardError> {
        let mut client = self.line(id).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.greet(self.frame(id, wire::put_greeting(greeting)))).await?;
        let body = self.check_greeting(answer).map_err(|status| ForwardError::Unknown(status.to_string()))?;
        wire::welcome(body).map_err(decoding)
    }

    /// Asks the leader for a revision that every acknowledged write is at or before.
    pub async fn read_index(&self, leader: u64) -> Result<Revision, ForwardError> {
        let mut client = self.line(leader).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.read_index(self.frame(leader, Bytes::new()))).await?;
        Reader::new(self.body(answer)?).u64().map(Revision).map_err(decoding)
    }

    /// Asks the leader how a lease stands, after renewing it if so asked.
    pub async fn lease(&self, leader: u64, id: LeaseId, renew: bool) -> Result<Standing, ForwardError> {
        let mut client = self.line(leader).ok_or(ForwardError::NotLeader)?;
        let answer = within(client.lease(self.frame(leader, wire::put_lease(id, renew)))).await?;
        wire::standing(self.body(answer)?).map_err(decoding)
    }

    fn body(&self, frame: Frame) -> Result<Bytes, ForwardError> {
        self.check(frame).map_err(|status| ForwardError::Unknown(status.to_string()))
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

/// Who the receiver of a frame is; cluster 0 is not known yet.
struct Ours<'a> {
    group: &'a str,
    cluster: u64,
    member: u64,
}

/// The body of a frame of this group, cluster and version that was meant for this member.
fn check(ours: &Ours<'_>, frame: Frame) -> Result<Bytes, Status> {
    let Frame { group, version, body, cluster, from, to } = frame;
    let refuse = |text: String| Err(Status::failed_precondition(text));
    if group != ours.group {
        return refuse(format!("this is group {:?}, member {from} is of group {group:?}", ours.group));
    }
    if version != VERSION {
        return Err(Status::invalid_argument(format!("unknown frame version {version}")));
    }
    if cluster != 0 && ours.cluster != 0 && cluster != ours.cluster {
        let ours = ours.cluster;
        return refuse(format!("this member is of cluster {ours:016x}, member {from} of cluster {cluster:016x}"));
    }
    if to != 0 && to != ours.member {
        return refuse(format!("this is member {}, member {from} takes it for member {to}", ours.member));
    }
    Ok(body)
}

fn decoding(error: DecodeError) -> ForwardError {
    ForwardError::Unknown(format!("the leader's answer cannot be decoded: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_of_one_group_and_cluster_understand_each_other() {
        let frame = |group: &str, cluster, to| Frame {
            group: group.into(),
            version: VERSION,
            body: "b".into(),
            cluster,
            from: 2,
            to,
        };
        let rows = [
            (frame("state", 7, 1), 7, None),
            (frame("state", 0, 1), 7, None),
            (frame("state", 7, 0), 0, None),
            (frame("leases", 7, 1), 7, Some("this is group \"state\", member 2 is of group \"leases\"")),
            (frame("state", 8, 1), 7, Some("of cluster 0000000000000007, member 2 of cluster 0000000000000008")),
            (frame("state", 7, 3), 7, Some("this is member 1, member 2 takes it for member 3")),
            (Frame { version: VERSION + 1, ..frame("state", 7, 1) }, 7, Some("unknown frame version")),
        ];
        for (frame, cluster, expect) in rows {
            let what = format!("{frame:?}");
            let answer = check(&Ours { group: "state", cluster, member: 1 }, frame);
            match expect {
                None => assert_eq!(answer.unwrap(), "b", "{what}"),
                Some(text) => {
                    let error = answer.unwrap_err();
                    assert!(error.message().contains(text), "{what}: {error}");
                }
            }
        }
    }
}
