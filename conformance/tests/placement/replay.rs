//! Judges a record: what must never be, at any revision. Pure; its first case shows that it finds each of these.

use crate::arena::Arena;
use crate::record::{Change, Pod, What};
use anyhow::{bail, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a record amounts to.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    pub binds: usize,
    /// Pods that somebody asked to go.
    pub deleted: usize,
    /// The most that a machine had taken of its cpu after a bind, in per cent.
    pub fullest_percent: i64,
}

#[derive(Default)]
struct State {
    pods: HashMap<String, Pod>,
    has: HashMap<String, [i64; 3]>,
    lends: HashMap<String, [i64; 2]>,
    on: HashMap<String, BTreeSet<String>>,
    summary: Summary,
}

/// `forced` says which pods were given their machine by whoever made them: they take room, but nobody checked whether it was there.
///
/// - Each pod is bound once: who has a machine keeps it.
/// - After every bind, all pods of the machine fit into what it has and lends, and those that are not batch into what it has.
/// - After every revision that binds a member of a gang, enough of its members are bound.
pub fn judge(changes: &[Change], forced: impl Fn(&Pod) -> bool) -> anyhow::Result<Summary> {
    let mut state = State::default();
    let mut at = 0;
    while at < changes.len() {
        let revision = changes[at].revision;
        let (mut machines, mut gangs) = (BTreeSet::new(), BTreeMap::new());
        while let Some(change) = changes.get(at).filter(|change| change.revision == revision) {
            if let Some(bound) = state.apply(&change.what)? {
                if !forced(&bound) {
                    machines.insert(bound.node.clone());
                }
                if let Some((name, least)) = &bound.gang {
                    gangs.insert((bound.namespace.clone(), name.clone()), *least);
                }
            }
            at += 1;
        }
        for machine in &machines {
            state.fits(machine).map_err(|error| error.context(format!("at revision {revision}")))?;
        }
        for ((namespace, name), least) in &gangs {
            let member =
                |pod: &&Pod| pod.namespace == *namespace && pod.gang.as_ref().is_some_and(|gang| gang.0 == *name);
            let bound = state.pods.values().filter(member).filter(|pod| !pod.node.is_empty()).count();
            ensure!(bound >= *least, "gang {name} has {bound} of {least} members placed at revision {revision}");
        }
    }
    Ok(state.summary)
}

impl State {
    /// The pod, when this is its bind.
    fn apply(&mut self, what: &What) -> anyhow::Result<Option<Pod>> {
        match what {
            What::Has(node, has) => {
                self.has.insert(node.clone(), *has);
            }
            What::Lends(node, lends) => {
                self.lends.insert(node.clone(), *lends);
            }
            What::PodGone(pod) => {
                self.pods.remove(&pod.uid);
                if let Some(pods) = self.on.get_mut(&pod.node) {
                    pods.remove(&pod.uid);
                }
            }
            What::Pod(pod) => {
                let before = self.pods.insert(pod.uid.clone(), pod.clone());
                let node = before.as_ref().map_or("", |before| &before.node);
                if !node.is_empty() && node != pod.node {
                    bail!("{} was bound to {node}, and then to {:?}", pod.name, pod.node);
                }
                let deleting = before.as_ref().is_some_and(|before| before.deleting);
                self.summary.deleted += usize::from(pod.deleting && !deleting);
                if node.is_empty() && !pod.node.is_empty() {
                    self.on.entry(pod.node.clone()).or_default().insert(pod.uid.clone());
                    self.summary.binds += 1;
                    return Ok(Some(pod.clone()));
                }
            }
        }
        Ok(None)
    }

    fn fits(&mut self, machine: &str) -> anyhow::Result<()> {
        let [cpu_m, memory, most] = self.has.get(machine).copied().unwrap_or_default();
        let lends = self.lends.get(machine).copied().unwrap_or_default();
        let here = self.on.get(machine).into_iter().flatten().filter_map(|uid| self.pods.get(uid));
        let here: Vec<&Pod> = here.filter(|pod| !pod.ended).collect();
        let borrows = |pod: &&&Pod| pod.class == "batch" || pod.class == "best-effort";
        let sum = |pods: &mut dyn Iterator<Item = &&Pod>| {
            pods.fold([0_i64; 2], |[cpu_m, memory], pod| {
                [cpu_m.saturating_add(pod.cpu_m), memory.saturating_add(pod.memory)]
            })
        };
        let all = sum(&mut here.iter());
        let reserved = sum(&mut here.iter().filter(|pod| !borrows(pod)));
        ensure!(here.len() as i64 <= most, "{machine} has {} pods of {most}", here.len());
        for (what, all, reserved, has, lends) in
            [("cpu", all[0], reserved[0], cpu_m, lends[0]), ("memory", all[1], reserved[1], memory, lends[1])]
        {
            ensure!(reserved <= has, "{machine}: {reserved} {what} are reserved of {has}");
            ensure!(all <= has.saturating_add(lends), "{machine}: {all} {what} are taken of {has} and {lends} lent");
        }
        self.summary.fullest_percent = self.summary.fullest_percent.max(all[0] * 100 / cpu_m.max(1));
        Ok(())
    }
}

