//! A member whose directory is lost with all that was in it, and which is started again as if nothing had been. It must not
//! take part, because it forgot what it voted and acknowledged; whoever runs it replaces it.

use super::changes::{self, ask};
use super::dice;
use super::faults::{pause, who_goes_on};
use super::world::{Death, Finding, World};
use crate::group::{Group, Handle};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a member may take to know whether it may take part, while all others can be asked.
const KNOWS: Duration = Duration::from_secs(30);
const ANSWERS: Duration = Duration::from_secs(5);

pub async fn lose(world: &Arc<World>, member: u64) {
    let configurations: Vec<_> = world.groups().iter().flat_map(|group| group.handle().configurations()).collect();
    // Without this one, the group goes on; a group that cannot is one for a backup.
    if world.groups().len() < world.ids().len() || who_goes_on(&configurations, member).is_none() {
        return;
    }
    let others = world.others(member);
    let behind = others[dice::below(others.len() as u64) as usize];
    // What is written now, this one has and that one does not.
    cut_off(world, behind);
    pause(200, 4_000).await;
    world.lose(member);
    world.network.mend();
    // And that one may meet this one before anybody else.
    if dice::percent(70) {
        others.iter().filter(|other| **other != behind).for_each(|other| cut_off(world, *other));
    }
    // What others know of it has to outlive their processes.
    if dice::percent(50) {
        for other in &others {
            world.kill(*other, Death::Power);
        }
        for other in &others {
            world.start(*other).await;
        }
    }
    world.start(member).await;
    pause(500, 5_000).await;
    world.network.mend();
    if is_refused(world, member).await {
        world.refuse(member);
        replace(world, member).await;
    }
}

fn cut_off(world: &World, member: u64) {
    for other in world.others(member) {
        world.network.cut(member, other);
        world.network.cut(other, member);
    }
}

/// Whether the member must not take part; nobody may have known the directory that it had.
async fn is_refused(world: &World, member: u64) -> bool {
    let Some((group, _)) = world.group(member) else { return false };
    let takes = async {
        while !group.handle().takes_part() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        biased;
        _ = group.refused() => true,
        () = takes => false,
        () = tokio::time::sleep(KNOWS) => {
            let said: Vec<_> = world.groups().iter().map(Group::raft_says).collect();
            let what = format!("member {member} of {:?} does not learn whether it may take part: {said:#?}", world.ids());
            world.find(Finding::NoRest(what));
            false
        }
    }
}

/// Removes the member until it is gone for certain, and adds another.
async fn replace(world: &World, member: u64) {
    let end = Instant::now() + KNOWS;
    while Instant::now() < end {
        let removed = ask(world, async |leader: &Handle| leader.remove_member(member).await).await.is_some();
        if removed || is_gone(world, member).await {
            world.dismiss(member);
            return changes::grow(world).await;
        }
    }
}

/// Whether the group has agreed on being without it.
async fn is_gone(world: &World, member: u64) -> bool {
    let Some((leader, _)) = world.leader().and_then(|leader| world.group(leader)) else { return false };
    let leads = timeout(ANSWERS, leader.handle().read_index_here()).await;
    let knows = |group: &Group| group.handle().agreed_members().iter().any(|known| known.id == member);
    matches!(leads, Ok(Ok(_))) && !knows(&leader)
}
