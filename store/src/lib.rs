//! A revisioned, replicated map of bytes: what is stored, at which revision, and who watches it.
//!
//! This crate knows keys, values and revisions. It never knows a Kubernetes kind, JSON or HTTP.

mod api;
mod codec;
mod group;
mod hub;
mod kv;
mod limits;
mod mem;
mod mvcc;
mod peer;
mod raft;
mod reply;
mod wal;

pub use api::{
    Compare, CompareTarget, Event, EventKind, KeyValue, Op, OpReply, RangeReply, RangeRequest, Revision, Store,
    StoreError, Txn, TxnReply, Watch, WatchBatch, WatchRequest, prefix_end,
};
/// The generated wire: see `proto/store.proto`.
mod proto {
    #![allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
    tonic::include_proto!("gantry.store.v1");
}

pub use group::{Group, GroupConfig, GroupError, GroupStats};
pub use kv::RemoteStore;
pub use limits::{MAX_KEY_BYTES, MAX_OPERATIONS, MAX_TXN_BYTES, MAX_VALUE_BYTES};
pub use mem::MemStore;
pub use mvcc::Retention;
pub use peer::{StoreTls, TlsError};
