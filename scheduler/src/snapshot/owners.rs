//! Where the pods of one controller run: by machine and by zone. Kept for owners whose pods are spread without being asked.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Domain, Machine};

#[derive(Debug, Default)]
pub struct Owner {
    machines: HashMap<u32, u32>,
    zones: Vec<u32>,
    total: u32,
}

impl Owner {
    pub fn on(&self, machine: Machine) -> u32 {
        self.machines.get(&(machine as u32)).copied().unwrap_or(0)
    }

    pub fn in_zone(&self, zone: Domain) -> u32 {
        self.zones.get(zone).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<Arc<str>, Owner>);

impl Owners {
    pub fn get(&self, owner: &str) -> Option<&Owner> {
        self.0.get(owner)
    }

    pub fn count(&mut self, owner: &str, machine: Machine, zone: Option<Domain>, by: i32) {
        let entry = match self.0.get_mut(owner) {
            Some(entry) => entry,
            None => self.0.entry(owner.into()).or_default(),
        };
        let on = entry.machines.entry(machine as u32).or_insert(0);
        *on = on.saturating_add_signed(by);
        if *on == 0 {
            entry.machines.remove(&(machine as u32));
        }
        if let Some(zone) = zone {
            if entry.zones.len() <= zone {
                entry.zones.resize(zone + 1, 0);
            }
            entry.zones[zone] = entry.zones[zone].saturating_add_signed(by);
        }
        entry.total = entry.total.saturating_add_signed(by);
        if entry.total == 0 {
            self.0.remove(owner);
        }
    }
}
