//! Gangs on too little room, while the leader and the API server die: at no revision is one half placed.

use crate::arena::{Arena, MACHINES, PATIENCE, Server};
use crate::crowd::{Crowd, labelled, pod};
use crate::record::Record;
use crate::replay;
use crate::standby::{holder, one_leads};
use anyhow::ensure;
use gantry_conformance::wait_for;
use std::collections::BTreeMap;

const GANGS: usize = 20;
const MEMBERS: usize = 8;
/// Two members fill a machine.
const MEMBER_CPU_M: usize = 3_900;
/// Machines that are full at first: the others have room for 17 of the gangs and half of one.
const FULL: usize = MACHINES - 70;

/// How many gangs have all of their members placed; an error when one has some.
fn whole(crowd: &Crowd<'_>, record: &Record) -> anyhow::Result<usize> {
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    for pod in record.pods(crowd.namespace, |pod| !pod.node.is_empty()) {
        if let Some((gang, _)) = pod.gang {
            *placed.entry(gang).or_default() += 1;
        }
    }
    ensure!(placed.values().all(|placed| *placed == MEMBERS), "{placed:?}");
    Ok(placed.len())
}

pub fn are_whole_whatever_dies(arena: &Arena) -> anyhow::Result<()> {
    arena.case("gangs", &["one", "two"], |crowd, record| {
        let before = holder(arena);
        arena.start_scheduler("one", Server::Steady, &[])?;
        one_leads(arena, &before)?;
        let blocker = |n: usize| format!("blocker-{n}");
        crowd.create((0..FULL).map(|n| pod(&blocker(n), 7_000)))?;
        record.wait_bound(crowd.namespace, FULL)?;
        arena.start_scheduler("two", Server::Mortal, &[])?;
        std::thread::scope(|scope| {
            // One member of each, then the next of each: all gangs become whole at about the same time.
            let members = (0..GANGS * MEMBERS).map(|n| {
                let gang = format!("gang-{:02}", n % GANGS);
                let one = pod(&format!("{gang}-{}", n / GANGS), MEMBER_CPU_M);
                labelled(labelled(one, "gantry.dev/pod-group", &gang), "gantry.dev/min-member", &MEMBERS.to_string())
            });
            let making = scope.spawn(|| crowd.create(members));
            wait_for("the first gangs", PATIENCE, || {
                ensure!(record.bound(crowd.namespace) > FULL, "none yet");
                Ok(())
            })?;
            arena.kill("one")?;
            arena.kill_server(Server::Mortal)?;
            arena.start_server(Server::Mortal)?;
            making.join().expect("it does not panic")
        })?;
        wait_for("as many gangs as there is room for", PATIENCE, || {
            let whole = whole(crowd, record)?;
            ensure!(whole == 17, "{whole} are placed");
            Ok(())
        })?;
        let waiting = record.pods(crowd.namespace, |pod| pod.node.is_empty());
        crowd.says(&waiting[0].name, &["pod group gang-", "needs 8 pods at once"])?;
        crowd.delete((0..FULL).map(blocker).collect::<Vec<_>>().iter().map(String::as_str))?;
        record.wait_all_bound(crowd.namespace)?;
        ensure!(whole(crowd, record)? == GANGS);
        let summary = replay::judge(&record.changes()?, |_| false)?;
        ensure!(summary.binds == FULL + GANGS * MEMBERS, "{summary:?}");
        Ok(())
    })
}
