//! What must hold when everything is well again: the members come to rest in one state, and everything that was recorded has
//! one explanation. It also proves on a changed copy of the record that a wrong one would have been refused.

use crate::clients::{Ways, ask, watch_whole};
use crate::group::{Group, MEMBERS};
use crate::record::Record;
use anyhow::{Context, bail, ensure};
use gantry_history::{
    HashSample, History, Op, Outcome, Reply, Request, Txn, Violation, check, check_hashes, describe, everything,
};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const REST: Duration = Duration::from_secs(30);
/// The number of the client that asks at the end.
const LAST_CLIENT: usize = 1_000;

/// A finished run.
pub struct Verdict {
    pub seed: u64,
    pub history: History,
    pub strange: Vec<String>,
    hashes: Vec<HashSample>,
    pub tails: String,
}

impl Verdict {
    /// Reads everything through every member, once all of them say the same.
    pub async fn gather(group: &mut Group, record: &Record, ways: &Ways, seed: u64) -> anyhow::Result<Self> {
        rest(group).await.with_context(|| group.tails())?;
        for (at, way) in ways.each.iter().enumerate() {
            let put = Op::Put { key: format!("k{at}"), value: format!("{LAST_CLIENT}.{at}"), lease: 0 };
            let write = Request::Txn(Txn { then: vec![put], ..Txn::default() });
            let read = Request::Read { span: everything(), at: None, serializable: false };
            for request in [write, read] {
                let outcome = ask(record, way, (LAST_CLIENT, at as u64 + 1), request).await;
                ensure!(matches!(outcome, Outcome::Done { .. }), "member {} answers {outcome:?} at rest", at + 1);
            }
        }
        let revision = rest(group).await?;
        let oldest = oldest_everywhere(group).await;
        for (at, way) in ways.each.iter().enumerate() {
            let told = watch_whole(record, (way, at as u64 + 1), oldest, revision).await;
            ensure!(told >= revision, "a watch of member {} from {oldest} came to {told}, not {revision}", at + 1);
        }
        let mut hashes = Vec::new();
        for back in [0, 1, 7, 40, 200] {
            let at = revision.saturating_sub(back);
            if at >= oldest && at > 1 {
                hashes.extend(hashes_at(group, at)?);
            }
        }
        let strange = record.strange();
        let history = record.write(std::mem::take);
        Ok(Self { seed, history, strange, hashes, tails: group.tails() })
    }

    /// Where the whole record was written.
    fn save(&self) -> anyhow::Result<PathBuf> {
        let path = std::env::temp_dir().join(format!("gantry-linear-{}.history", self.seed));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        writeln!(file, "seed {}, compacted to {}", self.seed, self.history.compacted_to)?;
        for (number, operation) in self.history.operations.iter().enumerate() {
            writeln!(file, "operation {number}: {operation:?}")?;
        }
        for (number, watch) in self.history.watches.iter().enumerate() {
            for session in &watch.sessions {
                let (span, prev) = (&watch.span, watch.prev);
                writeln!(file, "watch {number} of {span:?}, previous values {prev}: {session:?}")?;
            }
        }
        for sample in &self.hashes {
            writeln!(file, "{sample:?}")?;
        }
        file.flush()?;
        Ok(path)
    }

    fn refuse(&self, history: &History, violation: &Violation) -> anyhow::Error {
        let saved = self.save().map_or_else(|error| error.to_string(), |path| path.display().to_string());
        let Self { seed, tails, .. } = self;
        anyhow::anyhow!("seed {seed}; the history is in {saved}\n{}\n{tails}", describe(history, violation))
    }
}

/// Every answer and everything that watches delivered is what one map gave, in an order that fits real time.
pub fn answers_and_watches_have_one_explanation(verdict: &Verdict) -> anyhow::Result<()> {
    let explained = check(&verdict.history).map_err(|violation| verdict.refuse(&verdict.history, &violation))?;
    let count = |wanted: fn(&Outcome) -> bool| {
        verdict.history.operations.iter().filter(|operation| wanted(&operation.outcome)).count()
    };
    let done = count(|outcome| matches!(outcome, Outcome::Done { .. }));
    let unknown = count(|outcome| *outcome == Outcome::Unknown);
    let refused = count(|outcome| *outcome == Outcome::Refused);
    let sessions: usize = verdict.history.watches.iter().map(|watch| watch.sessions.len()).sum();
    println!(
        "{done} answers, {refused} refused, {unknown} unknown of which {} writes were done; {sessions} watches; revision {}",
        explained.unknown_done.len(),
        explained.revision
    );
    ensure!(done > 100 && explained.revision > 50, "too little was done to prove anything");
    Ok(())
}

