//! The log against crashes and damage: what was acknowledged is there after opening again, or opening is refused.

use super::*;
use crate::api::{Op, Txn};
use crate::mvcc::{Command, Entry};
use crate::raft::types::Proposal;
use openraft::EntryPayload;
use openraft::type_config::TypeConfigExt;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

pub fn id(index: u64) -> LogId {
    let mut out = Vec::new();
    [1, 1, index].iter().for_each(|n| crate::codec::put_u64(&mut out, *n));
    crate::raft::types::log_id(&mut crate::codec::Reader::new(out.into())).unwrap()
}

pub fn entry(index: u64) -> RaftEntry {
    let op = Op::put(index.to_string(), vec![index as u8; 200]);
    let commands = vec![Command::Txn(Txn { success: vec![op], ..Txn::default() })];
    RaftEntry { log_id: id(index), payload: EntryPayload::Normal(Proposal(Arc::new(Entry { time_ms: 0, commands }))) }
}

/// Small segments and no cache, so that everything is read from disk.
pub fn open(dir: &TempDir) -> Result<Wal, OpenError> {
    let config = WalConfig { segment_bytes: 2_000, zero_ahead_bytes: 4_096, cache_bytes: 0, ..WalConfig::default() };
    Wal::open(dir.path(), config)
}

pub async fn append(wal: &Wal, range: Range<u64>) {
    for index in range {
        let (sender, receiver) = TypeConfig::oneshot();
        wal.append(vec![entry(index)], IOFlushed::signal(sender));
        receiver.await.unwrap().unwrap();
    }
}

pub fn indexes(wal: &Wal) -> Vec<u64> {
    let (purged, _) = wal.ends();
    let first = purged.map_or(0, |purged| purged.index + 1);
    let entries = wal.read(first..u64::MAX, usize::MAX).unwrap();
    for found in &entries {
        assert_eq!(*found, entry(found.log_id.index));
    }
    entries.iter().map(|entry| entry.log_id.index).collect()
}

pub fn segments(dir: &TempDir) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "wal")).collect();
    segments.sort();
    segments
}

/// Where the last record of a segment starts: records of these tests are the last bytes that are not zero.
fn last_bytes(path: &PathBuf) -> (std::fs::File, u64) {
    let bytes = std::fs::read(path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    (OpenOptions::new().write(true).open(path).unwrap(), end as u64)
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_opening_again() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..30).await;
    wal.truncate_after(Some(id(24))).await.unwrap();
    append(&wal, 25..28).await;
    wal.purge(id(9)).await.unwrap();
    let expect: Vec<_> = (10..28).collect();
    assert_eq!(indexes(&wal), expect);
    let files = segments(&dir).len();
    drop(wal);
    let wal = open(&dir).unwrap();
    assert_eq!((indexes(&wal), wal.ends()), (expect, (Some(id(9)), Some(id(27)))));
    wal.purge(id(27)).await.unwrap();
    assert!(segments(&dir).len() < files, "purged segments are removed");
    drop(wal);
    let wal = open(&dir).unwrap();
    assert_eq!((indexes(&wal), wal.ends()), (vec![], (Some(id(27)), Some(id(27)))));
    append(&wal, 28..30).await;
    drop(wal);
    assert_eq!(indexes(&open(&dir).unwrap()), [28, 29]);
}

#[tokio::test]
async fn a_cut_into_segments_that_are_gone_by_now_is_no_gap() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    let mut first = 5;
    append(&wal, 0..first).await;
    let before = segments(&dir).len();
    while segments(&dir).len() == before {
        first += 1;
        append(&wal, first - 1..first).await;
    }
    // The newest segment begins with an entry that is void, and with the cut that reaches into the segment before.
    wal.truncate_after(Some(id(first - 4))).await.unwrap();
    append(&wal, first - 3..first + 2).await;
    wal.purge(id(first - 1)).await.unwrap();
    drop(wal);
    let wal = open(&dir).unwrap();
    assert_eq!((indexes(&wal), wal.ends()), (vec![first, first + 1], (Some(id(first - 1)), Some(id(first + 1)))));
    wal.truncate_after(Some(id(first))).await.unwrap();
    append(&wal, first + 1..first + 3).await;
    drop(wal);
    assert_eq!(indexes(&open(&dir).unwrap()), (first..first + 3).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_and_does_not_come_back() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..3).await;
    drop(wal);
    let (file, end) = last_bytes(&segments(&dir)[0]);
    file.write_all_at(&[0; 8], end - 7).unwrap();
    let wal = open(&dir).unwrap();
    assert_eq!(indexes(&wal), [0, 1]);
    append(&wal, 2..4).await;
    drop(wal);
    assert_eq!(indexes(&open(&dir).unwrap()), [0, 1, 2, 3]);
}

#[tokio::test]
async fn what_follows_a_torn_record_does_not_come_back_behind_what_takes_its_place() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..2).await;
    drop(wal);
    let (_, before) = last_bytes(&segments(&dir)[0]);
    let wal = open(&dir).unwrap();
    let (sender, flushed) = TypeConfig::oneshot();
    wal.append(vec![entry(2), entry(3)], IOFlushed::signal(sender));
    flushed.await.unwrap().unwrap();
    drop(wal);
    // As if the disk had written the second record of the group and not the first.
    let file = OpenOptions::new().read(true).write(true).open(&segments(&dir)[0]).unwrap();
    file.write_all_at(&[0; 100], before + 60).unwrap();
    let wal = open(&dir).unwrap();
    assert_eq!(indexes(&wal), [0, 1]);
    append(&wal, 2..3).await;
    drop(wal);
    assert_eq!(indexes(&open(&dir).unwrap()), [0, 1, 2]);
}

