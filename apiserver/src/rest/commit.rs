//! The one conditional transaction at the end of every write. Decides what a failed condition means; never what is written.

use super::call::Call;
use super::stored::Stored;
use crate::core::store_failure;
use crate::effects::Effects;
use crate::http::Outcome;
use bytes::Bytes;
use gantry_apimachinery::depth::{MAX_DEPTH, depth};
use gantry_apimachinery::status::{Reason, Status};
use gantry_store::{Compare, MAX_VALUE_BYTES, Op, OpReply, Revision, Txn};
use serde_json::Value;

/// Writes that lose this many races in a row answer a conflict.
pub const MAX_TRIES: u32 = 16;

pub struct Commit<'a> {
    pub key: String,
    /// The revision that the decision was made from; `None`: the key must be absent.
    pub compare: Option<u64>,
    /// `None` deletes the key.
    pub object: Option<&'a Value>,
    pub effects: Effects,
}

pub enum Verdict {
    /// Written. A dry run reports revision 0.
    Done { bytes: Bytes, revision: u64 },
    /// Someone else was first. `Some` is the object as it stands (`None` inside: it is gone); `None` means that only an effect's
    /// key moved.
    Changed(Option<Option<Stored>>),
}

/// Runs the transaction. Nothing is written unless everything is.
pub async fn commit(call: &Call<'_>, step: Commit<'_>) -> Outcome<Verdict> {
    let closed = match step.object {
        Some(object) => call.served.close(object).await?,
        None => None,
    };
    let bytes: Bytes = match closed.as_ref().or(step.object) {
        Some(object) if depth(object) > MAX_DEPTH => {
            let text = format!("the object nests deeper than {MAX_DEPTH} levels");
            return Err(Status::failure(Reason::Invalid, text, None).into());
        }
        Some(object) => serde_json::to_vec(object).map_err(Status::internal)?.into(),
        None => Bytes::new(),
    };
    if bytes.len() > MAX_VALUE_BYTES {
        return Err(Status::request_too_large(MAX_VALUE_BYTES).into());
    }
    let key: Bytes = step.key.into();
    let expected = step.compare.unwrap_or(0);
    let mut compare = vec![Compare::unchanged(key.clone(), Revision(expected))];
    compare.extend(step.effects.compare);
    let main = match step.object {
        Some(_) => Op::put(key.clone(), bytes.clone()),
        None => Op::delete(key.clone()),
    };
    let mut success = vec![main];
    success.extend(step.effects.ops);
    let failure = vec![Op::get(key)];
    if call.options.dry_run {
        return dry_run(call, compare, failure, bytes, expected).await;
    }
    let reply = call.served.group.store.txn(Txn { compare, success, failure }).await.map_err(store_failure)?;
    if reply.succeeded {
        return Ok(Verdict::Done { bytes, revision: reply.revision.0 });
    }
    changed(reply.ops.into_iter().next(), expected)
}

fn changed(found: Option<OpReply>, expected: u64) -> Outcome<Verdict> {
    let current = found.and_then(OpReply::into_key_value);
    if current.as_ref().map_or(0, |kv| kv.mod_revision.0) == expected {
        return Ok(Verdict::Changed(None));
    }
    Ok(Verdict::Changed(Some(current.map(|kv| Stored::read(kv.value, kv.mod_revision.0)).transpose()?)))
}

/// Only the object's own condition is checked: a dry run must not take addresses or room.
async fn dry_run(
    call: &Call<'_>,
    compare: Vec<Compare>,
    failure: Vec<Op>,
    bytes: Bytes,
    expected: u64,
) -> Outcome<Verdict> {
    let own = compare.into_iter().take(1).collect();
    let txn = Txn { compare: own, success: Vec::new(), failure };
    let reply = call.served.group.store.txn(txn).await.map_err(store_failure)?;
    if reply.succeeded {
        Ok(Verdict::Done { bytes, revision: expected })
    } else {
        changed(reply.ops.into_iter().next(), expected)
    }
}

/// Whether a decision made from `revision` still stands.
pub async fn is_current(call: &Call<'_>, key: String, revision: u64) -> Outcome<Verdict> {
    let key: Bytes = key.into();
    let compare = vec![Compare::unchanged(key.clone(), Revision(revision))];
    let txn = Txn { compare, success: Vec::new(), failure: vec![Op::get(key)] };
    let reply = call.served.group.store.txn(txn).await.map_err(store_failure)?;
    if reply.succeeded {
        Ok(Verdict::Done { bytes: Bytes::new(), revision })
    } else {
        changed(reply.ops.into_iter().next(), revision)
    }
}
