//! Host ports in use, by machine.

use std::collections::HashMap;
use std::sync::Arc;

use super::Machine;
use crate::bits::Bits;
use crate::pod::{HostPort, Spec};

#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Machines on which any is taken.
    taken: Bits,
    by_machine: HashMap<Machine, Vec<Arc<Spec>>>,
}

impl Ports {
    pub fn count(&mut self, machine: Machine, spec: &Arc<Spec>, comes: bool) {
        if spec.ports.is_empty() {
            return;
        }
        let users = self.by_machine.entry(machine).or_default();
        if comes {
            users.push(spec.clone());
        } else if let Some(at) = users.iter().position(|other| Arc::ptr_eq(other, spec)) {
            users.swap_remove(at);
        }
        let any = !users.is_empty();
        if !any {
            self.by_machine.remove(&machine);
        }
        self.taken.set(machine, any);
    }

    /// Machines on which any host port is taken.
    pub fn taken(&self) -> &Bits {
        &self.taken
    }

    pub fn on(&self, machine: Machine) -> impl Iterator<Item = &HostPort> {
        self.by_machine.get(&machine).into_iter().flatten().flat_map(|spec| &spec.ports)
    }
}
