//! Directories that are lost: who may take part with a new one.

use super::tests::{DEADLINE, put, wait};
use super::*;
use std::net::TcpListener;
use tempfile::TempDir;

/// Three members that are started one by one, on ports that the kernel picked.
struct Three {
    members: BTreeMap<u64, String>,
    dirs: Vec<TempDir>,
    listeners: BTreeMap<u64, TcpListener>,
}

impl Three {
    fn new() -> Self {
        let listeners: BTreeMap<_, _> = (1..=3).map(|id| (id, TcpListener::bind("127.0.0.1:0").unwrap())).collect();
        let members = listeners.iter().map(|(id, at)| (*id, at.local_addr().unwrap().to_string())).collect();
        Self { members, dirs: (0..3).map(|_| TempDir::new().unwrap()).collect(), listeners }
    }

    async fn start(&mut self, id: u64) -> Group {
        let listener = self.listeners.remove(&id).unwrap_or_else(|| TcpListener::bind(&self.members[&id]).unwrap());
        let config = GroupConfig {
            member: id,
            members: self.members.clone(),
            listener: Some(listener),
            ..GroupConfig::single("state", self.dirs[id as usize - 1].path())
        };
        Group::open(config).await.unwrap()
    }

    fn lose(&mut self, id: u64) {
        self.dirs[id as usize - 1] = TempDir::new().unwrap();
    }
}

async fn done(store: &dyn Store, key: &str) {
    let written = async {
        while let Err(error) = store.txn(put(key, "v")).await {
            assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Unknown(_)), "{error:?}");
        }
    };
    tokio::time::timeout(DEADLINE, written).await.expect("it is written in time");
}

/// What the store holds, once a majority is there to say so.
async fn content(group: &Group) -> Vec<String> {
    let read = async {
        loop {
            match group.range(RangeRequest::prefix("")).await {
                Ok(reply) => return reply.kvs.iter().map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect(),
                Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("it is read in time")
}

async fn refusal(group: &Group) -> GroupError {
    tokio::time::timeout(DEADLINE, group.refused()).await.expect("it is refused in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_begin_after_a_restart_and_the_third_comes_later() {
    let mut three = Three::new();
    let alone = three.start(1).await;
    assert!(!alone.handle.part.takes(), "one of three begins nothing");
    alone.shutdown().await;
    drop(alone);
    let (one, two) = (three.start(1).await, three.start(2).await);
    done(&one, "a").await;
    let last = three.start(3).await;
    assert_eq!(content(&last).await, ["a"]);
    for group in [one, two, last] {
        group.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_its_directory_decides_nothing_and_no_write_is_lost() {
    let mut three = Three::new();
    let (one, two, last) = (three.start(1).await, three.start(2).await, three.start(3).await);
    for group in [&one, &two, &last] {
        group.ready(DEADLINE).await.unwrap();
    }
    // Those that greeted each other keep each other.
    wait(|| last.handle.part.keeps() == 2).await;
    last.shutdown().await;
    drop(last);
    done(&one, "acknowledged").await;
    for group in [one, two] {
        group.shutdown().await;
    }
    three.lose(2);
    let (two, last) = (three.start(2).await, three.start(3).await);
    let refused = refusal(&two).await;
    assert!(matches!(refused, GroupError::Refused(Refusal::TookPart { member: 2, witness: 3 })), "{refused}");
    assert!(!two.handle.part.takes() && two.handle.term() == 0, "it has not voted");
    // The one that has the write comes back.
    let one = three.start(1).await;
    assert_eq!(content(&last).await, ["acknowledged"]);
    for group in [one, two, last] {
        group.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_directory_waits_for_those_that_may_know_the_one_before() {
    let mut three = Three::new();
    let (one, two) = (three.start(1).await, three.start(2).await);
    done(&one, "a").await;
    two.shutdown().await;
    drop(two);
    // The third never ran, so it cannot be told from one that was lost: 2 may know it.
    let last = three.start(3).await;
    let asked = last.handle.ask_around(&mut Default::default()).await.unwrap();
    assert!(!asked && !last.handle.part.takes());
    let two = three.start(2).await;
    assert_eq!(content(&last).await, ["a"]);
    for group in [one, two, last] {
        group.shutdown().await;
    }
}
