//! Why a member ends by itself, told to whoever runs it. It ends no process.

use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a member does not serve any more although nobody told it to stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// A person acts: it is not to be started again.
    #[error(
        "member {member} does not belong to the group {group:?} any more and serves nothing. Do not start it again; to bring \
         this machine back, empty its data directory and add it anew"
    )]
    Removed { group: String, member: u64 },
    /// What is on its disk is not known. It may be started again once the disk is well.
    #[error("member {member} of the group {group:?} has stopped: {what}")]
    Failed { group: String, member: u64, what: String },
}

/// Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Ending {
    why: Arc<std::sync::OnceLock<Ended>>,
    come: CancellationToken,
}

impl Ending {
    /// The first reason counts; tells whether this was it.
    pub fn tell(&self, why: Ended) -> bool {
        let first = self.why.set(why).is_ok();
        self.come.cancel();
        first
    }

    pub fn has_come(&self) -> bool {
        self.come.is_cancelled()
    }

    /// Waits for it; for ever, if the member does not end by itself.
    pub async fn come(&self) -> Ended {
        self.come.cancelled().await;
        self.why.get().cloned().expect("it is set before the token is cancelled")
    }
}
