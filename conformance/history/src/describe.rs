//! What to read first when a history is refused: the operations that a violation is about, and those near them.

use crate::record::{History, Outcome, Request};
use crate::{Violation, WatchFault};
use std::fmt::Write;

/// The violation with everything recorded about it and about its revision.
pub fn describe(history: &History, violation: &Violation) -> String {
    let mut out = format!("{violation:?}\n");
    let (revisions, named): (Vec<u64>, Vec<usize>) = match violation {
        Violation::RevisionTwice { revision, operations } => (vec![*revision], operations.to_vec()),
        Violation::BackInTime { operation, revision, seen_before } => (vec![*revision, *seen_before], vec![*operation]),
        Violation::WrongAnswer { operation, .. } | Violation::LeaseDenied { operation, .. } => {
            (vec![], vec![*operation])
        }
        Violation::Unexplained { revision }
        | Violation::RanOutEarly { revision, .. }
        | Violation::Survived { revision, .. } => (vec![*revision], vec![]),
        Violation::Watch { revision, .. } => (vec![*revision], vec![]),
        Violation::Diverged { revision, .. } => (vec![*revision], vec![]),
        Violation::Forgotten { .. } | Violation::Undecided { .. } => (vec![], vec![]),
    };
    let lease = match violation {
        Violation::RanOutEarly { lease, .. }
        | Violation::LeaseDenied { lease, .. }
        | Violation::Survived { lease, .. } => Some(*lease),
        _ => None,
    };
    for (number, operation) in history.operations.iter().enumerate() {
        let about = matches!(operation.outcome, Outcome::Done { revision, .. } if revisions.contains(&revision));
        let of_lease =
            matches!((&operation.request, lease), (Request::Lease(asked), Some(lease)) if asked.lease() == lease);
        if named.contains(&number) || about || of_lease {
            let _ = writeln!(out, "operation {number}: {operation:?}");
        }
    }
    for (number, watch) in history.watches.iter().enumerate() {
        let named = matches!(violation, Violation::Watch { watch, fault, .. } if *watch == number && *fault != WatchFault::Early);
        for session in &watch.sessions {
            for batch in session.batches.iter().filter(|batch| {
                revisions.contains(&batch.revision)
                    || batch.events.iter().any(|event| revisions.contains(&event.revision))
            }) {
                let from = session.from;
                let _ = writeln!(
                    out,
                    "watch {number}{} member {} from {from}: {batch:?}",
                    if named { " (this)" } else { "" },
                    session.member
                );
            }
        }
    }
    out
}
