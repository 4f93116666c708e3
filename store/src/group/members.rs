//! Who belongs to the group: added as a learner, promoted when it has caught up, removed, moved, and who leads. Only the
//! leader changes anything; one change at a time.

use super::{Handle, PATIENCE, RETRY};
use crate::api::StoreError;
use crate::plant::{Plant, planted};
use crate::raft::types::TypeConfig;
#[cfg_attr(test, allow(unused_imports, reason = "the channel of tests has the method itself"))]
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers, Membership};
use std::collections::{BTreeMap, BTreeSet};

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// `host:port`, for its peers and for its clients.
    pub address: String,
    pub learner: bool,
}

/// Why the members stay as they are.
#[derive(Debug)]
pub enum ChangeError {
    /// Another member leads, if one does; ask it.
    NotLeader(Option<u64>),
    NoMember,
    AddressTaken,
    NotLearner,
    /// A learner is promoted when it has nearly all of the log.
    Behind,
    Store(StoreError),
}

type Changed = Result<Vec<Member>, ChangeError>;

impl Handle {
    pub fn members(&self) -> Vec<Member> {
        listed(self.metrics().membership_config.membership())
    }

    /// Those that the group has agreed on; a change that is under way may still come to nothing.
    pub fn agreed_members(&self) -> Vec<Member> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        listed(metrics.committed_membership_config.membership())
    }

    /// Whether this member belongs to the group and does not decide.
    pub fn is_learner(&self) -> bool {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        membership.get_node(&self.member).is_some() && membership.voter_ids().all(|id| id != self.member)
    }

    /// The members that decide, twice while a change of members is half done: then each half has to agree.
    pub fn configurations(&self) -> Vec<BTreeSet<u64>> {
        self.metrics().membership_config.membership().get_joint_config().clone()
    }

    fn member(&self, id: u64) -> Result<Member, ChangeError> {
        self.members().into_iter().find(|member| member.id == id).ok_or(ChangeError::NoMember)
    }

    /// Adds a learner; answers its number.
    pub async fn add_member(&self, address: &str) -> Result<u64, ChangeError> {
        let _alone = self.begin_change().await?;
        let members = self.members();
        if members.iter().any(|member| member.address == address) {
            return Err(ChangeError::AddressTaken);
        }
        // A number is never used twice while any member remembers it.
        let id = members.iter().map(|member| member.id).max().unwrap_or(0).max(self.roster_max()) + 1;
        let node = BTreeMap::from([(id, BasicNode::new(address))]);
        self.change(ChangeMembers::AddNodes(node)).await?;
        Ok(id)
    }

    pub async fn promote_member(&self, id: u64) -> Changed {
        let _alone = self.begin_change().await?;
        if !self.member(id)?.learner {
            return Err(ChangeError::NotLearner);
        }
        let metrics = self.metrics();
        let last = metrics.last_log_index.unwrap_or(0);
        let matched = metrics.replication.as_ref().and_then(|replication| replication.get(&id).cloned().flatten());
        // etcd's rule: nine tenths of the leader's log.
        if matched.map_or(0, |id| id.index) * 10 < last * 9 {
            return Err(ChangeError::Behind);
        }
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id]))).await?;
        Ok(self.members())
    }

    pub async fn remove_member(&self, id: u64) -> Changed {
        let _alone = self.begin_change().await?;
        let ids = BTreeSet::from([id]);
        let change =
            if self.member(id)?.learner { ChangeMembers::RemoveNodes(ids) } else { ChangeMembers::RemoveVoters(ids) };
        self.change(change).await?;
        Ok(self.members())
    }

    /// Tells where a member is now.
    pub async fn move_member(&self, id: u64, address: &str) -> Changed {
        let _alone = self.begin_change().await?;
        self.member(id)?;
        if self.members().iter().any(|member| member.id != id && member.address == address) {
            return Err(ChangeError::AddressTaken);
        }
        self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, BasicNode::new(address))]))).await?;
        Ok(self.members())
    }

    /// Finishes a change whose leader went before its second half: until then the group needs a majority both of its members
    /// before and of those after.
    pub async fn finish_change(&self) {
        let half_done = self.configurations().len() > 1;
        if !half_done || !self.is_leader() {
            return;
        }
        // One that is under way finishes itself.
        let Ok(_alone) = self.changing.try_lock() else { return };
        if let Err(error) = self.change(ChangeMembers::AddVoterIds(BTreeSet::new())).await {
            tracing::warn!(?error, "a change of members is half done");
        }
    }

    /// Hands the lead to a member that decides; returns once it leads.
    pub async fn move_leader(&self, to: u64) -> Result<(), ChangeError> {
        self.leads()?;
        if self.member(to)?.learner {
            return Err(ChangeError::NoMember);
        }
        let unavailable = |what: String| ChangeError::Store(StoreError::Unavailable(what));
        if to == self.member {
            return Ok(());
        }
        self.raft.trigger().transfer_leader(to).await.map_err(|error| unavailable(error.to_string()))?;
        let wait = self.raft.wait(Some(PATIENCE));
        wait.current_leader(to, "the lead was handed on")
            .await
            .map(drop)
            .map_err(|error| unavailable(error.to_string()))
    }

    fn leads(&self) -> Result<(), ChangeError> {
        if self.is_leader() { Ok(()) } else { Err(ChangeError::NotLeader(self.metrics().current_leader)) }
    }

    async fn begin_change(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ChangeError> {
        self.leads()?;
        self.check_disk().map_err(ChangeError::Store)?;
        Ok(self.changing.lock().await)
    }

    async fn change(&self, change: ChangeMembers<u64, BasicNode>) -> Result<(), ChangeError> {
        let late = |_| ChangeError::Store(StoreError::Unknown("the change of members did not end in time".into()));
        let changed = async {
            loop {
                let refused = match self.raft.change_membership(change.clone(), false).await {
                    Ok(_) => return Ok(()),
                    Err(error) => error,
                };
                if !in_progress(&refused) {
                    return Err(judge(refused));
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::time::timeout(PATIENCE, changed).await.map_err(late)?
    }

    fn roster_max(&self) -> u64 {
        if planted(Plant::ReusedNumber) { 0 } else { self.peers.roster.newest() }
    }
}

fn listed(membership: &Membership<u64, BasicNode>) -> Vec<Member> {
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let member =
        |(id, node): (&u64, &BasicNode)| Member { id: *id, address: node.addr.clone(), learner: !voters.contains(id) };
    membership.nodes().map(member).collect()
}

/// The change before is agreed on, but a new leader does not know yet that everybody agreed.
fn in_progress(error: &RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> bool {
    let change = error.api_error();
    matches!(change, Some(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))))
}

fn judge(error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => ChangeError::NotLeader(to.leader_id),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(ChangeMembershipError::LearnerNotFound(_))) => {
            ChangeError::NoMember
        }
        error => ChangeError::Store(StoreError::Unavailable(error.to_string())),
    }
}
