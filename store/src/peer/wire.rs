//! The bodies of Raft's messages between members.

use super::ForwardError;
use crate::api::LeaseId;
use crate::codec::{self, DecodeError, Reader, put_bytes, put_u64};
use crate::group::{Greeting, ProposeError, Standing, Welcome};
use crate::mvcc::{Command, Entry, Reply};
use crate::raft::types::{self, TypeConfig, log_id, option, put_log_id, put_option};
use crate::reply;
use bytes::{BufMut, Bytes};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, VoteRequest, VoteResponse,
};
use std::collections::BTreeMap;

pub fn put_append(request: &AppendEntriesRequest<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, &request.vote);
    put_option(&mut out, request.prev_log_id.as_ref(), put_log_id);
    put_option(&mut out, request.leader_commit.as_ref(), put_log_id);
    put_u64(&mut out, request.entries.len() as u64);
    request.entries.iter().for_each(|entry| types::put_entry(&mut out, entry));
    out
}

pub fn append(body: Bytes) -> Result<AppendEntriesRequest<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    let vote = types::vote(&mut from)?;
    let prev_log_id = option(&mut from, log_id)?;
    let leader_commit = option(&mut from, log_id)?;
    let entries = from.list(types::entry)?;
    from.end()?;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

pub fn put_appended(response: &AppendEntriesResponse<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    match response {
        AppendEntriesResponse::Success => out.put_u8(1),
        AppendEntriesResponse::PartialSuccess(id) => {
            out.put_u8(2);
            put_option(&mut out, id.as_ref(), put_log_id);
        }
        AppendEntriesResponse::Conflict => out.put_u8(3),
        AppendEntriesResponse::HigherVote(vote) => {
            out.put_u8(4);
            types::put_vote(&mut out, vote);
        }
    }
    out
}

pub fn appended(body: Bytes) -> Result<AppendEntriesResponse<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    Ok(match from.u8()? {
        1 => AppendEntriesResponse::Success,
        2 => AppendEntriesResponse::PartialSuccess(option(&mut from, log_id)?),
        3 => AppendEntriesResponse::Conflict,
        4 => AppendEntriesResponse::HigherVote(types::vote(&mut from)?),
        tag => return Err(DecodeError::Tag { what: "append response", tag }),
    })
}

/// The answer to one request of a stream.
pub fn put_streamed(result: &StreamAppendResult<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(id) => {
            out.put_u8(1);
            put_option(&mut out, id.as_ref(), put_log_id);
        }
        Err(StreamAppendError::Conflict(id)) => {
            out.put_u8(2);
            put_log_id(&mut out, id);
        }
        Err(StreamAppendError::HigherVote(vote)) => {
            out.put_u8(3);
            types::put_vote(&mut out, vote);
        }
    }
    out
}

pub fn streamed(body: Bytes) -> Result<StreamAppendResult<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    Ok(match from.u8()? {
        1 => Ok(option(&mut from, log_id)?),
        2 => Err(StreamAppendError::Conflict(log_id(&mut from)?)),
        3 => Err(StreamAppendError::HigherVote(types::vote(&mut from)?)),
        tag => return Err(DecodeError::Tag { what: "stream append response", tag }),
    })
}

pub fn put_vote(request: &VoteRequest<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, &request.vote);
    put_option(&mut out, request.last_log_id.as_ref(), put_log_id);
    out.put_u8(u8::from(request.leadership_transfer));
    out
}

pub fn vote(body: Bytes) -> Result<VoteRequest<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    let mut request = VoteRequest::new(types::vote(&mut from)?, option(&mut from, log_id)?);
    request.leadership_transfer = from.u8()? != 0;
    Ok(request)
}

pub fn put_voted(response: &VoteResponse<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, &response.vote);
    put_option(&mut out, response.last_log_id.as_ref(), put_log_id);
    out.put_u8(u8::from(response.vote_granted));
    out
}

pub fn voted(body: Bytes) -> Result<VoteResponse<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    let (vote, last) = (types::vote(&mut from)?, option(&mut from, log_id)?);
    Ok(VoteResponse::new(vote, last, from.u8()? != 0))
}

/// A numbered batch of writes for the leader.
pub fn put_forward(number: u64, entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, number);
    codec::put_entry(&mut out, entry);
    out
}

pub fn forward(body: Bytes) -> Result<(u64, Vec<Command>), DecodeError> {
    let mut from = Reader::new(body);
    Ok((from.u64()?, codec::entry(&mut from)?.commands))
}

pub fn put_forwarded(number: u64, outcome: &Result<Vec<Reply>, ProposeError>) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, number);
    match outcome {
        Ok(replies) => {
            out.put_u8(1);
            reply::put_replies(&mut out, replies);
        }
        Err(ProposeError::NotLeader(_)) => out.put_u8(2),
        Err(ProposeError::Store(error)) => {
            out.put_u8(3);
            reply::put_error(&mut out, error);
        }
    }
    out
}

