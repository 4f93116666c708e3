//! Who is let in at a listener, and who has to go when it is full. Connections are of three kinds, each with a share of its own:
//! those that have asked for nothing yet, clients, and members. Whoever has asked for nothing makes room for newer ones, so
//! that nobody keeps members away by holding connections. It accepts and closes nothing itself.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How full it is, is said once in as long.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Files that are not connections: the log, snapshots, and what else the process has open.
const OTHER_FILES: u64 = 192;

/// How many connections of each kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub idle: usize,
    pub clients: usize,
    pub members: usize,
}

impl Shares {
    /// What a process can have that may open so many files.
    pub fn of(files: u64) -> Self {
        let (idle, members) = (256, 128);
        let clients = files.saturating_sub(OTHER_FILES + idle + members).clamp(64, 8_192);
        Self { idle: idle as usize, clients: clients as usize, members: members as usize }
    }
}

/// Raises how many files this process may open, as far as it may raise it itself, and says how many those are.
pub fn raise_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    // No limit at all.
    now.unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Client,
    Member,
}

#[derive(Default)]
struct Inside {
    next: u64,
    /// Those that have asked for nothing yet, by the order in which they came.
    idle: BTreeMap<u64, CancellationToken>,
    clients: usize,
    members: usize,
    said: Option<Instant>,
}

/// Cheap to clone; clones share who is inside.
#[derive(Clone)]
pub struct Door {
    shares: Shares,
    inside: Arc<Mutex<Inside>>,
}

impl Door {
    pub fn new(shares: Shares) -> Self {
        Self { shares, inside: Arc::default() }
    }

    /// Lets a connection in; the oldest that has asked for nothing goes if there are too many of those.
    pub fn enter(&self) -> Guest {
        let mut inside = self.inside.lock();
        let number = inside.next;
        inside.next += 1;
        if inside.idle.len() >= self.shares.idle
            && let Some((_, oldest)) = inside.idle.pop_first()
        {
            oldest.cancel();
            inside.say(self.shares, "the oldest that has asked for nothing is closed");
        }
        let gone = CancellationToken::new();
        inside.idle.insert(number, gone.clone());
        Guest { door: self.clone(), number, gone, kind: Mutex::new(None) }
    }
}

impl Inside {
    fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Client => &mut self.clients,
            Kind::Member => &mut self.members,
        }
    }

    fn say(&mut self, shares: Shares, what: &str) {
        if self.said.is_none_or(|said| said.elapsed() >= SAID_EVERY) {
            self.said = Some(Instant::now());
            let (idle, clients, members) = (self.idle.len(), self.clients, self.members);
            tracing::warn!(idle, clients, members, ?shares, "this member has too many connections: {what}");
        }
    }
}

/// A connection that was let in; dropping it makes room.
pub struct Guest {
    door: Door,
    number: u64,
    gone: CancellationToken,
    kind: Mutex<Option<Kind>>,
}

impl Guest {
    /// Waits until the connection has to go.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Takes note of a request. A connection that was a client's becomes a member's by the first request that only members
    /// make. Where the kind's share is used up, the connection has to go.
    pub fn asks(&self, asks: Kind) {
        let mut kind = self.kind.lock();
        if matches!((*kind, asks), (Some(Kind::Member), _) | (Some(Kind::Client), Kind::Client)) {
            return;
        }
        let shares = self.door.shares;
        let mut inside = self.door.inside.lock();
        inside.idle.remove(&self.number);
        let most = if asks == Kind::Client { shares.clients } else { shares.members };
        if *inside.of(asks) >= most {
            self.gone.cancel();
            return inside.say(shares, "a new one is closed");
        }
        if let Some(before) = kind.replace(asks) {
            *inside.of(before) -= 1;
        }
        *inside.of(asks) += 1;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let kind = *self.kind.get_mut();
        let mut inside = self.door.inside.lock();
        inside.idle.remove(&self.number);
        if let Some(kind) = kind {
            *inside.of(kind) -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(guests: &[Guest]) -> Vec<usize> {
        (0..guests.len()).filter(|at| guests[*at].gone.is_cancelled()).collect()
    }

    #[test]
    fn whoever_asks_for_nothing_makes_room_and_each_kind_has_its_share() {
        let door = Door::new(Shares { idle: 2, clients: 2, members: 1 });
        let mut guests: Vec<_> = (0..2).map(|_| door.enter()).collect();
        guests.push(door.enter());
        assert_eq!(gone(&guests), [0], "the oldest goes");
        guests[1].asks(Kind::Client);
        guests[1].asks(Kind::Client);
        guests.push(door.enter());
        assert_eq!(gone(&guests), [0], "one that has asked does not count among them");
        guests[2].asks(Kind::Client);
        guests[3].asks(Kind::Client);
        assert_eq!(gone(&guests), [0, 3], "there are too many clients");
        guests.push(door.enter());
        guests[4].asks(Kind::Member);
        assert_eq!(gone(&guests), [0, 3], "which keeps no member away");

        // A client's connection becomes a member's, which makes room among the clients, and not the other way round.
        guests.swap_remove(4);
        guests[2].asks(Kind::Member);
        guests[2].asks(Kind::Client);
        guests.push(door.enter());
        guests[4].asks(Kind::Client);
        assert_eq!(gone(&guests), [0, 3]);
        let inside = |door: &Door| {
            let inside = door.inside.lock();
            (inside.idle.len(), inside.clients, inside.members)
        };
        assert_eq!(inside(&door), (0, 2, 1));
        drop(guests);
        assert_eq!(inside(&door), (0, 0, 0));
    }

    #[test]
    fn the_shares_fit_the_files() {
        for (files, clients) in [(256, 64), (1_024, 448), (1 << 20, 8_192), (u64::MAX, 8_192)] {
            assert_eq!(Shares::of(files).clients, clients, "{files}");
        }
    }
}
