//! Openraft's type parameters for this store, and their bytes.

use crate::codec::{self, DecodeError, Reader, put_bytes, put_u64};
use crate::mvcc;
use crate::sink::{Sink, Spots};
use bytes::Bytes;
use openraft::type_config::alias::{LogIdOf, SnapshotMetaOf, StoredMembershipOf, VoteOf};
use openraft::{BasicNode, EntryPayload, Membership};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

#[cfg(test)]
pub use crate::sim::Runtime;
#[cfg(not(test))]
pub use openraft::TokioRuntime as Runtime;

openraft::declare_raft_types!(
    /// One group of the store.
    pub TypeConfig:
        D = Proposal,
        R = mvcc::Applied,
        NodeId = u64,
        Node = BasicNode,
        AsyncRuntime = Runtime,
);

pub type LogId = LogIdOf<TypeConfig>;
pub type Vote = VoteOf<TypeConfig>;
pub type RaftEntry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub type Meta = SnapshotMetaOf<TypeConfig>;
pub type Stored = StoredMembershipOf<TypeConfig>;
type LeaderId = openraft::type_config::alias::LeaderIdOf<TypeConfig>;

/// One log entry's content, shared between the log's cache, the replication streams and the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal(pub Arc<mvcc::Entry>);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.0.commands.len())
    }
}

pub fn put_log_id(out: &mut impl Sink, id: &LogId) {
    put_u64(out, id.leader_id.term);
    put_u64(out, id.leader_id.node_id);
    put_u64(out, id.index);
}

pub fn log_id(from: &mut Reader) -> Result<LogId, DecodeError> {
    let leader_id = LeaderId { term: from.u64()?, node_id: from.u64()? };
    Ok(LogId { leader_id, index: from.u64()? })
}

pub fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

pub fn option<T>(
    from: &mut Reader,
    read: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match from.u8()? {
        0 => Ok(None),
        1 => read(from).map(Some),
        tag => Err(DecodeError::Tag { what: "option", tag }),
    }
}

pub fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    put_u64(out, vote.leader_id.term);
    put_u64(out, vote.leader_id.node_id);
    out.put_u8(u8::from(vote.committed));
}

pub fn vote(from: &mut Reader) -> Result<Vote, DecodeError> {
    let leader_id = LeaderId { term: from.u64()?, node_id: from.u64()? };
    Ok(Vote { leader_id, committed: from.u8()? != 0 })
}

fn put_membership(out: &mut Vec<u8>, membership: &Membership<u64, BasicNode>) {
    let configs = membership.get_joint_config();
    put_u64(out, configs.len() as u64);
    for config in configs {
        put_u64(out, config.len() as u64);
        config.iter().for_each(|id| put_u64(out, *id));
    }
    let nodes: Vec<_> = membership.nodes().collect();
    put_u64(out, nodes.len() as u64);
    for (id, node) in nodes {
        put_u64(out, *id);
        put_bytes(out, node.addr.as_bytes());
    }
}

fn membership(from: &mut Reader) -> Result<Membership<u64, BasicNode>, DecodeError> {
    let mut configs = Vec::new();
    for _ in 0..from.len()? {
        let config: Result<BTreeSet<u64>, _> = (0..from.len()?).map(|_| from.u64()).collect();
        configs.push(config?);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..from.len()? {
        let id = from.u64()?;
        nodes.insert(id, BasicNode::new(String::from_utf8_lossy(&from.bytes()?)));
    }
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(configs, nodes).map_err(|_| DecodeError::Range)
}

pub fn put_stored(out: &mut Vec<u8>, stored: &Stored) {
    put_option(out, stored.log_id().as_ref(), put_log_id);
    put_membership(out, stored.membership());
}

pub fn stored(from: &mut Reader) -> Result<Stored, DecodeError> {
    Ok(Stored::new(option(from, log_id)?, membership(from)?))
}

pub fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    put_option(out, meta.last_log_id.as_ref(), put_log_id);
    put_stored(out, &meta.last_membership);
}

pub fn meta(from: &mut Reader) -> Result<Meta, DecodeError> {
    Ok(Meta { last_log_id: option(from, log_id)?, last_membership: stored(from)? })
}

/// Where an entry's content begins in the entry's bytes.
pub fn content_at(id: &LogId) -> usize {
    let mut before = Spots::default();
    put_log_id(&mut before, id);
    before.put_u8(1);
    before.at
}

/// The log id comes first, so that recovery reads it without the rest.
pub fn put_entry(out: &mut Vec<u8>, entry: &RaftEntry) {
    put_log_id(out, &entry.log_id);
    match &entry.payload {
        EntryPayload::Blank => out.put_u8(0),
        EntryPayload::Normal(proposal) => {
            out.put_u8(1);
            codec::put_entry(out, &proposal.0);
        }
        EntryPayload::Membership(membership) => {
            out.put_u8(2);
            put_membership(out, membership);
        }
    }
}

pub fn entry(from: &mut Reader) -> Result<RaftEntry, DecodeError> {
    let log_id = log_id(from)?;
    let payload = match from.u8()? {
        0 => EntryPayload::Blank,
        1 => EntryPayload::Normal(Proposal(Arc::new(codec::entry(from)?))),
        2 => EntryPayload::Membership(membership(from)?),
        tag => return Err(DecodeError::Tag { what: "payload", tag }),
    };
    Ok(RaftEntry { log_id, payload })
}

pub fn decode_entry(bytes: Bytes) -> Result<RaftEntry, DecodeError> {
    let mut reader = Reader::new(bytes);
    let entry = entry(&mut reader)?;
    reader.end()?;
    Ok(entry)
}
