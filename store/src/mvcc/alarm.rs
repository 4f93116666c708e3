//! Alarms: part of the replicated state, so that every member refuses the same writes. Who raises one, and when, is the
//! leader's decision (`group::quota`).

use super::{Command, Mvcc, chain};
use crate::api::StoreError;
use crate::limits;

/// What an alarm is about; the numbers are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AlarmKind {
    /// The store is as large as it may be: what puts a key or grants a lease is refused.
    NoSpace = 1,
    /// A member's data is not to be trusted: every write is refused.
    Corrupt = 2,
}

/// An alarm that some member raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    pub kind: AlarmKind,
    pub member: u64,
}

impl AlarmKind {
    pub fn from_u8(kind: u8) -> Option<Self> {
        [Self::NoSpace, Self::Corrupt].into_iter().find(|known| *known as u8 == kind)
    }

    /// As etcd's tools print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        }
    }
}

impl Mvcc {
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> + '_ {
        self.alarms.iter().copied()
    }

    pub fn alarmed(&self, kind: AlarmKind) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == kind)
    }

    pub(super) fn set_alarm(&mut self, alarm: Alarm, raise: bool) {
        let before = if raise { self.alarms.insert(alarm).is_some() } else { self.alarms.remove(&alarm).is_none() };
        if !before {
            self.hash = chain::alarmed(self.hash, alarm, raise);
        }
    }

    /// Whether the alarms let a command through. A transaction that may put is refused whichever branch would run (etcd's
    /// rule); deletes, revocations and compactions always go, because they are the way out.
    pub fn check_alarms(&self, command: &Command) -> Result<(), StoreError> {
        if self.alarms.is_empty() {
            return Ok(());
        }
        let (grows, writes) = match command {
            Command::Txn(txn) => (limits::puts(txn), txn.writes()),
            Command::Grant { .. } => (true, true),
            Command::Compact(_) | Command::Revoke { .. } | Command::Found(_) | Command::Alarm { .. } => (false, false),
        };
        if writes && self.alarmed(AlarmKind::Corrupt) {
            return Err(StoreError::Corrupt("an alarm says so".into()));
        }
        if grows && self.alarmed(AlarmKind::NoSpace) { Err(StoreError::NoSpace) } else { Ok(()) }
    }
}
