//! Bytes that no member wrote, for everything that decodes bytes: it may refuse them, but not panic, and not take more of the
//! heap than a bound that follows from the input's length. Half of the inputs are valid ones with something changed; others
//! claim the most with the least.

use crate::api::{Compare, Op, Revision, Txn};
use crate::codec::{self, Reader};
use crate::etcd::convert;
use crate::group::{Greeting, Welcome};
use crate::mvcc::{Command, Entry, Mvcc, Reply, apply};
use crate::peer::wire;
use crate::proto::{Frame, etcd};
use crate::raft::snapshot::{READ_BYTES, SnapshotDir, SnapshotFile};
use crate::raft::types::{self, Meta};
use crate::reply;
use crate::wal::record::{self, Kind, State};
use bytes::Bytes;
use gantry_fuzzing::{change, changed, input, most_bytes};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

fn txn() -> Txn {
    let nested = Txn { failure: vec![Op::get("n"), Op::put("n", "1")], ..Txn::default() };
    Txn {
        compare: vec![Compare::unchanged("a", Revision(7)), Compare::has_value("b", "v")],
        success: vec![Op::put("k", vec![7; 40]), Op::Txn(Box::new(nested))],
        failure: vec![Op::delete("d"), Op::get("g")],
    }
}

fn entry() -> Entry {
    let grant = Command::Grant { id: crate::api::LeaseId(5), ttl_s: 9 };
    Entry { time_ms: 99, commands: vec![grant, Command::Txn(txn())] }
}

fn entry_bytes() -> Vec<u8> {
    let mut out = Vec::new();
    codec::put_entry(&mut out, &entry());
    out
}

fn batch_bytes() -> Vec<u8> {
    let mut out = Vec::new();
    codec::put_txns(&mut out, &[txn(), txn()]);
    out
}

fn state() -> Mvcc {
    let mut mvcc = Mvcc::default();
    apply(&mut mvcc, &entry()).unwrap();
    mvcc
}

fn replies_now() -> Vec<Reply> {
    apply(&mut Mvcc::default(), &entry()).unwrap().replies
}

fn replies_bytes() -> Vec<u8> {
    let mut out = Vec::new();
    reply::put_replies(&mut out, &replies_now());
    out
}

fn segment() -> Vec<u8> {
    let mut bytes = record::segment_header(3).to_vec();
    for durable in [0, 32, 120] {
        record::put(&mut bytes, 3, durable, Kind::Entry, |out| out.extend(entry_bytes()));
    }
    bytes.resize(1_024, 0);
    bytes
}

fn snapshot() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let file = SnapshotDir::open(dir.path()).unwrap().0.write(&Meta::default(), &state()).unwrap();
    let bytes = std::fs::read(&file.path).unwrap();
    (dir, bytes)
}

/// Makes every frame's checksum right, so that what the frames hold is looked at.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 16;
    while let Some(head) = bytes.get(at..at + 8) {
        let len = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let Some(frame) = bytes.get(at + 8..).and_then(|rest| rest.get(..len)) else { break };
        let crc = crc32fast::hash(frame).to_le_bytes();
        bytes[at + 4..at + 8].copy_from_slice(&crc);
        at += 8 + len;
    }
    bytes
}

/// Bytes on the heap for each byte of the input, and for the shortest. An empty item takes one or two bytes of an input and
/// as much memory as any other; a list that grows is there twice.
const EACH: usize = 160;
const LEAST: usize = 64 << 10;

