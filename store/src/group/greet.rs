//! Asks the other members whether this one may take part, until that is certain, and tells them which directory it has; and
//! answers when they ask. What follows from the answers is `admission`'s decision.

use super::admission::{Greeting, Newcomer, Refusal, Verdict, Welcome, hear, judge, newest};
use super::identity::{IdentityError, Owner, Record};
use super::kept::Kept;
use super::{GroupConfig, Handle};
use crate::offload::offload;
use openraft::impls::BasicNode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Between two greetings while this member waits.
const EVERY: Duration = Duration::from_millis(200);
/// And when it takes part: members that were added, were away, or lost their directory are to hear of it. The last may know none of
/// those that the group has now.
const AFTERWARDS: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// What it waits for is said after this long, and then as often as [`TOLD_EVERY`].
const TOLD_AFTER: Duration = Duration::from_secs(3);
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Where a member stands in this.
pub struct Part {
    pub me: Newcomer,
    record: Record,
    /// Shared with whoever checks other members' messages.
    takes: Arc<AtomicBool>,
    kept: Kept,
    refused: watch::Sender<Option<Refusal>>,
}

impl Part {
    pub fn new(config: &GroupConfig, (owner, record): (&Owner, Record), kept: Kept, takes: Arc<AtomicBool>) -> Self {
        takes.store(owner.takes_part, Ordering::Release);
        let me = Newcomer {
            member: config.member,
            incarnation: owner.incarnation,
            begins: owner.begins,
            joins: config.join,
            founders: config.members.keys().copied().collect(),
        };
        Self { me, record, takes, kept, refused: watch::Sender::new(None) }
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
        self.record.takes_part().await?;
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
        if !part.takes()
            && let Some(refusal) = hear(&part.me, from, &greeting)
        {
            part.refuse(refusal);
        }
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

/// Asks until this member may take part, and begins. Then it goes on to greet everybody, so that all keep everybody's
/// incarnation.
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
    let (mut told, mut doubled) = (Told::default(), Told::default());
    loop {
        let everybody = handle.everybody();
        let answers = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answers = handle.greet(&everybody, true) => answers,
        };
        for (id, answer) in &answers {
            if answer.kept != 0 && answer.kept != handle.part.me.incarnation {
                handle.tell(&mut doubled, || {
                    format!("member {id} remembers another directory of this member: only one may run")
                });
            }
        }
        let member = handle.member;
        if handle.part.me.joins
            && handle.members().is_empty()
            && newest(&answers).is_some_and(|answer| !answer.members.contains_key(&member))
        {
            handle.tell(&mut told, || {
                format!(
                    "the group has no member {member}: add it (etcdctl member add) and start it with the number that you are told"
                )
            });
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(AFTERWARDS) => {}
        }
    }
}
