//! Whether a member may take part: one whose directory is new has forgotten what it voted and acknowledged, if it ever did.
//!
//! Every directory has a random number, its incarnation. Members greet each other; each keeps, for good, which incarnation
//! of a member it heard of first. A new directory takes part, that is votes and takes entries, only once so many members
//! keep its incarnation that every majority with it in it has one of them. A second directory of the same member finds
//! that they keep another's, and is refused; while too few of them can be asked, it waits. Only where nobody knows of a group
//! yet, one begins: a majority, this member included, is enough.
//!
//! Pure: `greet` asks.

use super::identity::{EMPTY, LATER};
use crate::plant::{Plant, planted};
use std::collections::{BTreeMap, BTreeSet};

/// What a member says of itself when it greets another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    pub incarnation: u64,
    /// The other is to keep it; before, a newcomer only asks.
    pub keep: bool,
    /// Which incarnations of others it keeps.
    pub known: BTreeMap<u64, u64>,
}

/// What the other answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Its own; 0 until it takes part.
    pub incarnation: u64,
    /// A group exists, as far as it knows.
    pub exists: bool,
    /// What the group began with, as its directory says.
    pub begins: u64,
    /// Which incarnation of the member that greeted it keeps, durably; 0: none.
    pub kept: u64,
    pub known: BTreeMap<u64, u64>,
    /// Where its log says that members are and whether they decide, as of a log index.
    pub members: BTreeMap<u64, (String, bool)>,
    pub as_of: u64,
}

/// Who wants to take part.
#[derive(Clone, Debug)]
pub struct Newcomer {
    pub member: u64,
    pub incarnation: u64,
    pub begins: u64,
    /// It was added to a group that exists.
    pub joins: bool,
    /// Who begins the group, as its command line says.
    pub founders: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    TakesPart,
    /// These were not heard yet; so many of them have to be.
    Waits {
        silent: BTreeSet<u64>,
        lacking: usize,
    },
    Refused(Refusal),
}

/// Why a member never takes part with its directory. A person acts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "member {member} has already taken part with another directory, as member {witness} remembers, and what it acknowledged \
         then is not in this one: remove the member from the group, and add it anew under a new number with --join"
    )]
    TookPart { member: u64, witness: u64 },
    #[error(
        "member {witness} began with {theirs}, this one with {ours}: give every member of a new group the same beginning"
    )]
    Beginning { witness: u64, ours: &'static str, theirs: &'static str },
}

fn beginning(begins: u64) -> &'static str {
    if begins == EMPTY { "an empty store" } else { "a restored snapshot" }
}

/// What follows for `me` from the answers so far; `kept`: only those count that keep its incarnation.
pub fn judge(me: &Newcomer, answers: &BTreeMap<u64, Welcome>, kept: bool) -> Verdict {
    if planted(Plant::LostDirectory) {
        return Verdict::TakesPart;
    }
    for (witness, answer) in answers {
        let witness = *witness;
        if answer.kept != 0 && answer.kept != me.incarnation {
            return Verdict::Refused(Refusal::TookPart { member: me.member, witness });
        }
        if answer.begins != me.begins && ![answer.begins, me.begins].contains(&LATER) {
            let (ours, theirs) = (beginning(me.begins), beginning(answer.begins));
            let ours = if ours == theirs { "another one" } else { ours };
            return Verdict::Refused(Refusal::Beginning { witness, ours, theirs });
        }
    }
    let newest = newest(answers);
    let mut others = newest.map_or_else(|| me.founders.clone(), Welcome::deciders);
    others.remove(&me.member);
    // Of all that decide, this member included.
    let majority = others.len().div_ceil(2) + 1;
    let begins = !me.joins && !answers.values().any(|answer| answer.exists);
    // Without so many, the rest would be a majority together with it.
    let needed = if begins { majority - 1 } else { (others.len() + 2 - majority).min(others.len()) };
    let counts = |id: &u64| answers.get(id).is_some_and(|answer| !kept || answer.kept == me.incarnation);
    let (heard, silent): (BTreeSet<u64>, BTreeSet<u64>) = others.iter().partition(|id| counts(id));
    if me.joins && newest.is_none() {
        return Verdict::Waits { silent, lacking: 1 };
    }
    match needed.saturating_sub(heard.len()) {
        0 => Verdict::TakesPart,
        lacking => Verdict::Waits { silent, lacking },
    }
}

/// What follows for `me`, which takes no part, from being greeted by a member that it may not know.
pub fn hear(me: &Newcomer, witness: u64, greeting: &Greeting) -> Option<Refusal> {
    let kept = greeting.known.get(&me.member).copied().unwrap_or(0);
    (kept != 0 && kept != me.incarnation).then_some(Refusal::TookPart { member: me.member, witness })
}

pub fn newest(answers: &BTreeMap<u64, Welcome>) -> Option<&Welcome> {
    answers.values().filter(|answer| !answer.members.is_empty()).max_by_key(|answer| answer.as_of)
}

