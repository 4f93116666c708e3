//! Superseded values in the log: found there, read back, kept as long as somebody refers to them, and never taken for others.

use super::tests::{append, entry, id, indexes, open, segments};
use super::*;
use crate::archive::Unreadable;
use crate::mvcc::Place;
use crate::sink::{Sink, Spots};
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

/// What entries of these tests hold, and where in their bytes.
fn written(index: u64) -> (Vec<u8>, u32) {
    let mut spots = Spots::default();
    crate::raft::types::put_log_id(&mut spots, &id(index));
    spots.put_u8(1);
    let openraft::EntryPayload::Normal(proposal) = entry(index).payload else { unreachable!() };
    crate::codec::put_entry(&mut spots, &proposal.0);
    (vec![index as u8; 200], spots.found[0].at as u32)
}

fn place(wal: &Wal, index: u64) -> Option<Place> {
    let (value, at) = written(index);
    wal.refer(index, 100)?.place(at, &value).unwrap()
}

#[tokio::test]
async fn a_value_is_found_where_it_was_written_and_nowhere_else() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..30).await;
    let archive = wal.archive();
    for index in 0..30 {
        let (value, at) = written(index);
        assert_eq!(archive.value(place(&wal, index).unwrap()).unwrap(), value);
        let entry = wal.refer(index, 100).unwrap();
        if index == 0 {
            continue;
        }
        // What follows the first value is what it consists of.
        for (wrong, other) in [(at, vec![index as u8 ^ 1; 200]), (at + 1, value.clone()), (at, vec![0; 5_000])] {
            assert_eq!(entry.place(wrong, &other).unwrap(), None);
        }
        assert_eq!(entry.place(at, &value[..7]).unwrap().map(|place| place.len), Some(7), "a part of it is there, too");
    }
    assert!(wal.refer(30, 100).is_none());
    assert!(wal.refer(0, 1).is_none() && wal.refer(29, 0).is_some(), "not farther back than asked for");
}

#[tokio::test]
async fn segments_stay_while_somebody_refers_to_them_and_go_then() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..60).await;
    let before = segments(&dir);
    let (early, late) = (place(&wal, 3).unwrap(), place(&wal, 31).unwrap());
    assert!(early.segment < late.segment);
    let archive = wal.archive();
    wal.purge(id(55)).await.unwrap();
    assert_eq!(segments(&dir), before, "the first of them holds a value");
    assert_eq!(indexes(&wal), [56, 57, 58, 59], "for Raft they are gone");
    assert!(wal.kept_bytes() > 55 * 200 && wal.bytes_after(0) < 5 * 250);
    assert_eq!(
        place(&wal, 40).map(|place| archive.value(place).unwrap()),
        Some(written(40).0.into()),
        "and can be found"
    );
    let pin = archive.pin();
    wal.keep_from(Some(late.segment));
    // Jobs are done in order.
    append(&wal, 60..61).await;
    assert!(segments(&dir).len() < before.len());
    assert!(matches!(archive.value(early), Err(Unreadable::Gone(_))));
    assert_eq!(pin.value(early).unwrap(), written(3).0, "who holds on to it still reads it");
    assert_eq!(archive.value(late).unwrap(), written(31).0);
    assert!(place(&wal, 3).is_none() && wal.first_known() > 3);
    wal.keep_from(None);
    append(&wal, 61..120).await;
    assert!(matches!(archive.value(late), Err(Unreadable::Gone(_))), "its segment may be another by now");
    assert_eq!(pin.value(late).unwrap(), written(31).0);
    drop((wal, archive, pin));
    assert_eq!(indexes(&open(&dir).unwrap()), (56..120).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_stayed_for_values_alone_goes_when_the_log_is_opened() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..60).await;
    assert!(place(&wal, 3).is_some());
    for upto in [20, 40] {
        wal.purge(id(upto)).await.unwrap();
    }
    append(&wal, 60..70).await;
    let before = segments(&dir);
    drop(wal);
    // Nobody reads it any more, so damage to it is nobody's.
    let file = std::fs::OpenOptions::new().write(true).open(&before[0]).unwrap();
    file.write_all_at(&[7; 100], 300).unwrap();
    let wal = open(&dir).unwrap();
    assert_eq!(indexes(&wal), (41..70).collect::<Vec<_>>());
    let after = segments(&dir);
    assert!(before.ends_with(&after) && after.len() < before.len(), "{before:?} {after:?}");
    let damaged = std::fs::OpenOptions::new().write(true).open(&after[0]).unwrap();
    drop(wal);
    damaged.write_all_at(&[7; 100], 300).unwrap();
    assert!(matches!(open(&dir), Err(OpenError::Damaged { .. })), "what is needed is still checked");
}

#[tokio::test]
async fn other_bytes_are_an_error_and_not_a_value() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..3).await;
    let place = place(&wal, 1).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&segments(&dir)[0]).unwrap();
    file.write_all_at(&[9], u64::from(place.at) + 100).unwrap();
    assert!(matches!(wal.archive().value(place), Err(Unreadable::Damaged(_))));
    file.set_len(u64::from(place.at) + 50).unwrap();
    assert!(matches!(wal.archive().value(place), Err(Unreadable::Io { .. })));
}

#[tokio::test]
#[should_panic(expected = "entry 5 was applied, and the log is cut before it")]
async fn what_is_referred_to_is_never_cut_off() {
    let dir = TempDir::new().unwrap();
    let wal = open(&dir).unwrap();
    append(&wal, 0..9).await;
    assert!(place(&wal, 5).is_some());
    // A conflict takes entries back that were not committed.
    wal.truncate_after(Some(id(5))).await.unwrap();
    let _ = wal.truncate_after(Some(id(4))).await;
}
