//! The Cluster service: who the members are. One port of a member serves both its peers and its clients.

use super::Face;
use crate::proto::etcd::{self, cluster_server::Cluster};
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

impl Face {
    fn members(&self) -> Vec<etcd::Member> {
        let metrics = self.handle.metrics();
        let membership = metrics.membership_config.membership();
        let voters: std::collections::BTreeSet<u64> = membership.voter_ids().collect();
        let url = |address: &str| if address.is_empty() { vec![] } else { vec![format!("https://{address}")] };
        let member = |(id, node): (&u64, &openraft::BasicNode)| etcd::Member {
            id: *id,
            name: format!("member-{id}"),
            peer_ur_ls: url(&node.addr),
            client_ur_ls: url(&node.addr),
            is_learner: !voters.contains(id),
        };
        membership.nodes().map(member).collect()
    }
}

#[tonic::async_trait]
impl Cluster for Face {
    async fn member_list(&self, _: Request<etcd::MemberListRequest>) -> Answer<etcd::MemberListResponse> {
        Ok(Response::new(etcd::MemberListResponse { header: self.header_now(), members: self.members() }))
    }

    async fn member_add(&self, _: Request<etcd::MemberAddRequest>) -> Answer<etcd::MemberAddResponse> {
        Err(Status::unimplemented("members cannot be added yet"))
    }

    async fn member_remove(&self, _: Request<etcd::MemberRemoveRequest>) -> Answer<etcd::MemberRemoveResponse> {
        Err(Status::unimplemented("members cannot be removed yet"))
    }

    async fn member_update(&self, _: Request<etcd::MemberUpdateRequest>) -> Answer<etcd::MemberUpdateResponse> {
        Err(Status::unimplemented("members cannot be changed yet"))
    }

    async fn member_promote(&self, _: Request<etcd::MemberPromoteRequest>) -> Answer<etcd::MemberPromoteResponse> {
        Err(Status::unimplemented("members cannot be promoted yet"))
    }
}
