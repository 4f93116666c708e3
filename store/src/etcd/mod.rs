//! etcd v3's interface: a group offered to etcd's clients, and a `Store` that uses a group or an etcd through it. Everything
//! here translates; what a request does is decided elsewhere.

mod auth;
mod cluster;
pub mod convert;
pub mod errors;
mod inquiry;
mod kv;
mod lease;
mod lifetime;
mod maintenance;
mod remote;
#[cfg(test)]
mod tests;
mod watch;

use crate::api::Revision;
use crate::group::{Handle, Serving};
use crate::proto::etcd::{self, ResponseHeader};

pub use inquiry::{MemberStatus, member_status};
pub use remote::RemoteStore;

use etcd::auth_server::AuthServer;
use etcd::cluster_server::ClusterServer;
use etcd::kv_server::KvServer;
use etcd::lease_server::LeaseServer;
use etcd::maintenance_server::MaintenanceServer;
use etcd::watch_server::WatchServer;

/// Set by our own clients, who know that an answer may be a part of what they asked for. Others get it whole, as etcd gives it.
const BOUNDED: &str = "gantry-bounded";

/// Set in a member's status, so that our own clients know it from an etcd.
const OURS: &str = "gantry-store";

/// One member as its clients see it.
#[derive(Clone)]
pub struct Face {
    store: Serving,
    handle: Handle,
}

impl Face {
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
        }
    }
}
