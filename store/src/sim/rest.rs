//! How a run ends: everything is well again, the members must come to rest in one state, leases must run out, every member
//! must take one more write, and all that was recorded must have one explanation.

use super::changes;
use super::clients::Client;
use super::world::{Calm, Finding, World};
use crate::api::{Revision, Store};
use crate::group::{Group, Member};
use gantry_history::{Request, check, check_hashes, everything};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long the members may take to come to rest.
const REST: Duration = Duration::from_secs(60);
/// How long leases that nobody keeps alive may stay.
const LEASES_STAY: Duration = Duration::from_secs(30);
/// The number of the client that asks at the end.
const LAST_CLIENT: usize = 1_000;

/// Where one member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    revision: Revision,
    hash: u64,
    members: Vec<Member>,
    /// More than one while a change of members is half done.
    configurations: usize,
}

async fn state(group: &Group) -> Option<State> {
    timeout(Duration::from_secs(15), group.read_revision()).await.ok()?.ok()?;
    let handle = group.handle();
    let metrics = handle.metrics();
    let configurations = metrics.membership_config.membership().get_joint_config().len();
    (!handle.is_full()).then(|| State {
        revision: group.applied_revision(),
        hash: group.hash(),
        members: handle.members(),
        configurations,
    })
}

/// Ends all faults and waits until every member serves and holds the same; answers at which revision.
async fn heal(world: &World) -> Result<Revision, Finding> {
    world.network.mend();
    let end = Instant::now() + REST;
    loop {
        for member in world.ids() {
            world.stall_ms(member).store(0, Ordering::Relaxed);
            world.fill(member, false);
            world.start(member).await;
        }
        changes::settle(world).await;
        world.found()?;
        let groups = world.groups();
        let mut states = Vec::new();
        for group in &groups {
            states.push(state(group).await);
        }
        if let Some(Some(first)) = states.first()
            && states.iter().all(|state| state.as_ref() == Some(first))
            && first.members.iter().map(|member| member.id).eq(world.ids())
            && first.members.iter().all(|member| !member.learner)
            && first.configurations == 1
        {
            return Ok(first.revision);
        }
        if Instant::now() >= end {
            let said: Vec<_> = groups.iter().map(Group::raft_says).collect();
            return Err(Finding::NoRest(format!("{:?}: {states:x?} {said:#?}", world.ids())));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until every lease has run out everywhere: nobody keeps one alive any more.
async fn run_out(world: &World) -> Result<(), Finding> {
    let end = Instant::now() + LEASES_STAY;
    loop {
        let left: Vec<_> = world.groups().iter().map(|group| group.view().leases().len()).collect();
        if left.iter().all(|leases| *leases == 0) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Finding::LeasesStay(left));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// What was lost on the way before everything was well holds others up for as long as it is waited for.
async fn takes_a_write(world: &World, client: &mut Client, member: u64) -> Result<(), Finding> {
    let end = Instant::now() + REST;
    while let Err(what) = client.writes(member).await {
        if Instant::now() >= end {
            let said: Vec<_> = world.groups().iter().map(Group::raft_says).collect();
            return Err(Finding::NoRest(format!("{what}: {said:#?}")));
        }
    }
    Ok(())
}

pub async fn judge(world: &Arc<World>) -> Result<Calm, Finding> {
    let mut client = Client::new(world.clone(), LAST_CLIENT);
    heal(world).await?;
    run_out(world).await?;
    for member in world.ids() {
        takes_a_write(world, &mut client, member).await?;
    }
    let Revision(revision) = loop {
        let rest = heal(world).await?;
        for member in world.ids() {
            client.ask(member, Request::Read { span: everything(), at: None, serializable: false }).await;
        }
        // A write whose client gave up may arrive as late as between these reads.
        if heal(world).await? == rest {
            break rest;
        }
    };
    world.sample();
    check_hashes(&world.hashes.lock()).map_err(Finding::History)?;
    let history = std::mem::take(&mut *world.history.lock());
    let explained = check(&history).map_err(|violation| {
        eprintln!("{}", gantry_history::describe(&history, &violation));
        Finding::History(violation)
    })?;
    if revision != explained.revision {
        return Err(Finding::NoRest(format!("clients saw {}, members hold {revision}", explained.revision)));
    }
    let (operations, unknown_done) = (history.operations.len(), explained.unknown_done.len());
    let (expired, members, put_away) = (explained.expired, world.added(), world.put_away());
    Ok(Calm { operations, revision, unknown_done, expired, members, put_away, ..Calm::default() })
}
