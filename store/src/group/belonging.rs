//! Whether this member still belongs to the group. One that was removed is told by nobody: when it hears no leader, or its own
//! log does not name it, it asks the others. It removes nobody.

use super::Handle;
use super::ending::Ended;
use crate::etcd::cluster::AGREED;
use crate::proto::etcd::cluster_client::ClusterClient;
use crate::proto::etcd::kv_client::KvClient;
use crate::proto::etcd::{MemberListRequest, RangeRequest};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

const EVERY: Duration = Duration::from_secs(1);
/// How long another member may take over its answer.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(handle: Handle, cancel: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = suspicious(&handle) => {}
        }
        let removed = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            removed = removed(&handle) => removed,
        };
        if removed {
            handle.end(Ended::Removed { group: handle.group.to_string(), member: handle.member });
            return;
        }
    }
}

/// Returns when there is a reason to ask: it belonged, or will belong, to a group, and that does not speak to it.
async fn suspicious(handle: &Handle) {
    loop {
        tokio::time::sleep(EVERY).await;
        let members = handle.members();
        let named = members.iter().any(|member| member.id == handle.member);
        // One that knows of no members yet was started before it was added.
        if !members.is_empty() && (!named || handle.leader().is_none()) {
            handle.leaderless().await;
            return;
        }
    }
}

/// Whether any other member knows this one to be removed.
async fn removed(handle: &Handle) -> bool {
    let others = handle.members().into_iter().filter(|member| member.id != handle.member);
    let asked = others.map(|other| async move {
        let says = tokio::time::timeout(PATIENCE, names(handle, other.id)).await;
        matches!(says, Ok(Ok(Some(false))))
    });
    futures::future::join_all(asked).await.contains(&true)
}

/// Whether another member's list has this one, once that member has applied all that the group has agreed on. `None`: it is of
/// another cluster, or nobody knows where it is.
async fn names(handle: &Handle, other: u64) -> Result<Option<bool>, Status> {
    let Some(channel) = handle.peers.channel(other) else { return Ok(None) };
    let now = RangeRequest { key: (&b"\0"[..]).into(), count_only: true, ..RangeRequest::default() };
    KvClient::new(channel.clone()).range(now).await?;
    let mut request = Request::new(MemberListRequest { linearizable: false });
    request.metadata_mut().insert(AGREED, MetadataValue::from_static("1"));
    let list = ClusterClient::new(channel).member_list(request).await?.into_inner();
    let ours = handle.cluster();
    let same = ours != 0 && !list.members.is_empty() && list.header.is_some_and(|header| header.cluster_id == ours);
    Ok(same.then(|| list.members.iter().any(|member| member.id == handle.member)))
}
