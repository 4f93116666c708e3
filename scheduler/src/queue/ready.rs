//! The pods that can be decided now, in the order in which they are: importance, then the team that has least, then age. One turn in
//! eight goes to the oldest pod of the band whose turn it is, so that within a band nobody waits for ever.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pod::{Band, Importance};
use crate::snapshot::TeamId;

const AGEING: u64 = 8;

/// What the order is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    pub importance: Importance,
    pub team: TeamId,
    pub created_us: i64,
    pub uid: Arc<str>,
}

type Age = (i64, Arc<str>);

/// A team's share as bits that order as the number does; shares are never negative.
type ShareBits = u64;

#[derive(Debug, Default)]
struct Level {
    teams: BTreeMap<TeamId, (ShareBits, BTreeSet<Age>)>,
    order: BTreeSet<(ShareBits, TeamId)>,
}

#[derive(Debug, Default)]
pub struct Ready {
    levels: BTreeMap<Reverse<Importance>, Level>,
    by_age: BTreeMap<(bool, Band), BTreeMap<Age, Rank>>,
    turns: u64,
}

impl Level {
    fn set_share(&mut self, team: TeamId, share: f64) {
        if let Some((known, _)) = self.teams.get_mut(&team) {
            self.order.remove(&(*known, team));
            *known = share.to_bits();
            self.order.insert((*known, team));
        }
    }

    fn first(&self) -> Option<&Age> {
        let (_, team) = self.order.first()?;
        self.teams.get(team)?.1.first()
    }
}

impl Ready {
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_age.values().map(BTreeMap::len).sum()
    }

    pub fn insert(&mut self, rank: Rank, share: f64) {
        let age = (rank.created_us, rank.uid.clone());
        let level = self.levels.entry(Reverse(rank.importance)).or_default();
        level.teams.entry(rank.team).or_default().1.insert(age.clone());
        level.set_share(rank.team, share);
        self.by_age.entry(rank.importance.level()).or_default().insert(age, rank);
    }

    pub fn remove(&mut self, rank: &Rank) {
        let age = (rank.created_us, rank.uid.clone());
        if let Some(level) = self.levels.get_mut(&Reverse(rank.importance)) {
            if let Some((share, pods)) = level.teams.get_mut(&rank.team) {
                pods.remove(&age);
                if pods.is_empty() {
                    level.order.remove(&(*share, rank.team));
                    level.teams.remove(&rank.team);
                }
            }
            if level.teams.is_empty() {
                self.levels.remove(&Reverse(rank.importance));
            }
        }
        if let Some(band) = self.by_age.get_mut(&rank.importance.level()) {
            band.remove(&age);
            if band.is_empty() {
                self.by_age.remove(&rank.importance.level());
            }
        }
    }

    /// The next pod's place. It stays until it is removed.
    pub fn first(&mut self) -> Option<Rank> {
        let level = self.levels.first_key_value()?.1;
        let age = level.first()?;
        let rank = self.by_age.values().find_map(|band| band.get(age))?.clone();
        self.turns += 1;
        if self.turns.is_multiple_of(AGEING) {
            return self.by_age.get(&rank.importance.level())?.values().next().cloned();
        }
        Some(rank)
    }

    /// The team has this much now.
    pub fn charge(&mut self, team: TeamId, share: f64) {
        self.levels.values_mut().for_each(|level| level.set_share(team, share));
    }

    /// All teams' shares are asked again.
    pub fn refresh(&mut self, share: impl Fn(TeamId) -> f64) {
        for level in self.levels.values_mut() {
            let teams: Vec<TeamId> = level.teams.keys().copied().collect();
            teams.into_iter().for_each(|team| level.set_share(team, share(team)));
        }
    }

    /// How many ready pods go before this one if nothing else happens.
    pub fn ahead_of(&self, rank: &Rank) -> usize {
        let mut ahead = 0;
        for (importance, level) in &self.levels {
            if importance.0 > rank.importance {
                ahead += level.teams.values().map(|(_, pods)| pods.len()).sum::<usize>();
            } else if importance.0 == rank.importance {
                let own = level.teams.get(&rank.team).map(|(share, _)| *share);
                for (team, (share, pods)) in &level.teams {
                    if *team == rank.team {
                        ahead += pods.range(..(rank.created_us, rank.uid.clone())).count();
                    } else if own.is_none_or(|own| *share < own) {
                        ahead += pods.len();
                    }
                }
            }
        }
        ahead
    }
}
