//! A revisioned, replicated map of bytes: what is stored, at which revision, and who watches it.
//!
//! This crate knows keys, values and revisions. It never knows a Kubernetes kind, JSON or HTTP.

mod api;
mod archive;
mod backup;
mod codec;
mod counts;
mod disk;
mod etcd;
#[cfg(test)]
mod fuzz;
mod group;
mod hub;
mod limits;
mod mem;
mod mvcc;
mod offload;
mod peer;
mod plant;
mod raft;
mod reply;
mod signal;
#[cfg(test)]
mod sim;
mod sink;
mod wal;

pub use api::{
    Compare, CompareTarget, Delete, Event, EventKind, KeyValue, LeaseId, Only, Op, OpReply, Put, RangeReply,
    RangeRequest, Relation, Revision, SortBy, Store, StoreError, Txn, TxnReply, Watch, WatchBatch, WatchRequest,
    prefix_end,
};
/// The generated wires: see `proto/`.
mod proto {
    #![allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
    tonic::include_proto!("gantry.store.v1");

    pub mod health {
        tonic::include_proto!("grpc.health.v1");
    }

    pub mod etcd {
        tonic::include_proto!("etcdserverpb");
    }
}

pub use backup::{BackupError, Restore, SavedSnapshot, inspect, restore, save, save_stopped};
pub use etcd::{MemberStatus, RemoteStore, member_status};
pub use group::{Ended, Group, GroupConfig, GroupError, IdentityError, Reading, metrics_text};
pub use hub::HubStats;
pub use limits::{MAX_KEY_BYTES, MAX_OPERATIONS, MAX_TXN_BYTES, MAX_VALUE_BYTES};
pub use mem::MemStore;
pub use mvcc::{Caps, Retention};
pub use peer::{Gathered, StoreTls, TlsError};
