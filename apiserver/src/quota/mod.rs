//! ResourceQuota: what the objects of a namespace may take together.
//!
//! A create or a growth is **charged** before it is stored: the quota's `status.used` goes up by one conditional write for all who
//! wait in the namespace, and who finds no room is refused (`charge`). What was charged and is not there, because the write failed
//! later or the object is gone, comes back when the namespace is **recounted** from what is stored (`recount`). A recount ends the
//! namespace's charging period: a write that was charged before it and is not stored yet is charged again. So `used` is never less
//! than what is stored, whatever the interleaving of any number of servers. `usage` says what an object takes.

mod charge;
mod recount;
mod usage;

pub use charge::{Charge, Charges};
pub use recount::{frees, is_uncounted, run};

use gantry_apimachinery::kinds::{Kind, StoreGroup};

/// Moves with every recount of the namespace.
fn period_key(namespace: &str) -> String {
    format!("/quota/periods/{namespace}")
}

/// Kinds that nobody counts: reports of what happened.
fn is_counted(kind: &Kind) -> bool {
    kind.namespaced && kind.store != StoreGroup::Events
}
