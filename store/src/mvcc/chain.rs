//! The hash chain: a fingerprint of everything applied, to notice members that came apart. It is no defence against
//! forgery.

use super::{Alarm, Change};
use crate::api::LeaseId;

/// The chain's next value after one revision's changes.
pub fn next(hash: u64, revision: u64, changes: &[Change]) -> u64 {
    let mut hash = mix(hash ^ revision);
    for change in changes {
        let mut crc = crc32fast::Hasher::new();
        crc.update(change.kv.key());
        crc.update(&[u8::from(change.deleted())]);
        crc.update(change.kv.value());
        let key = (change.kv.key().len() as u64) << 32;
        hash = mix(hash ^ key ^ u64::from(crc.finalize()));
        hash = mix(hash ^ change.kv.create_revision().0 ^ change.kv.version().rotate_left(32));
        hash = mix(hash ^ change.kv.lease().0.cast_unsigned());
    }
    hash
}

/// The chain's next value after a compaction.
pub fn compacted(hash: u64, revision: u64) -> u64 {
    mix(hash ^ revision.rotate_left(17))
}

/// The chain's next value after a lease was granted, or revoked (`ttl_s` 0).
pub fn leased(hash: u64, id: LeaseId, ttl_s: i64) -> u64 {
    mix(mix(hash ^ id.0.cast_unsigned()) ^ ttl_s.cast_unsigned().rotate_left(29))
}

/// The chain's next value after an alarm was raised, or cleared.
pub fn alarmed(hash: u64, alarm: Alarm, raise: bool) -> u64 {
    mix(mix(hash ^ alarm.member.rotate_left(11)) ^ (alarm.kind as u64) << 1 ^ u64::from(raise))
}

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
