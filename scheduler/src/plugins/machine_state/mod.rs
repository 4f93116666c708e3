//! Only machines whose state is known well enough to bind on: registered, and with their watches caught up.

use super::{Check, Checked, Preparing, Reason};
use crate::snapshot::{Machine, Placed, Snapshot};

#[derive(Debug)]
struct MachineState;

pub fn check(_: &mut Preparing) -> Checked {
    Some(Box::new(MachineState))
}

impl Check for MachineState {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        snapshot.current().get(machine)
    }

    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        mask & snapshot.current().word(word)
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, _: &[&Placed], reasons: &mut Vec<Reason>) {
        if !self.admits(snapshot, machine) {
            let unregistered = snapshot.allocation(machine).version == 0;
            reasons.push(if unregistered { Reason::Unregistered } else { Reason::CatchingUp });
        }
    }

    fn is_passing(&self) -> bool {
        true
    }
}