fn history(events: &[(u64, What)]) -> Vec<Change> {
    #[expect(clippy::disallowed_methods, reason = "nobody looks at it")]
    let seen = std::time::Instant::now();
    events.iter().map(|(revision, what)| Change { revision: *revision, what: what.clone(), seen }).collect()
}

fn on(node: &str, name: &str, cpu_m: i64) -> Pod {
    Pod { uid: name.into(), name: name.into(), node: node.into(), cpu_m, ..Pod::default() }
}

/// The judge on histories made by hand: those that are fine, and those that are not.
pub fn what_must_not_be_is_found(_: &Arena) -> anyhow::Result<()> {
    let has = |revision, cpu_m| (revision, What::Has("m".into(), [cpu_m, 1 << 30, 3]));
    let pod = |revision, pod: Pod| (revision, What::Pod(pod));
    let class = |pod: Pod, class: &str| Pod { class: class.into(), ..pod };
    let member = |pod: Pod| Pod { gang: Some(("g".into(), 2)), ..pod };
    let lends = (2, What::Lends("m".into(), [500, 0]));
    let check = |name: &str, events: &[(u64, What)], expected: &str| {
        let said =
            judge(&history(events), |pod| pod.name == "forced").err().map_or_else(String::new, |e| format!("{e:#}"));
        let as_expected = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
        ensure!(as_expected, "{name}: {said:?} instead of {expected:?}");
        Ok(())
    };
    let a = |cpu_m| pod(5, on("m", "a", cpu_m));
    check("fits", &[has(1, 1000), pod(3, on("", "a", 1000)), a(1000), a(1000)], "")?;
    check("moves", &[has(1, 1000), a(10), pod(6, on("n", "a", 10))], "was bound to m, and then to \"n\"")?;
    check("is unbound", &[has(1, 1000), a(10), pod(6, on("", "a", 10))], "was bound to m, and then to \"\"")?;
    check(
        "two",
        &[has(1, 1000), a(600), pod(6, on("m", "b", 500))],
        "at revision 6: m: 1100 cpu are reserved of 1000",
    )?;
    check(
        "one after the other",
        &[has(1, 1000), a(600), (6, What::PodGone(on("m", "a", 600))), pod(7, on("m", "b", 500))],
        "",
    )?;
    check("forced", &[has(1, 1000), a(600), pod(6, on("m", "forced", 500))], "")?;
    check(
        "after forced",
        &[has(1, 1000), pod(6, on("m", "forced", 600)), pod(7, on("m", "b", 500))],
        "reserved of 1000",
    )?;
    check("grown", &[has(1, 1000), a(600), pod(6, on("m", "a", 900)), pod(7, on("m", "b", 200))], "1100 cpu")?;
    check("shrunk", &[has(1, 1000), a(600), has(6, 500)], "")?;
    check("bound to less", &[has(1, 1000), a(600), has(6, 500), pod(7, on("m", "b", 1))], "601 cpu")?;
    let batch = pod(6, class(on("m", "b", 500), "batch"));
    check("lent", &[has(1, 1000), lends.clone(), a(1000), batch.clone()], "")?;
    check("not lent", &[has(1, 1000), a(1000), batch], "1500 cpu are taken of 1000 and 0 lent")?;
    check(
        "lent to others",
        &[has(1, 1000), lends, a(1000), pod(6, class(on("m", "b", 1), "production"))],
        "1001 cpu are reserved",
    )?;
    let four: Vec<_> =
        std::iter::once(has(1, 1000)).chain((0..4).map(|n| pod(5 + n, on("m", &n.to_string(), 1)))).collect();
    check("too many", &four, "m has 4 pods of 3")?;
    let half = [has(1, 1000), pod(5, member(on("m", "a", 1))), pod(6, member(on("m", "b", 1)))];
    check("half a gang", &half, "gang g has 1 of 2 members placed at revision 5")?;
    check("a whole gang", &[has(1, 1000), pod(5, member(on("m", "a", 1))), pod(5, member(on("m", "b", 1)))], "")
}
