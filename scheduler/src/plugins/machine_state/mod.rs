//! Only machines whose state is known well enough to bind on: registered, and with their watches caught up.

use super::{Filter, Reason};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

pub fn filter<'a>(snapshot: &'a Snapshot, _pod: &'a PodInfo) -> Option<Filter<'a>> {
    Some(Box::new(move |machine| {
        if snapshot.allocation(machine).version == 0 {
            Err(vec![Reason::Unregistered])
        } else if !snapshot.is_current(machine) {
            Err(vec![Reason::CatchingUp])
        } else {
            Ok(())
        }
    }))
}