pub fn forwarded(body: Bytes) -> Result<(u64, Result<Vec<Reply>, ForwardError>), DecodeError> {
    let mut from = Reader::new(body);
    let number = from.u64()?;
    let outcome = match from.u8()? {
        1 => Ok(reply::replies(&mut from)?),
        2 => Err(ForwardError::NotLeader),
        3 => Err(ForwardError::Store(reply::error(&mut from)?)),
        tag => return Err(DecodeError::Tag { what: "answer to a batch of writes", tag }),
    };
    from.end()?;
    Ok((number, outcome))
}

pub fn put_lease(id: LeaseId, renew: bool) -> Vec<u8> {
    let mut out = Vec::new();
    codec::put_lease(&mut out, id);
    out.put_u8(u8::from(renew));
    out
}

pub fn lease(body: Bytes) -> Result<(LeaseId, bool), DecodeError> {
    let mut from = Reader::new(body);
    Ok((codec::lease(&mut from)?, from.u8()? != 0))
}

pub fn put_standing(standing: &Standing) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, standing.ttl_s.cast_unsigned());
    put_u64(&mut out, standing.left_s.cast_unsigned());
    out
}

pub fn standing(body: Bytes) -> Result<Standing, DecodeError> {
    let mut from = Reader::new(body);
    Ok(Standing { ttl_s: from.u64()?.cast_signed(), left_s: from.u64()?.cast_signed() })
}

pub fn put_transfer(request: &TransferLeaderRequest<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, request.from_leader());
    put_u64(&mut out, *request.to_node_id());
    put_option(&mut out, request.last_log_id(), put_log_id);
    out
}

pub fn transfer(body: Bytes) -> Result<TransferLeaderRequest<TypeConfig>, DecodeError> {
    let mut from = Reader::new(body);
    let (vote, to) = (types::vote(&mut from)?, from.u64()?);
    Ok(TransferLeaderRequest::new(vote, to, option(&mut from, log_id)?))
}

fn put_incarnations(out: &mut Vec<u8>, of: &BTreeMap<u64, u64>) {
    put_u64(out, of.len() as u64);
    for (member, incarnation) in of {
        put_u64(out, *member);
        out.put_u64_le(*incarnation);
    }
}

fn incarnations(from: &mut Reader) -> Result<BTreeMap<u64, u64>, DecodeError> {
    Ok(from.list(|from| Ok((from.u64()?, from.u64_le()?)))?.into_iter().collect())
}

pub fn put_greeting(greeting: &Greeting) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u64_le(greeting.incarnation);
    out.put_u8(u8::from(greeting.keep));
    put_incarnations(&mut out, &greeting.known);
    out
}

pub fn greeting(body: Bytes) -> Result<Greeting, DecodeError> {
    let mut from = Reader::new(body);
    Ok(Greeting { incarnation: from.u64_le()?, keep: from.u8()? != 0, known: incarnations(&mut from)? })
}

pub fn put_welcome(welcome: &Welcome) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [welcome.incarnation, welcome.begins, welcome.kept] {
        out.put_u64_le(number);
    }
    out.put_u8(u8::from(welcome.exists));
    put_incarnations(&mut out, &welcome.known);
    put_u64(&mut out, welcome.as_of);
    put_u64(&mut out, welcome.members.len() as u64);
    for (member, (address, decides)) in &welcome.members {
        put_u64(&mut out, *member);
        put_bytes(&mut out, address.as_bytes());
        out.put_u8(u8::from(*decides));
    }
    out
}

pub fn welcome(body: Bytes) -> Result<Welcome, DecodeError> {
    let mut from = Reader::new(body);
    let (incarnation, begins, kept) = (from.u64_le()?, from.u64_le()?, from.u64_le()?);
    let (exists, known, as_of) = (from.u8()? != 0, incarnations(&mut from)?, from.u64()?);
    let members = from.list(|from| {
        let (member, address) = (from.u64()?, from.bytes()?);
        let address = String::from_utf8(address.to_vec()).map_err(|_| DecodeError::Range)?;
        Ok((member, (address, from.u8()? != 0)))
    })?;
    Ok(Welcome { incarnation, begins, kept, exists, known, as_of, members: members.into_iter().collect() })
}

pub fn put_installing(vote: &types::Vote, meta: &types::Meta) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, vote);
    types::put_meta(&mut out, meta);
    out
}

pub fn installing(body: Bytes) -> Result<(types::Vote, types::Meta), DecodeError> {
    let mut from = Reader::new(body);
    Ok((types::vote(&mut from)?, types::meta(&mut from)?))
}

pub fn put_installed(response: &SnapshotResponse<TypeConfig>) -> Vec<u8> {
    let mut out = Vec::new();
    types::put_vote(&mut out, &response.vote);
    out
}

pub fn installed(body: Bytes) -> Result<SnapshotResponse<TypeConfig>, DecodeError> {
    types::vote(&mut Reader::new(body)).map(SnapshotResponse::new)
}
