//! Whether a member may take part: one whose directory is new has forgotten what it voted and acknowledged, if it ever did.
//!
//! Every directory has a random number, its incarnation. Members greet each other; each keeps, for good, which incarnation
//! of a member it heard of first. A new directory takes part, that is votes and takes entries, only once so many members
//! keep its incarnation that every majority with it in it has one of them. A second directory of the same member finds
//! that they keep another's, and is refused; while too few of them can be asked, it waits. Only where nobody knows of a group
//! yet, one begins: a majority, this member included, is enough.
//!
//! `judge` is the pure decision; the rest asks.

use super::identity::{IdentityError, Owner};
use super::kept::Kept;
use super::{GroupConfig, Handle};
use crate::offload::offload;
use openraft::impls::BasicNode;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Between two greetings while this member waits.
const EVERY: Duration = Duration::from_millis(200);
/// And when it takes part: members that were added, or were away, are to hear of it.
const LATER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// What it waits for is said after this long, and then as often as [`TOLD_EVERY`].
const TOLD_AFTER: Duration = Duration::from_secs(3);
const TOLD_EVERY: Duration = Duration::from_secs(60);

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
    /// See [`Owner::begins`].
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
    if begins == 0 { "an empty store" } else { "a restored snapshot" }
}

/// What follows for `me` from the answers so far; `kept`: only those count that keep its incarnation.
pub fn judge(me: &Newcomer, answers: &BTreeMap<u64, Welcome>, kept: bool) -> Verdict {
    for (witness, answer) in answers {
        let witness = *witness;
        if answer.kept != 0 && answer.kept != me.incarnation {
            return Verdict::Refused(Refusal::TookPart { member: me.member, witness });
        }
        if !me.joins && answer.begins != me.begins {
            let (ours, theirs) = (beginning(me.begins), beginning(answer.begins));
            let ours = if ours == theirs { "another one" } else { ours };
            return Verdict::Refused(Refusal::Beginning { witness, ours, theirs });
        }
    }
    let newest = newest(answers);
    let mut others = newest.map_or_else(|| me.founders.clone(), Welcome::deciders);
    others.remove(&me.member);
    // Of all that decide, this member included.
    let members = others.len() + 1;
    let majority = members / 2 + 1;
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

fn newest(answers: &BTreeMap<u64, Welcome>) -> Option<&Welcome> {
    answers.values().filter(|answer| !answer.members.is_empty()).max_by_key(|answer| answer.as_of)
}

impl Welcome {
    fn deciders(&self) -> BTreeSet<u64> {
        self.members.iter().filter(|(_, (_, decides))| *decides).map(|(id, _)| *id).collect()
    }
}

/// Where a member stands in this.
pub struct Part {
    pub me: Newcomer,
    dir: PathBuf,
    /// Shared with whoever checks other members' messages.
    takes: Arc<AtomicBool>,
    kept: Kept,
    refused: watch::Sender<Option<Refusal>>,
}

impl Part {
    pub fn new(config: &GroupConfig, owner: &Owner, kept: Kept, takes: Arc<AtomicBool>) -> Self {
        takes.store(owner.takes_part, Ordering::Release);
        let me = Newcomer {
            member: config.member,
            incarnation: owner.incarnation,
            begins: owner.begins,
            joins: config.join,
            founders: config.members.keys().copied().collect(),
        };
        Self { me, dir: config.dir.clone(), takes, kept, refused: watch::Sender::new(None) }
    }

    pub fn takes(&self) -> bool {
        self.takes.load(Ordering::Acquire)
    }

    /// How many other members it keeps an incarnation of.
    #[cfg(test)]
    pub fn keeps(&self) -> usize {
        self.kept.all().len()
    }

    /// From now on, also after a restart.
    pub async fn take(&self) -> Result<(), IdentityError> {
        if self.takes() {
            return Ok(());
        }
        let dir = self.dir.clone();
        let written = offload(move || Owner::change(&dir, |owner| owner.takes_part = true)).await;
        written
            .map_err(|error| IdentityError::Io { path: self.dir.clone(), source: std::io::Error::other(error) })??;
        self.takes.store(true, Ordering::Release);
        Ok(())
    }

    fn refuse(&self, refusal: Refusal) {
        self.refused.send_replace(Some(refusal));
    }

    /// Why this member never takes part, once that is known.
    pub async fn refused(&self) -> Refusal {
        let mut refused = self.refused.subscribe();
        loop {
            if let Some(refusal) = refused.borrow_and_update().clone() {
                return refusal;
            }
            if refused.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Handle {
    /// Answers another member's greeting, and keeps its incarnation if that is asked and it is the first one.
    pub async fn welcome(&self, from: u64, greeting: Greeting) -> std::io::Result<Welcome> {
        let part = self.part.clone();
        let known = self.note(&greeting.known, greeting.keep.then_some((from, greeting.incarnation))).await?;
        let metrics = self.metrics();
        let membership = metrics.membership_config;
        let deciders: BTreeSet<u64> = membership.membership().voter_ids().collect();
        let nodes = membership.membership().nodes();
        let members: BTreeMap<_, _> =
            nodes.map(|(id, node)| (*id, (node.addr.clone(), deciders.contains(id)))).collect();
        let exists = self.cluster() != 0 || metrics.last_log_index.is_some_and(|index| index > 0);
        if exists && !members.is_empty() && !members.contains_key(&from) {
            self.peers.warn_of(&format!(
                "member {from} greets this group, which has no such member: add it (etcdctl member add) and start it with the \
                 number that you are told, or stop it"
            ));
        }
        Ok(Welcome {
            incarnation: if part.takes() { part.me.incarnation } else { 0 },
            exists,
            begins: part.me.begins,
            kept: known.get(&from).copied().unwrap_or(0),
            known,
            members,
            as_of: membership.log_id().as_ref().map_or(0, |id| id.index),
        })
    }

    /// Keeps what is new, durably, and answers all that is kept.
    async fn note(&self, heard: &BTreeMap<u64, u64>, first: Option<(u64, u64)>) -> std::io::Result<BTreeMap<u64, u64>> {
        let (part, mut heard) = (self.part.clone(), heard.clone());
        // Whoever says itself which one it is, is right.
        heard.extend(first);
        heard.remove(&self.member);
        heard.retain(|_, incarnation| *incarnation != 0);
        offload(move || part.kept.note(&heard)).await.map_err(std::io::Error::other)?
    }

    /// Greets the members that `of` names, all at once; those that answer.
    async fn greet(&self, of: &BTreeSet<u64>, keep: bool) -> BTreeMap<u64, Welcome> {
        let greeting = Greeting { incarnation: self.part.me.incarnation, keep, known: self.part.kept.all() };
        let greeted = of.iter().filter(|id| **id != self.member).map(|id| {
            let greeting = greeting.clone();
            async move {
                let answer = tokio::time::timeout(PATIENCE, self.peers.greet(*id, &greeting)).await.ok()?;
                Some((*id, answer.ok()?))
            }
        });
        let answers: BTreeMap<_, _> = futures::future::join_all(greeted).await.into_iter().flatten().collect();
        for (id, answer) in &answers {
            if let Err(error) = self.note(&answer.known, Some((*id, answer.incarnation))).await {
                tracing::warn!(%error, "what other members' directories are cannot be kept");
            }
            for (id, (address, _)) in &answer.members {
                if self.peers.roster.address(*id).is_none() {
                    self.peers.roster.learn(*id, address);
                }
            }
        }
        answers
    }

    /// Those that the log names, or else those that the command line does and who was heard of since.
    fn everybody(&self) -> BTreeSet<u64> {
        let all: BTreeSet<u64> = self.members().iter().map(|member| member.id).collect();
        if all.is_empty() { self.peers.roster.all() } else { all }
    }

    /// Says, at most once a minute, what keeps this member from taking part, or from being a part.
    fn tell(&self, told: &mut Told, what: impl FnOnce() -> String) {
        let due = told.next.get_or_insert_with(|| Instant::now() + TOLD_AFTER);
        if Instant::now() >= *due {
            *due = Instant::now() + TOLD_EVERY;
            tracing::warn!(group = &*self.group, member = self.member, "{}", what());
        }
    }

    fn lacks(&self, silent: &BTreeSet<u64>, lacking: usize) -> String {
        let place = |id: &u64| format!("{id} at {}", self.peers.roster.address(*id).unwrap_or_default());
        let silent: Vec<_> = silent.iter().map(place).collect();
        format!(
            "this member's directory is new: it takes no part until {lacking} more of these members can be asked whether it \
             ever did: {}",
            silent.join(", ")
        )
    }

    /// One round of questions; whether this member may take part now.
    pub async fn ask_around(&self, told: &mut Told) -> Result<bool, Refusal> {
        // Nothing is kept anywhere before all that can be asked agree.
        for keep in [false, true] {
            let answers = self.greet(&self.everybody(), keep).await;
            match judge(&self.part.me, &answers, keep) {
                Verdict::TakesPart => {}
                Verdict::Waits { silent, lacking } => {
                    self.tell(told, || self.lacks(&silent, lacking));
                    return Ok(false);
                }
                Verdict::Refused(refusal) => return Err(refusal),
            }
        }
        Ok(true)
    }
}

#[derive(Default)]
pub struct Told {
    next: Option<Instant>,
}

/// Asks until this member may take part, and begins. Then it goes on to greet those that did not answer yet, so that
/// everybody keeps everybody's incarnation.
pub async fn run(handle: Handle, nodes: BTreeMap<u64, BasicNode>, cancel: CancellationToken) {
    let mut told = Told::default();
    while !handle.part.takes() {
        let asked = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            asked = handle.ask_around(&mut told) => asked,
        };
        match asked {
            Ok(true) => {
                if let Err(error) = handle.begin(&nodes).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "this member cannot take part");
                }
            }
            Ok(false) => {}
            Err(refusal) => {
                handle.part.refuse(refusal);
                return;
            }
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    let mut met = BTreeSet::new();
    let mut told = Told::default();
    loop {
        let strangers: BTreeSet<u64> = handle.everybody().difference(&met).copied().collect();
        let answers = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answers = handle.greet(&strangers, true) => answers,
        };
        for (id, answer) in &answers {
            if answer.kept != 0 && answer.kept != handle.part.me.incarnation {
                let (member, group) = (handle.member, &*handle.group);
                tracing::error!(
                    group,
                    member,
                    "member {id} remembers another directory of this member: only one may run"
                );
            }
            // One that does not take part yet has no incarnation to keep.
            if answer.incarnation != 0 {
                met.insert(*id);
            }
        }
        let member = handle.member;
        if handle.part.me.joins
            && handle.members().is_empty()
            && newest(&answers).is_some_and(|answer| !answer.members.contains_key(&member))
        {
            met.clear();
            handle.tell(&mut told, || {
                format!(
                    "the group has no member {member}: add it (etcdctl member add) and start it with the number that you are told"
                )
            });
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(LATER) => {}
        }
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
            ("so may it where only one knows of the group", vec![(1, three())], waits(&[3], 1)),
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
        let me = Newcomer { member: 4, joins: true, founders: BTreeSet::from([1, 4]), ..me() };
        assert_eq!(verdict(&me, &[(1, new())]), waits(&[], 1), "nobody knows of a group");
        assert_eq!(verdict(&me, &[(1, member(&[1]))]), Verdict::TakesPart);
        assert_eq!(verdict(&me, &[(1, member(&[1, 2, 3]))]), waits(&[2, 3], 1));
        assert_eq!(verdict(&me, &[(1, member(&[1, 2, 3])), (3, new())]), Verdict::TakesPart);
        let took_part = Welcome { kept: 8, ..member(&[1, 2, 3, 4]) };
        let refused = Verdict::Refused(Refusal::TookPart { member: 4, witness: 1 });
        assert_eq!(verdict(&me, &[(1, took_part)]), refused);
    }

    #[test]
    fn every_majority_with_a_newcomer_has_a_witness() {
        for others in 1..9u64 {
            let ids: Vec<u64> = (10..10 + others).collect();
            let me = Newcomer { founders: ids.iter().copied().chain([2]).collect(), ..me() };
            for heard in 0..=ids.len() {
                let answers: Vec<_> = ids[..heard].iter().map(|id| (*id, Welcome { exists: true, ..new() })).collect();
                let members = ids.len() + 1;
                let majority = members / 2 + 1;
                // The smallest majority has this member and those that were not asked.
                let safe = ids.len() - heard + 1 < majority;
                assert_eq!(verdict(&me, &answers) == Verdict::TakesPart, safe, "{heard} of {others} others");
            }
        }
    }
}
