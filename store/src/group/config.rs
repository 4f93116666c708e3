//! What a member is told when it opens: what of that is usable, and what follows for Raft. It opens nothing.

use super::{Attic, GroupError};
use crate::mvcc::{Caps, MAX_TTL_MS, Retention};
use crate::peer::StoreTls;
use openraft::SnapshotPolicy;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Enough for 300,000 pods and their history.
const DEFAULT_QUOTA_BYTES: u64 = 8 << 30;

/// Everything a member needs to know to open.
pub struct GroupConfig {
    /// `state`, `leases` or `events`. Members of different groups refuse each other.
    pub name: String,
    /// The group's own directory; made if missing.
    pub dir: PathBuf,
    pub member: u64,
    /// Every member's `host:port`, this one's included. One, three or five when a group begins; what the group's log says
    /// later is right.
    pub members: BTreeMap<u64, String>,
    /// The group exists, and this member was added to it: it waits to be told instead of beginning one.
    pub join: bool,
    /// How long a write waits for others to share its fdatasync.
    pub linger: Duration,
    /// Keys not written for this long are deleted, each in a revision of its own.
    pub ttl: Option<Duration>,
    /// What is more is deleted, the oldest first, looked at every few seconds.
    pub caps: Option<Caps>,
    pub retention: Retention,
    /// The live keys and the history together may have this many bytes; 0 = as many as there is room for.
    pub quota_bytes: u64,
    /// Entries that stay in the log after a snapshot, for members that are only a little behind.
    pub log_keep: u64,
    /// Which superseded values are in the log and not in memory.
    pub attic: Attic,
    pub tls: Option<StoreTls>,
    /// Where other members and remote API servers connect. May be `None` for a single member.
    pub listener: Option<std::net::TcpListener>,
    #[cfg(test)]
    pub space: crate::wal::Space,
}

impl GroupConfig {
    /// A single member that nobody else talks to.
    pub fn single(name: &str, dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            dir: dir.into(),
            member: 1,
            members: BTreeMap::from([(1, String::new())]),
            join: false,
            linger: Duration::ZERO,
            ttl: None,
            caps: None,
            retention: Retention::default(),
            quota_bytes: DEFAULT_QUOTA_BYTES,
            log_keep: 1_000,
            attic: Attic::default(),
            tls: None,
            listener: None,
            #[cfg(test)]
            space: crate::wal::Space::default(),
        }
    }

    pub fn validate(&self, simulated: bool) -> Result<(), GroupError> {
        let bad = |what: &str| Err(GroupError::Config { group: self.name.clone(), what: what.to_owned() });
        if !self.join && !self.members.contains_key(&self.member) {
            return bad("the member is not in the list of members");
        }
        if !self.join && ![1, 3, 5].contains(&self.members.len()) {
            return bad("a group has 1, 3 or 5 members");
        }
        if self.members.len() > 1 && self.listener.is_none() && !simulated {
            return bad("several members need a listener");
        }
        if self.ttl.is_some_and(|ttl| ttl.as_millis() > u128::from(MAX_TTL_MS)) {
            return bad("the TTL is too long");
        }
        Ok(())
    }

    /// A member that nobody can join needs no ticks: it is elected at once and has nobody to hear from.
    pub fn raft_config(&self) -> Result<openraft::Config, openraft::ConfigError> {
        let alone = self.members.len() == 1 && self.listener.is_none();
        openraft::Config {
            cluster_name: self.name.clone(),
            // A follower waits for the longest timeout and then its own: a dead leader has a successor within 1.6 s.
            heartbeat_interval: 100,
            election_timeout_min: 400,
            election_timeout_max: 800,
            install_snapshot_timeout: 60_000,
            max_payload_entries: 256,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: self.log_keep,
            purge_batch_size: 1,
            enable_tick: !alone,
            enable_heartbeat: !alone,
            enable_pre_vote: Some(true),
            // A leader that goes on leading after a restart knows less to be committed than it had acknowledged, and answers reads
            // by that: it has to be elected again, which tells it.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        }
        .validate()
    }
}
