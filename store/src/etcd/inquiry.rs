//! How a member is, asked from outside through etcd's interface: also an etcd answers.

use crate::peer::{self, StoreTls};
use crate::proto::etcd::kv_client::KvClient;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::proto::etcd::{HashKvRequest, RangeRequest, StatusRequest};
use std::time::Duration;
use tonic::Status;

const PATIENCE: Duration = Duration::from_secs(5);

/// A member as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStatus {
    pub cluster: u64,
    pub member: u64,
    pub version: String,
    /// 0 = nobody leads, as far as it knows.
    pub leader: u64,
    pub learner: bool,
    pub term: u64,
    /// The newest log entry that it has, and the newest that it has applied.
    pub index: u64,
    pub applied: u64,
    pub revision: u64,
    /// The oldest readable revision.
    pub compacted: u64,
    pub keys: u64,
    /// On its disk, and what counts against the quota; 0 = no quota.
    pub disk_bytes: u64,
    pub stored_bytes: u64,
    pub quota_bytes: u64,
    /// Alarms, and what else is wrong.
    pub errors: Vec<String>,
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Asks the member at `endpoint` (`host:port`); an error says in words why there is no answer.
pub async fn member_status(endpoint: &str, tls: Option<&StoreTls>) -> Result<MemberStatus, String> {
    let channel = peer::channel(endpoint, tls).map_err(|error| error.to_string())?;
    let ask = async {
        let mut maintenance = MaintenanceClient::new(channel.clone());
        let status = maintenance.status(StatusRequest {}).await?.into_inner();
        let hash = maintenance.hash_kv(HashKvRequest { revision: 0 }).await?.into_inner();
        let all = RangeRequest {
            key: (&b"\0"[..]).into(),
            range_end: (&b"\0"[..]).into(),
            count_only: true,
            serializable: true,
            ..RangeRequest::default()
        };
        let keys = KvClient::new(channel).range(all).await?.into_inner();
        let header = status.header.unwrap_or_default();
        Ok::<_, Status>(MemberStatus {
            cluster: header.cluster_id,
            member: header.member_id,
            version: status.version,
            leader: status.leader,
            learner: status.is_learner,
            term: status.raft_term,
            index: status.raft_index,
            applied: status.raft_applied_index,
            revision: unsigned(header.revision),
            compacted: unsigned(hash.compact_revision),
            keys: unsigned(keys.count),
            disk_bytes: unsigned(status.db_size),
            stored_bytes: unsigned(status.db_size_in_use),
            quota_bytes: unsigned(status.db_size_quota),
            errors: status.errors.iter().map(|error| error.trim().to_owned()).collect(),
        })
    };
    match tokio::time::timeout(PATIENCE, ask).await {
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        Ok(Err(status)) => Err(why(&status)),
        Ok(Ok(status)) => Ok(status),
    }
}

/// Why there is no answer: what TLS or the network says, or else the member itself.
fn why(status: &Status) -> String {
    if let Some((reason, advice)) = peer::distrust(status) {
        return format!("no TLS connection: {reason}; {advice}");
    }
    if !peer::never_sent(status) {
        return status.message().to_owned();
    }
    let mut deepest: &(dyn std::error::Error + 'static) = status;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    format!("it cannot be reached: {deepest}")
}
