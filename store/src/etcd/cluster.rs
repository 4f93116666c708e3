//! The Cluster service: who the members are. One port of a member serves both its peers and its clients. A member that does
//! not lead hands changes on to the one that does.

use super::{Face, errors};
use crate::api::StoreError;
use crate::group::{ChangeError, Member};
use crate::proto::etcd::cluster_client::ClusterClient;
use crate::proto::etcd::{self, cluster_server::Cluster};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Set on a request that was handed on once, so that two members who each think that the other leads do not play ball.
const HANDED_ON: &str = "gantry-handed-on";

/// Set by a member that asks whether it was removed: a change that may still come to nothing does not count.
pub const AGREED: &str = "gantry-agreed";

pub fn change_status(error: ChangeError) -> Status {
    errors::plain(match error {
        ChangeError::NotLeader(_) => errors::NOT_LEADER,
        ChangeError::NoMember => errors::MEMBER_NOT_FOUND,
        ChangeError::AddressTaken => errors::PEER_URL_EXISTS,
        ChangeError::NotLearner => errors::NOT_LEARNER,
        ChangeError::Behind => errors::LEARNER_BEHIND,
        ChangeError::Store(error) => return errors::status(error),
    })
}

fn put_member(member: Member, scheme: &str) -> etcd::Member {
    let url = if member.address.is_empty() { vec![] } else { vec![format!("{scheme}://{}", member.address)] };
    etcd::Member {
        id: member.id,
        name: format!("member-{}", member.id),
        peer_ur_ls: url.clone(),
        client_ur_ls: url,
        is_learner: member.learner,
    }
}

/// The address of the one URL that a member has.
fn address(urls: &[String]) -> Result<&str, Status> {
    let bad = || errors::plain(errors::BAD_URLS);
    let [url] = urls else { return Err(bad()) };
    let address = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(bad)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    if host.is_empty() || port.parse::<u16>().is_err() { Err(bad()) } else { Ok(address) }
}

impl Face {
    fn members(&self) -> Vec<etcd::Member> {
        self.put_members(self.handle.members())
    }

    fn put_members(&self, members: Vec<Member>) -> Vec<etcd::Member> {
        let scheme = if self.handle.peers.is_encrypted() { "https" } else { "http" };
        members.into_iter().map(|member| put_member(member, scheme)).collect()
    }

    /// The leader to hand a refused change on to, if that is why it was refused.
    fn leader<T>(&self, error: ChangeError, request: &Request<T>) -> Result<ClusterClient<Channel>, Status> {
        match error {
            ChangeError::NotLeader(leader) if !request.metadata().contains_key(HANDED_ON) => {
                let channel = leader.and_then(|leader| self.handle.peers.channel(leader));
                let none = || errors::status(StoreError::Unavailable("no leader".into()));
                channel.map(ClusterClient::new).ok_or_else(none)
            }
            error => Err(change_status(error)),
        }
    }
}

fn handed_on<T>(mut request: Request<T>) -> Request<T> {
    request.metadata_mut().insert(HANDED_ON, tonic::metadata::MetadataValue::from_static("1"));
    request
}

#[tonic::async_trait]
impl Cluster for Face {
    async fn member_list(&self, request: Request<etcd::MemberListRequest>) -> Answer<etcd::MemberListResponse> {
        let members = match request.metadata().contains_key(AGREED) {
            true => self.put_members(self.handle.agreed_members()),
            false => self.members(),
        };
        Ok(Response::new(etcd::MemberListResponse { header: self.header_now(), members }))
    }

    /// Always as a learner: a member that does not run yet must not count. `MemberPromote` makes it decide.
    async fn member_add(&self, request: Request<etcd::MemberAddRequest>) -> Answer<etcd::MemberAddResponse> {
        match self.handle.add_member(address(&request.get_ref().peer_ur_ls)?).await {
            Ok(id) => {
                let members = self.members();
                let member = members.iter().find(|member| member.id == id).cloned();
                Ok(Response::new(etcd::MemberAddResponse { header: self.header_now(), member, members }))
            }
            Err(error) => self.leader(error, &request)?.member_add(handed_on(request)).await,
        }
    }

    async fn member_remove(&self, request: Request<etcd::MemberRemoveRequest>) -> Answer<etcd::MemberRemoveResponse> {
        match self.handle.remove_member(request.get_ref().id).await {
            Ok(members) => {
                let members = self.put_members(members);
                Ok(Response::new(etcd::MemberRemoveResponse { header: self.header_now(), members }))
            }
            Err(error) => self.leader(error, &request)?.member_remove(handed_on(request)).await,
        }
    }

    async fn member_update(&self, request: Request<etcd::MemberUpdateRequest>) -> Answer<etcd::MemberUpdateResponse> {
        let etcd::MemberUpdateRequest { id, peer_ur_ls } = request.get_ref();
        match self.handle.move_member(*id, address(peer_ur_ls)?).await {
            Ok(members) => {
                let members = self.put_members(members);
                Ok(Response::new(etcd::MemberUpdateResponse { header: self.header_now(), members }))
            }
            Err(error) => self.leader(error, &request)?.member_update(handed_on(request)).await,
        }
    }

    async fn member_promote(
        &self,
        request: Request<etcd::MemberPromoteRequest>,
    ) -> Answer<etcd::MemberPromoteResponse> {
        match self.handle.promote_member(request.get_ref().id).await {
            Ok(members) => {
                let members = self.put_members(members);
                Ok(Response::new(etcd::MemberPromoteResponse { header: self.header_now(), members }))
            }
            Err(error) => self.leader(error, &request)?.member_promote(handed_on(request)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses() {
        for (url, expect) in [
            ("https://192.0.2.1:2380", Some("192.0.2.1:2380")),
            ("http://host:1", Some("host:1")),
            ("https://[::1]:2380", Some("[::1]:2380")),
            ("192.0.2.1:2380", None),
            ("https://host", None),
            ("https://:2380", None),
            ("https://host:port", None),
        ] {
            assert_eq!(address(&[url.to_owned()]).ok(), expect, "{url}");
        }
        assert!(address(&[]).is_err());
    }
}
