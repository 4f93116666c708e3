//! etcd's codes and texts, which its clients match on, and what they mean here. Between our own members and API servers a
//! header carries the error exactly.
//!
//! Source: etcd's `api/v3rpc/rpctypes/error.go`.

use crate::api::{LeaseId, Revision, StoreError};
use crate::codec::Reader;
use crate::reply;
use bytes::Bytes;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tonic::{Code, Status};

/// Holds the error in the store's own encoding.
const EXACT: &str = "gantry-error-bin";

pub const EMPTY_KEY: (Code, &str) = (Code::InvalidArgument, "etcdserver: key is not provided");
pub const VALUE_PROVIDED: (Code, &str) = (Code::InvalidArgument, "etcdserver: value is provided");
pub const LEASE_PROVIDED: (Code, &str) = (Code::InvalidArgument, "etcdserver: lease is provided");
pub const TTL_TOO_LARGE: (Code, &str) = (Code::OutOfRange, "etcdserver: too large lease TTL");
pub const AUTH_NOT_ENABLED: (Code, &str) = (Code::FailedPrecondition, "etcdserver: authentication is not enabled");
pub const NOT_LEADER: (Code, &str) = (Code::FailedPrecondition, "etcdserver: not leader");
pub const MEMBER_NOT_FOUND: (Code, &str) = (Code::NotFound, "etcdserver: member not found");
pub const PEER_URL_EXISTS: (Code, &str) = (Code::FailedPrecondition, "etcdserver: Peer URLs already exists");
pub const BAD_URLS: (Code, &str) = (Code::InvalidArgument, "etcdserver: given member URLs are invalid");
pub const NOT_LEARNER: (Code, &str) = (Code::FailedPrecondition, "etcdserver: can only promote a learner member");
pub const LEARNER_BEHIND: (Code, &str) =
    (Code::FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader");
pub const KEY_NOT_FOUND: (Code, &str) = (Code::InvalidArgument, "etcdserver: key not found");
pub const BAD_TRANSFEREE: (Code, &str) = (Code::FailedPrecondition, "etcdserver: bad leader transferee");
pub const TOO_DEEP: (Code, &str) = (Code::InvalidArgument, "etcdserver: transactions are nested too deeply");
const LEARNER: &str = "etcdserver: rpc not supported for learner";
const TOO_MANY_OPS: (Code, &str) = (Code::InvalidArgument, "etcdserver: too many operations in txn request");
const DUPLICATE_KEY: (Code, &str) = (Code::InvalidArgument, "etcdserver: duplicate key given in txn request");
const TOO_LARGE: (Code, &str) = (Code::InvalidArgument, "etcdserver: request is too large");
const COMPACTED: (Code, &str) = (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted");
const FUTURE: (Code, &str) = (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision");
const LEASE_NOT_FOUND: (Code, &str) = (Code::NotFound, "etcdserver: requested lease not found");
const LEASE_EXISTS: (Code, &str) = (Code::FailedPrecondition, "etcdserver: lease already exists");
pub const NO_LEADER: (Code, &str) = (Code::Unavailable, "etcdserver: no leader");
const TIMEOUT: (Code, &str) = (Code::Unavailable, "etcdserver: request timed out");
const NO_SPACE: (Code, &str) = (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
/// How etcd's gRPC server refuses a request by its length, before it reads it.
const LARGER_THAN_MAX: &str = "grpc: received message larger than max";
/// Unless an etcd was told otherwise.
const ETCDS_OPERATIONS: usize = 128;
const CORRUPT: (Code, &str) = (Code::DataLoss, "etcdserver: corrupt cluster");

pub fn plain((code, text): (Code, &str)) -> Status {
    Status::new(code, text)
}

/// What a learner does not do; another member does it.
pub fn learner() -> Status {
    let exact = status(StoreError::Unavailable(LEARNER.to_owned()));
    Status::with_metadata(Code::Unavailable, LEARNER, exact.metadata().clone())
}

pub fn status(error: StoreError) -> Status {
    let full = format!("etcdserver: {error}");
    let (code, text) = match &error {
        StoreError::Compacted { .. } => COMPACTED,
        StoreError::Future { .. } => FUTURE,
        StoreError::TooLarge { .. } => TOO_LARGE,
        StoreError::TooManyOps { .. } => TOO_MANY_OPS,
        StoreError::DuplicateKey(_) => DUPLICATE_KEY,
        StoreError::NoKey(_) => KEY_NOT_FOUND,
        StoreError::NoLease(_) => LEASE_NOT_FOUND,
        StoreError::LeaseExists(_) => LEASE_EXISTS,
        StoreError::Unavailable(_) => NO_LEADER,
        StoreError::Unknown(_) => TIMEOUT,
        StoreError::Corrupt(_) => CORRUPT,
        StoreError::NoSpace => NO_SPACE,
        StoreError::Invalid(text) => (Code::InvalidArgument, &text[..]),
        StoreError::DiskFull { .. } => (Code::ResourceExhausted, &full[..]),
        // Clients ask the next member.
        StoreError::Unreadable(_) => (Code::Unavailable, &full[..]),
        StoreError::Slow => (Code::ResourceExhausted, "etcdserver: too many requests"),
    };
    let mut exact = Vec::new();
    reply::put_error(&mut exact, &error);
    let mut headers = MetadataMap::new();
    headers.insert_bin(EXACT, BinaryMetadataValue::from_bytes(&exact));
    Status::with_metadata(code, text, headers)
}

/// What the decoder refuses, in etcd's words: a message that is too long, or nested too deeply.
pub fn in_etcds_words<B: Default>(response: http::Response<B>) -> http::Response<B> {
    let Some(refusal) = Status::from_header_map(response.headers()) else { return response };
    let text = refusal.message();
    match refusal.code() {
        Code::OutOfRange if text.contains("message length too large") => {
            Status::new(Code::ResourceExhausted, LARGER_THAN_MAX).into_http()
        }
        Code::Internal if text.contains("recursion limit") => plain(TOO_DEEP).into_http(),
        _ => response,
    }
}

/// What a failed call to a store says, if it says so in a way that both sides know.
pub fn known(status: &Status) -> Option<StoreError> {
    if let Some(exact) = status.metadata().get_bin(EXACT)
        && let Ok(exact) = exact.to_bytes()
    {
        return reply::error(&mut Reader::new(exact)).ok();
    }
    let none = Revision(0);
    let too_large = StoreError::TooLarge { what: "the request", size: 0, limit: 0 };
    if status.code() == Code::ResourceExhausted && status.message().starts_with(LARGER_THAN_MAX) {
        return Some(too_large);
    }
    Some(match (status.code(), status.message()) {
        COMPACTED => StoreError::Compacted { requested: none, oldest: none },
        FUTURE => StoreError::Future { requested: none, current: none },
        TOO_LARGE => too_large,
        TOO_MANY_OPS => StoreError::TooManyOps { limit: ETCDS_OPERATIONS },
        DUPLICATE_KEY => StoreError::DuplicateKey(Bytes::new()),
        NO_LEADER => StoreError::Unavailable(NO_LEADER.1.to_owned()),
        NO_SPACE => StoreError::NoSpace,
        LEASE_NOT_FOUND => StoreError::NoLease(LeaseId::NONE),
        CORRUPT => StoreError::Corrupt(CORRUPT.1.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_sides_understand_each_other_exactly() {
        let errors = [
            StoreError::Compacted { requested: Revision(1), oldest: Revision(2) },
            StoreError::NoLease(LeaseId(7)),
            StoreError::Unavailable("no leader".into()),
        ];
        for error in errors {
            let text = format!("{error:?}");
            assert_eq!(format!("{:?}", known(&status(error)).unwrap()), text);
        }
    }

    #[test]
    fn etcds_texts_are_known() {
        let rows = [
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", "Compacted"),
            (Code::InvalidArgument, "etcdserver: request is too large", "TooLarge"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", "NoSpace"),
            (Code::Unavailable, "etcdserver: no leader", "Unavailable"),
            (Code::NotFound, "etcdserver: requested lease not found", "NoLease"),
        ];
        for (code, text, name) in rows {
            let found = known(&Status::new(code, text)).unwrap();
            assert!(format!("{found:?}").starts_with(name), "{text}: {found:?}");
        }
        // Whether a write that timed out was done is not known.
        assert!(known(&Status::new(Code::Unavailable, "etcdserver: request timed out")).is_none());
    }
}
