//! A revisioned, replicated map of bytes: what is stored, at which revision, and who watches it.
//!
//! This crate knows keys, values and revisions. It never knows a Kubernetes kind, JSON or HTTP.

mod api;
mod codec;
mod hub;
mod limits;
mod mem;
mod mvcc;
mod raft;
mod wal;

pub use api::{
    Compare, CompareTarget, Event, EventKind, KeyValue, Op, OpReply, RangeReply, RangeRequest, Revision, Store,
    StoreError, Txn, TxnReply, Watch, WatchBatch, WatchRequest, prefix_end,
};
pub use limits::{MAX_KEY_BYTES, MAX_OPERATIONS, MAX_TXN_BYTES, MAX_VALUE_BYTES};
pub use mem::MemStore;
