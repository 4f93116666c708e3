//! Members that come, decide, lead, move and go, while the group goes on.

use super::tests::{DEADLINE, keys, put, wait, write};
use super::*;
use std::net::TcpListener;
use tempfile::TempDir;

struct Place {
    dir: TempDir,
    address: String,
    group: Option<Group>,
}

impl Place {
    /// A member on a port that the kernel picked; `found` begins a group, otherwise it joins the one at `seed`.
    async fn open(id: u64, seed: Option<(u64, &Place)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut place = Self { dir: TempDir::new().unwrap(), address, group: None };
        let seed = seed.map(|(id, place)| (id, place.address.clone()));
        place.start(id, listener, seed).await;
        place
    }

    async fn start(&mut self, id: u64, listener: TcpListener, seed: Option<(u64, String)>) {
        let mut members = BTreeMap::from([(id, self.address.clone())]);
        members.extend(seed.clone());
        let config = GroupConfig {
            member: id,
            members,
            join: seed.is_some(),
            listener: Some(listener),
            log_keep: 5,
            ..GroupConfig::single("state", self.dir.path())
        };
        self.group = Some(Group::open(config).await.unwrap());
    }

    fn group(&self) -> &Group {
        self.group.as_ref().unwrap()
    }

    fn handle(&self) -> &Handle {
        &self.group().handle
    }
}

async fn caught_up(place: &Place, with: &Place) {
    wait(|| place.group().applied_revision() == with.group().applied_revision()).await;
}

/// What the leader knows of a learner comes with the learner's answers, a little after the learner has it.
async fn promote(leader: &Place, id: u64) {
    let promoted = async {
        while let Err(error) = leader.handle().promote_member(id).await {
            assert!(matches!(error, ChangeError::Behind | ChangeError::NotLeader(None)), "{error:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, promoted).await.expect("the learner is promoted in time");
}

/// Asks whoever leads: the old leader's end may cost the new one an election.
async fn move_member(leaders: [&Place; 2], id: u64, address: &str) {
    let moved = async {
        for place in leaders.iter().cycle() {
            match place.handle().move_member(id, address).await {
                Ok(_) => return,
                Err(error) => assert!(matches!(error, ChangeError::NotLeader(_)), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, moved).await.expect("somebody leads in time");
}

fn voters(place: &Place) -> Vec<u64> {
    place.handle().voters().into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_lead_move_and_go() {
    let one = Place::open(1, None).await;
    write(one.group(), 0..20).await;
    // Those that come late get a snapshot, because the log before it is gone.
    one.group().snapshot().await.unwrap();
    wait(|| one.handle().snapshots.current().is_some()).await;

    let two = Place::open(2, Some((1, &one))).await;
    let id = one.handle().add_member(&two.address).await.unwrap();
    assert_eq!(id, 2);
    assert!(matches!(one.handle().add_member(&two.address).await, Err(ChangeError::AddressTaken)));
    caught_up(&two, &one).await;
    assert_eq!(voters(&one), [1], "a learner does not decide");
    promote(&one, 2).await;
    assert!(matches!(one.handle().promote_member(2).await, Err(ChangeError::NotLearner)));
    assert!(matches!(one.handle().promote_member(9).await, Err(ChangeError::NoMember)));

    let mut three = Place::open(3, Some((1, &one))).await;
    assert!(matches!(two.handle().add_member(&three.address).await, Err(ChangeError::NotLeader(Some(1)))));
    assert_eq!(one.handle().add_member(&three.address).await.unwrap(), 3);
    caught_up(&three, &one).await;
    promote(&one, 3).await;
    assert_eq!(voters(&one), [1, 2, 3]);

    one.handle().move_leader(3).await.unwrap();
    wait(|| three.group().is_leader()).await;
    assert!(matches!(one.handle().move_leader(1).await, Err(ChangeError::NotLeader(Some(3)))));
    write(one.group(), 20..25).await;

    // The first member goes for good; its number is not given again.
    three.handle().remove_member(1).await.unwrap();
    let removed = Ended::Removed { group: "state".into(), member: 1 };
    assert_eq!(tokio::time::timeout(DEADLINE, one.group().ended()).await.unwrap(), removed);
    assert!(!one.group().is_leader() && one.handle().leader().is_none());
    one.group().shutdown().await;
    // Also if it is started again.
    let mut one = one;
    drop(one.group.take());
    let listener = TcpListener::bind(&one.address).unwrap();
    let seed = Some((2, two.address.clone()));
    one.start(1, listener, seed).await;
    assert_eq!(tokio::time::timeout(DEADLINE, one.group().ended()).await.unwrap(), removed);
    one.group().shutdown().await;
    assert_eq!(voters(&three), [2, 3]);
    two.group().txn(put("k025", "v25")).await.unwrap();
    let four = Place::open(4, Some((3, &three))).await;
    assert_eq!(three.handle().add_member(&four.address).await.unwrap(), 4);
    caught_up(&four, &three).await;
    promote(&three, 4).await;

    // A member comes back at another address, which the leader is told first; then it knows the others from its log.
    three.handle().move_leader(4).await.unwrap();
    three.group().shutdown().await;
    drop(three.group.take());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    three.address = listener.local_addr().unwrap().to_string();
    move_member([&two, &four], 3, &three.address).await;
    four.group().txn(put("k026", "v26")).await.unwrap();
    three.start(3, listener, None).await;
    caught_up(&three, &four).await;
    assert_eq!(three.group().hash(), four.group().hash());
    assert_eq!(keys(two.group()).await.len(), 27);
    three.group().ready(DEADLINE).await.unwrap();
    three.group().txn(put("k027", "v27")).await.unwrap();
    for place in [two, three, four] {
        place.group().shutdown().await;
    }
}