#[tokio::test]
async fn damage_to_what_was_durable_is_refused() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..20).await;
    drop(wal);
    let files = segments(&dir);
    assert!(files.len() > 2);
    let flip = |path: &PathBuf, at: u64| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at as usize] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let refused = |what: &str, check: fn(&OpenError) -> bool| {
        let error = open(&dir).err().expect(what);
        assert!(check(&error), "{what}: {error:?}");
    };
    let (_, end) = last_bytes(&files[0]);
    for at in [end - 100, 60] {
        flip(&files[0], at);
        refused("a record of a full segment", |e| matches!(e, OpenError::Damaged { .. }));
        flip(&files[0], at);
    }
    flip(&files[1], 17);
    refused("a full segment's header", |e| matches!(e, OpenError::Header { .. }));
    flip(&files[1], 17);
    let aside = dir.path().join("aside");
    std::fs::rename(&files[1], &aside).unwrap();
    refused("a missing segment", |e| matches!(e, OpenError::MissingSegment { .. }));
    std::fs::rename(&aside, &files[1]).unwrap();
    assert_eq!(indexes(&open(&dir).unwrap()).len(), 20, "undamaged again");
}

#[tokio::test]
async fn a_full_disk_is_waited_out_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let space = Space::default();
    let full = |full: bool| space.used_up.store(full, std::sync::atomic::Ordering::SeqCst);
    let config = || WalConfig {
        segment_bytes: 20_000,
        zero_ahead_bytes: 4_096,
        cache_bytes: 0,
        space: space.clone(),
        ..WalConfig::default()
    };
    let wal = Wal::open(dir.path(), config()).unwrap();
    append(&wal, 0..1).await;
    full(true);
    let mut waiting = Vec::new();
    for index in 1..200 {
        let (sender, receiver) = TypeConfig::oneshot();
        wal.append(vec![entry(index)], IOFlushed::signal(sender));
        waiting.push(receiver);
    }
    let deadline = std::time::Duration::from_secs(30);
    let noticed = async {
        while !wal.is_full() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(deadline, noticed).await.unwrap();
    let last = waiting.pop().unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(600), last).await.is_err(), "there is no room for all");
    assert_eq!(indexes(&wal).len(), 200, "everything can be read");
    full(false);
    for receiver in waiting {
        tokio::time::timeout(deadline, receiver).await.unwrap().unwrap().unwrap();
    }
    append(&wal, 200..300).await;
    assert!(!wal.is_full());
    drop(wal);
    let wal = Wal::open(dir.path(), config()).unwrap();
    assert_eq!(indexes(&wal), (0..300).collect::<Vec<_>>());

    // A log that is closed meanwhile says that what waits was not written, and is whole.
    full(true);
    let (sender, mut receiver) = TypeConfig::oneshot();
    let mut written = 300;
    while !wal.is_full() {
        let (sender, done) = TypeConfig::oneshot();
        wal.append(vec![entry(written)], IOFlushed::signal(sender));
        receiver = done;
        written += 1;
    }
    drop(sender);
    (written..written + 200).for_each(|index| {
        let (sender, done) = TypeConfig::oneshot();
        wal.append(vec![entry(index)], IOFlushed::signal(sender));
        receiver = done;
    });
    drop(wal);
    assert!(receiver.await.unwrap().is_err());
    let found = indexes(&Wal::open(dir.path(), config()).unwrap());
    assert!(found.len() >= 300 && found.len() < written as usize + 200, "{}", found.len());
    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn old_segments_become_new_ones_and_nothing_of_them_comes_back() {
    let dir = TempDir::new().unwrap();
    let mut wal = open(&dir).unwrap();
    let mut next = 0;
    let mut recycled = 0;
    for round in 0..30 {
        append(&wal, next..next + 10).await;
        next += 10;
        for path in segments(&dir) {
            let bytes = std::fs::read(&path).unwrap();
            let sequence = u64::from_str_radix(path.file_stem().unwrap().to_str().unwrap(), 16).unwrap();
            let scan = record::scan(&bytes, sequence);
            assert_eq!(scan.tail, record::Tail::Clean);
            recycled += usize::from(bytes[scan.end as usize..].iter().any(|byte| *byte != 0));
        }
        wal.purge(id(next - 4)).await.unwrap();
        if round % 5 == 4 {
            drop(wal);
            wal = open(&dir).unwrap();
        }
        assert_eq!(indexes(&wal), (next - 3..next).collect::<Vec<_>>(), "round {round}");
    }
    assert!(recycled > 0);
    assert!(segments(&dir).len() < 6, "{:?}", segments(&dir));
}

#[tokio::test]
async fn a_segment_that_was_never_synced_is_dropped() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..3).await;
    drop(wal);
    std::fs::write(dir.path().join(format!("{:016x}.wal", 2)), [0; 100]).unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 3..5).await;
    drop(wal);
    assert_eq!(indexes(&open(&dir).unwrap()), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn appends_of_one_group_share_a_flush_and_votes_do_not_linger() {
    let dir = TempDir::new().unwrap();
    let config = WalConfig { linger: Duration::from_secs(3_600), ..WalConfig::default() };
    let wal = Wal::open(dir.path(), config).unwrap();
    let (sender, flushed) = TypeConfig::oneshot();
    wal.append(vec![entry(0), entry(1)], IOFlushed::signal(sender));
    // The vote does not wait an hour, and takes along what was there.
    let vote = openraft::Vote::new(1, 1);
    wal.save_vote(vote).await.unwrap();
    flushed.await.unwrap().unwrap();
    assert_eq!(wal.vote(), Some(vote));
}
