//! Room that all users share, of which each may have a part. Decides who gets some; nobody waits for it here.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// There is no more to be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("all of the room is taken")]
    Everything,
    #[error("the user's share is taken")]
    Share,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Who has some. Nobody else is listed.
    users: HashMap<Arc<str>, usize>,
}

/// Cheap to clone; clones are the same room.
#[derive(Clone, Debug)]
pub struct Shares {
    size: usize,
    each: usize,
    taken: Arc<Mutex<Taken>>,
}

impl Shares {
    /// Room for `size`, and for `each` of one user.
    pub fn new(size: usize, each: usize) -> Self {
        Self { size, each, taken: Arc::default() }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn each(&self) -> usize {
        self.each
    }

    /// So much for the user, until it is dropped.
    pub fn take(&self, user: &str, much: usize) -> Result<Share, Full> {
        let mut taken = self.taken.lock();
        if taken.users.get(user).copied().unwrap_or(0) + much > self.each {
            return Err(Full::Share);
        }
        if taken.all + much > self.size {
            return Err(Full::Everything);
        }
        taken.all += much;
        let name = taken.users.get_key_value(user).map_or_else(|| Arc::from(user), |(name, _)| name.clone());
        *taken.users.entry(name.clone()).or_insert(0) += much;
        Ok(Share { user: name, much, taken: self.taken.clone() })
    }
}

/// Room that somebody has.
#[derive(Debug)]
pub struct Share {
    user: Arc<str>,
    much: usize,
    taken: Arc<Mutex<Taken>>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= self.much;
        if let Some(left) = taken.users.get_mut(&self.user) {
            *left -= self.much;
            if *left == 0 {
                taken.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_all_have_the_room() {
        let room = Shares::new(10, 4);
        let jane = room.take("jane", 3).unwrap();
        assert_eq!(room.take("jane", 2).unwrap_err(), Full::Share);
        let more = room.take("jane", 1).unwrap();
        let others = [room.take("joe", 4).unwrap(), room.take("jim", 1).unwrap()];
        assert_eq!(room.take("jim", 2).unwrap_err(), Full::Everything);
        drop(jane);
        assert_eq!(room.take("jane", 4).unwrap_err(), Full::Share, "one part is still there");
        drop(room.take("jim", 3).unwrap());
        drop((more, others));
        let taken = room.taken.lock();
        assert_eq!((taken.all, taken.users.len()), (0, 0), "nobody is remembered");
    }
}
