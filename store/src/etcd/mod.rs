//! etcd v3's interface: a group offered to etcd's clients, and a `Store` that uses a group or an etcd through it. Everything
//! here translates; what a request does is decided elsewhere.

mod auth;
mod batch;
pub mod cluster;
pub mod convert;
#[cfg(test)]
mod detail_tests;
pub mod errors;
pub mod health;
mod inquiry;
mod kv;
mod lease;
mod lifetime;
mod maintenance;
mod remote;
#[cfg(test)]
mod tests;
mod together;
mod watch;

use crate::api::Revision;
use crate::group::{Handle, Serving};
use crate::proto::etcd::{self, ResponseHeader};
use futures::future::BoxFuture;
use tonic::Status;

pub use batch::SERVICE_NAME as BATCH_SERVICE;
pub use inquiry::{MemberStatus, member_status};
pub use remote::RemoteStore;

use crate::proto::batch_server::BatchServer;
use crate::proto::health::health_server::HealthServer;
use etcd::auth_server::AuthServer;
use etcd::cluster_server::ClusterServer;
use etcd::kv_server::KvServer;
use etcd::lease_server::LeaseServer;
use etcd::maintenance_server::MaintenanceServer;
use etcd::watch_server::WatchServer;

/// Set by our own clients, who know that an answer may be a part of what they asked for. Others get it whole, as etcd gives it.
const BOUNDED: &str = "gantry-bounded";

/// Set (to `true`) by a client that would rather hear nothing than what may be old, because nobody leads.
const HAS_LEADER: &str = "hasleader";

/// Set in a member's status, so that our own clients know it from an etcd.
const OURS: &str = "gantry-store";

/// One member as its clients see it.
#[derive(Clone)]
pub struct Face {
    store: Serving,
    handle: Handle,
}

impl Face {
    /// Refuses a request that asks for a leader while there is none (etcd's rule). Tells whether it asks.
    pub fn check_leader(&self, headers: &http::HeaderMap) -> Result<bool, Status> {
        let asks = headers.get(HAS_LEADER).is_some_and(|value| value.as_bytes() == b"true");
        if asks && self.handle.leader().is_none() { Err(errors::plain(errors::NO_LEADER)) } else { Ok(asks) }
    }

    /// When a stream ends because nobody leads any more, if its client wants that.
    fn leaderless(&self, asks: bool) -> BoxFuture<'static, ()> {
        if !asks {
            return Box::pin(std::future::pending());
        }
        let handle = self.handle.clone();
        Box::pin(async move { handle.leaderless().await })
    }

    fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.handle.cluster(),
            member_id: self.handle.member,
            revision: revision.0.cast_signed(),
            raft_term: self.handle.term(),
        })
    }

    /// A header for an answer that read nothing.
    fn header_now(&self) -> Option<ResponseHeader> {
        self.header(self.handle.hub.revision())
    }
}

/// The services of one member.
#[derive(Clone)]
pub struct EtcdServices {
    pub kv: KvServer<Face>,
    pub watch: WatchServer<Face>,
    pub lease: LeaseServer<Face>,
    pub cluster: ClusterServer<Face>,
    pub maintenance: MaintenanceServer<Face>,
    pub auth: AuthServer<auth::NotEnabled>,
    pub batch: BatchServer<Face>,
    pub health: HealthServer<Face>,
    pub face: Face,
}

impl EtcdServices {
    pub fn new(store: Serving, handle: Handle) -> Self {
        let face = Face { store, handle };
        Self {
            kv: KvServer::new(face.clone())
                .max_decoding_message_size(kv::MAX_MESSAGE)
                .max_encoding_message_size(usize::MAX),
            watch: WatchServer::new(face.clone()).max_encoding_message_size(usize::MAX),
            lease: LeaseServer::new(face.clone()),
            cluster: ClusterServer::new(face.clone()),
            maintenance: MaintenanceServer::new(face.clone()),
            auth: AuthServer::new(auth::NotEnabled),
            batch: BatchServer::new(face.clone())
                .max_decoding_message_size(batch::MAX_MESSAGE)
                .max_encoding_message_size(usize::MAX),
            health: HealthServer::new(face.clone()),
            face,
        }
    }
}