thread_local! {
    /// The most that was seen of `EACH`.
    static MOST: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Runs a decoder, which may take no more of the heap than `bytes` are worth, beside what it has for any input.
fn bounded<T>(bytes: usize, always: usize, decode: impl FnOnce() -> T) -> T {
    let (answer, most) = most_bytes(decode);
    let bound = bytes * EACH + LEAST + always;
    MOST.with(|seen| seen.set(seen.get().max(most.saturating_sub(LEAST + always) / bytes.max(1))));
    assert!(most <= bound, "{bytes} bytes take {most} on the heap, more than {bound}");
    answer
}

fn greeting() -> Greeting {
    Greeting { incarnation: 7, keep: true, known: [(1, 3), (2, 4)].into() }
}

fn welcome() -> Welcome {
    let members = [(1, ("a:1".to_owned(), true)), (2, ("b:1".to_owned(), false))].into();
    Welcome { incarnation: 7, exists: true, begins: 2, kept: 9, known: greeting().known, members, as_of: 5 }
}

#[test]
fn greetings_survive_the_wire() {
    assert_eq!(wire::greeting(wire::put_greeting(&greeting()).into()), Ok(greeting()));
    assert_eq!(wire::welcome(wire::put_welcome(&welcome()).into()), Ok(welcome()));
}

/// Everything that decodes what members send each other or keep in their logs.
fn decode_all(bytes: &[u8]) {
    let shared = || Bytes::copy_from_slice(bytes);
    bounded(bytes.len(), 0, || codec::entry(&mut Reader::new(shared())).is_ok());
    bounded(bytes.len(), 0, || codec::txns(&mut Reader::new(shared())).is_ok());
    bounded(bytes.len(), 0, || types::decode_entry(shared()).is_ok());
    bounded(bytes.len(), 0, || types::meta(&mut Reader::new(shared())).is_ok());
    bounded(bytes.len(), 0, || reply::replies(&mut Reader::new(shared())).is_ok());
    bounded(bytes.len(), 0, || reply::error(&mut Reader::new(shared())).is_ok());
    bounded(bytes.len(), 0, || wire::append(shared()).is_ok());
    bounded(bytes.len(), 0, || wire::greeting(shared()).is_ok());
    bounded(bytes.len(), 0, || wire::welcome(shared()).is_ok());
    for kind in [Kind::Vote, Kind::Truncate, Kind::Purge, Kind::Committed] {
        bounded(bytes.len(), 0, || State::decode(kind, shared()).is_ok());
    }
    bounded(bytes.len(), 0, || record::scan(bytes, 3).records.len());
    bounded(bytes.len(), 0, || etcd::TxnRequest::decode(bytes).map(|request| convert::txn(request).is_ok()).is_ok());
    bounded(bytes.len(), 0, || etcd::RangeRequest::decode(bytes).map(|range| convert::range(range).is_ok()).is_ok());
    bounded(bytes.len(), 0, || etcd::PutRequest::decode(bytes).map(|put| convert::put(put).is_ok()).is_ok());
    bounded(bytes.len(), 0, || etcd::DeleteRangeRequest::decode(bytes).map(convert::delete).is_ok());
    bounded(bytes.len(), 0, || etcd::WatchRequest::decode(bytes).is_ok());
    bounded(bytes.len(), 0, || Frame::decode(bytes).is_ok());
}

/// The same few bytes over and over, behind some head: the most items for the fewest bytes, and lists in lists.
#[test]
fn the_smallest_items_take_no_more_than_the_bound() {
    let many = 200_000u64;
    let mut claim = Vec::new();
    codec::put_u64(&mut claim, many);
    let heads: [&[u8]; 6] = [&[], &[0], &[0, 0], &[1], &[0, 1, 1], &[1, 1, 1, 1]];
    // One command, operation, comparison, reply, record of the wire, or the beginning of a transaction in another each.
    let items: [&[u8]; 16] = [
        &[0],
        &[1],
        &[4, 0],
        &[2, 0, 0],
        &[2, 1],
        &[3, 7],
        &[1, 0, 0, 0, 0, 0],
        &[4, 0, 1],
        &[0, 0, 0, 0, 1, 1],
        &[3, 128, 0, 0],
        &[0, 0, 0, 1, 0],
        &[10, 0],
        &[18, 0],
        &[26, 0],
        &[10, 2, 10, 0],
        &[18, 2, 26, 0],
    ];
    for head in heads {
        for item in items {
            for claimed in [&claim[..], &[]] {
                let all = item.iter().cycle().take(many as usize / 4 * item.len());
                decode_all(&head.iter().chain(claimed).chain(all).copied().collect::<Vec<u8>>());
            }
        }
    }
    // Transactions in transactions, each with a claim of its own.
    let nested = (0..60).fold(vec![0, 1, 1], |mut bytes, _| {
        bytes.extend(&claim);
        bytes.extend([0, 0, 0, 0, 1, 0]);
        bytes
    });
    let mut long = nested;
    long.resize(many as usize * 2, 0);
    decode_all(&long);
    println!("at most {} bytes for each byte", MOST.get());
}

proptest! {
    #[test]
    fn the_heap_is_bounded(bytes in prop_oneof![
        input(entry_bytes()), input(batch_bytes()), input(replies_bytes()), input(segment()), input(convert::put_txn(txn()).encode_to_vec()),
    ]) {
        decode_all(&bytes);
    }

    #[test]
    fn entries(bytes in input(entry_bytes())) {
        let mut reader = Reader::new(bytes.clone().into());
        if let Ok(entry) = codec::entry(&mut reader) {
            // One that decodes can be applied, refused or not.
            let _ = apply(&mut state(), &entry);
            prop_assert!(entry.commands.len() <= bytes.len());
        }
        let _ = types::decode_entry(bytes.into());
    }

    #[test]
    fn batches(bytes in input(batch_bytes())) {
        if let Ok(txns) = codec::txns(&mut Reader::new(bytes.clone().into())) {
            prop_assert!(txns.len() <= bytes.len());
            let commands = txns.into_iter().map(Command::Txn).collect();
            let _ = apply(&mut state(), &Entry { time_ms: 0, commands });
        }
    }

    #[test]
    fn replies(bytes in input(replies_bytes())) {
        let _ = reply::replies(&mut Reader::new(bytes.clone().into()));
        let _ = reply::error(&mut Reader::new(bytes.into()));
    }

    #[test]
    fn passed_on(batch in input(wire::put_forward(7, &entry())), answer in input(wire::put_forwarded(7, &Ok(replies_now())))) {
        if let Ok((_, commands)) = wire::forward(batch.clone().into()) {
            prop_assert!(commands.len() <= batch.len());
        }
        if let Ok((_, Ok(replies))) = wire::forwarded(answer.clone().into()) {
            prop_assert!(replies.len() <= answer.len());
        }
    }

    #[test]
    fn greetings(greeting in input(wire::put_greeting(&greeting())), welcome in input(wire::put_welcome(&welcome()))) {
        decode_all(&greeting);
        decode_all(&welcome);
    }

    #[test]
    fn segments(bytes in input(segment())) {
        if record::check_header(&bytes, 3).is_ok() {
            let scan = record::scan(&bytes, 3);
            prop_assert!(scan.end as usize <= bytes.len() + 8);
            for found in &scan.records {
                let payload = Bytes::copy_from_slice(&bytes[found.at as usize..(found.at + found.len) as usize]);
                let _ = State::decode(found.kind, payload);
            }
        }
        let _ = record::holds_durable_records(&bytes, 3);
        for kind in [Kind::Vote, Kind::Truncate, Kind::Purge, Kind::Committed] {
            let _ = State::decode(kind, bytes.clone().into());
        }
    }

    #[test]
    fn snapshots(changes in vec(change(), 1..5), seal in any::<bool>()) {
        let (dir, valid) = snapshot();
        let bytes = changed(valid, &changes);
        let path = dir.path().join("changed.snap");
        std::fs::write(&path, if seal { sealed(bytes) } else { bytes }).unwrap();
        let file = SnapshotFile::open(&path).unwrap();
        // The reader has a buffer for any file.
        let _ = bounded(file.bytes as usize, READ_BYTES, || file.read());
    }

    #[test]
    fn requests(bytes in input(convert::put_txn(txn()).encode_to_vec())) {
        if let Ok(request) = etcd::TxnRequest::decode(&bytes[..])
            && let Ok(txn) = convert::txn(request)
        {
            let _ = apply(&mut state(), &Entry { time_ms: 0, commands: vec![Command::Txn(txn)] });
        }
        let _ = etcd::RangeRequest::decode(&bytes[..]).map(|range| convert::range(range).map(|range| state().range(&range)));
        let _ = etcd::PutRequest::decode(&bytes[..]).map(convert::put);
        let _ = etcd::DeleteRangeRequest::decode(&bytes[..]).map(convert::delete);
    }
}