impl Welcome {
    fn deciders(&self) -> BTreeSet<u64> {
        self.members.iter().filter(|(_, (_, decides))| *decides).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u64 = 7;

    fn me() -> Newcomer {
        Newcomer { member: 2, incarnation: ME, begins: 0, joins: false, founders: BTreeSet::from([1, 2, 3]) }
    }

    fn new() -> Welcome {
        Welcome { kept: ME, ..Welcome::default() }
    }

    fn member(deciders: &[u64]) -> Welcome {
        let members = deciders.iter().map(|id| (*id, (String::new(), true))).collect();
        Welcome { exists: true, members, as_of: 5, incarnation: 1, ..new() }
    }

    fn verdict(me: &Newcomer, answers: &[(u64, Welcome)]) -> Verdict {
        judge(me, &answers.iter().cloned().collect(), true)
    }

    fn waits(silent: &[u64], lacking: usize) -> Verdict {
        Verdict::Waits { silent: silent.iter().copied().collect(), lacking }
    }

    #[test]
    fn a_new_directory_takes_part_only_where_it_cannot_have_forgotten_anything() {
        let three = || member(&[1, 2, 3]);
        let rows = [
            ("two of three begin", vec![(1, new())], Verdict::TakesPart),
            ("alone it waits", vec![], waits(&[1, 3], 1)),
            ("one of a group that began without it", vec![(1, three()), (3, three())], Verdict::TakesPart),
            ("the silent one may know it", vec![(1, three())], waits(&[3], 1)),
            ("one that does not keep it yet", vec![(1, new()), (3, Welcome { kept: 0, ..new() })], Verdict::TakesPart),
            ("nobody keeps it yet", vec![(1, Welcome { kept: 0, ..new() })], waits(&[1, 3], 1)),
            (
                "another directory took part",
                vec![(1, three()), (3, Welcome { kept: 8, ..three() })],
                Verdict::Refused(Refusal::TookPart { member: 2, witness: 3 }),
            ),
            (
                "also where no group is known",
                vec![(3, Welcome { kept: 8, ..new() })],
                Verdict::Refused(Refusal::TookPart { member: 2, witness: 3 }),
            ),
            (
                "the other began with a snapshot",
                vec![(1, Welcome { begins: 9, ..new() })],
                Verdict::Refused(Refusal::Beginning {
                    witness: 1,
                    ours: "an empty store",
                    theirs: "a restored snapshot",
                }),
            ),
            (
                "one that came later does not know the beginning",
                vec![(1, Welcome { begins: LATER, ..new() })],
                Verdict::TakesPart,
            ),
            ("the group has grown", vec![(1, member(&[1, 2, 3, 4, 5])), (3, new())], waits(&[4, 5], 1)),
            (
                "and enough of it were asked",
                vec![(1, member(&[1, 2, 3, 4, 5])), (3, new()), (4, new())],
                Verdict::TakesPart,
            ),
        ];
        for (what, answers, expect) in rows {
            assert_eq!(verdict(&me(), &answers), expect, "{what}");
        }
    }

    #[test]
    fn one_that_joins_asks_those_that_the_group_has() {
        let me = Newcomer { member: 4, begins: LATER, joins: true, founders: BTreeSet::from([1, 4]), ..me() };
        assert_eq!(verdict(&me, &[(1, new())]), waits(&[], 1), "nobody knows of a group");
        assert_eq!(verdict(&me, &[(1, member(&[1]))]), Verdict::TakesPart);
        assert_eq!(verdict(&me, &[(1, member(&[1, 2, 3]))]), waits(&[2, 3], 1));
        assert_eq!(verdict(&me, &[(1, member(&[1, 2, 3])), (3, new())]), Verdict::TakesPart);
        let took_part = Welcome { kept: 8, ..member(&[1, 2, 3, 4]) };
        let refused = Verdict::Refused(Refusal::TookPart { member: 4, witness: 1 });
        assert_eq!(verdict(&me, &[(1, took_part)]), refused);
    }

    #[test]
    fn who_is_greeted_by_a_member_that_knows_its_lost_directory_is_refused() {
        let greeting =
            |known: &[(u64, u64)]| Greeting { known: known.iter().copied().collect(), ..Greeting::default() };
        assert_eq!(hear(&me(), 5, &greeting(&[(2, 8)])), Some(Refusal::TookPart { member: 2, witness: 5 }));
        for known in [&[][..], &[(2, ME)], &[(2, 0)], &[(3, 8)]] {
            assert_eq!(hear(&me(), 5, &greeting(known)), None, "{known:?}");
        }
    }

    #[test]
    fn every_majority_with_a_newcomer_has_a_witness() {
        for others in 1..9u64 {
            let ids: Vec<u64> = (10..10 + others).collect();
            let me = Newcomer { founders: ids.iter().copied().chain([2]).collect(), ..me() };
            for heard in 0..=ids.len() {
                let answers: Vec<_> = ids[..heard].iter().map(|id| (*id, Welcome { exists: true, ..new() })).collect();
                let majority = ids.len().div_ceil(2) + 1;
                // The smallest majority has this member and those that were not asked.
                let safe = ids.len() - heard + 1 < majority;
                assert_eq!(verdict(&me, &answers) == Verdict::TakesPart, safe, "{heard} of {others} others");
            }
        }
    }
}