/// The same hash at the same revision.
pub fn members_have_one_state(verdict: &Verdict) -> anyhow::Result<()> {
    ensure!(verdict.hashes.len() >= MEMBERS, "only {} hashes", verdict.hashes.len());
    check_hashes(&verdict.hashes).map_err(|violation| verdict.refuse(&verdict.history, &violation))
}

/// Nothing but what the faults explain.
pub fn no_error_is_strange(verdict: &Verdict) -> anyhow::Result<()> {
    ensure!(verdict.strange.is_empty(), "seed {}: {:?}\n{}", verdict.seed, verdict.strange, verdict.tails);
    Ok(())
}

/// The checker refuses this very history with one answer, one delivery or one hash changed.
pub fn a_changed_record_is_refused(verdict: &Verdict) -> anyhow::Result<()> {
    for plant in [plant_answer, plant_lost_event] {
        let mut history = verdict.history.clone();
        plant(&mut history)?;
        ensure!(check(&history).is_err(), "seed {}: a changed history was accepted", verdict.seed);
    }
    let mut hashes = verdict.hashes.clone();
    hashes.last_mut().context("no hashes")?.hash ^= 1;
    ensure!(check_hashes(&hashes).is_err(), "seed {}: a changed hash was accepted", verdict.seed);
    Ok(())
}

/// Changes the value in the middle one of the answered reads.
pub fn plant_answer(history: &mut History) -> anyhow::Result<()> {
    let mut found: Vec<_> = history
        .operations
        .iter_mut()
        .filter(|operation| matches!(operation.request, Request::Read { .. }))
        .filter_map(|operation| match &mut operation.outcome {
            Outcome::Done { replies, .. } => replies.first_mut(),
            _ => None,
        })
        .filter_map(|reply| if let Reply::Got(kvs) = reply { kvs.first_mut() } else { None })
        .collect();
    let middle = found.len() / 2;
    found.get_mut(middle).context("nothing was read")?.value.push('!');
    Ok(())
}

/// Takes away the first event of the middle one of the batches that have any.
fn plant_lost_event(history: &mut History) -> anyhow::Result<()> {
    let sessions = history.watches.iter_mut().flat_map(|watch| &mut watch.sessions);
    let mut found: Vec<_> =
        sessions.flat_map(|session| &mut session.batches).filter(|batch| !batch.events.is_empty()).collect();
    let middle = found.len() / 2;
    found.get_mut(middle).context("nothing was watched")?.events.remove(0);
    Ok(())
}

/// Waits until all members have applied the same and agree on who leads. Answers the revision.
async fn rest(group: &mut Group) -> anyhow::Result<u64> {
    let latest = Instant::now() + REST;
    loop {
        for at in 0..MEMBERS {
            group.check_runs(at)?;
        }
        let statuses: Vec<_> = group.statuses().await.into_iter().map(|(_, status)| status).collect();
        if let [first, second, third] = &statuses[..] {
            let same = [second, third].iter().all(|other| {
                (other.revision, other.applied, other.leader, other.term)
                    == (first.revision, first.applied, first.leader, first.term)
            });
            let well = |status: &gantry_store::MemberStatus| {
                status.leader != 0 && !status.learner && status.errors.is_empty() && status.applied == status.index
            };
            if same && statuses.iter().all(well) {
                return Ok(first.revision);
            }
        }
        if Instant::now() >= latest {
            bail!("the members came to no rest in {REST:?}: {statuses:?}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The oldest revision that every member can still read.
async fn oldest_everywhere(group: &Group) -> u64 {
    group.statuses().await.iter().map(|(_, status)| status.compacted).max().unwrap_or(1).max(1)
}

fn hashes_at(group: &Group, revision: u64) -> anyhow::Result<Vec<HashSample>> {
    (0..MEMBERS)
        .map(|at| {
            let said = group.etcdctl(&[at]).ok(&["endpoint", "hashkv", "--rev", &revision.to_string()])?;
            let hash = said.split(", ").nth(1).and_then(|hash| hash.trim().parse().ok());
            Ok(HashSample { member: group.id(at), revision, hash: hash.with_context(|| said.clone())? })
        })
        .collect()
}
