//! Topology keys and their values as small numbers: which domain each machine is in. Kept for keys that somebody uses.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Labels, Machine};

/// A topology key in use.
pub type KeyId = usize;
/// One value of a key. It may be given to another value once no machine has the old one.
pub type Domain = usize;

const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Key {
    name: Arc<str>,
    users: u32,
    /// By machine.
    domain_of: Vec<u32>,
    values: HashMap<Arc<str>, u32>,
    /// By domain.
    machines: Vec<u32>,
    names: Vec<Arc<str>>,
    unused: Vec<u32>,
}

impl Key {
    fn put(&mut self, machine: Machine, value: Option<&str>) {
        self.leave(machine);
        let Some(value) = value else { return };
        let domain = match self.values.get(value) {
            Some(domain) => *domain,
            None => self.open(value),
        };
        self.machines[domain as usize] += 1;
        if self.domain_of.len() <= machine {
            self.domain_of.resize(machine + 1, NOWHERE);
        }
        self.domain_of[machine] = domain;
    }

    fn open(&mut self, value: &str) -> u32 {
        let value: Arc<str> = value.into();
        let domain = self.unused.pop().unwrap_or_else(|| {
            self.machines.push(0);
            self.names.push("".into());
            u32::try_from(self.machines.len() - 1)
                .expect("fewer domains than machines, and those are numbered in 32 bits")
        });
        self.names[domain as usize] = value.clone();
        self.values.insert(value, domain);
        domain
    }

    fn leave(&mut self, machine: Machine) {
        let Some(domain) = self.domain_of.get(machine).copied().filter(|domain| *domain != NOWHERE) else { return };
        self.domain_of[machine] = NOWHERE;
        self.machines[domain as usize] -= 1;
        if self.machines[domain as usize] == 0 {
            self.values.remove(&self.names[domain as usize]);
            self.unused.push(domain);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: Vec<Key>,
}

impl Topology {
    /// The key, with one more user; `machines` are asked where they are when it is new.
    pub fn acquire<'a>(&mut self, name: &str, machines: impl Iterator<Item = (Machine, &'a Labels)>) -> KeyId {
        if let Some(known) = self.keys.iter().position(|key| key.users > 0 && &*key.name == name) {
            self.keys[known].users += 1;
            return known;
        }
        let mut key = Key { name: name.into(), users: 1, ..Key::default() };
        for (machine, labels) in machines {
            key.put(machine, labels.get(name));
        }
        match self.keys.iter().position(|key| key.users == 0) {
            Some(free) => {
                self.keys[free] = key;
                free
            }
            None => {
                self.keys.push(key);
                self.keys.len() - 1
            }
        }
    }

    pub fn release(&mut self, key: KeyId) {
        self.keys[key].users -= 1;
        if self.keys[key].users == 0 {
            self.keys[key] = Key::default();
        }
    }

    pub fn name(&self, key: KeyId) -> &str {
        &self.keys[key].name
    }

    pub fn domain(&self, key: KeyId, machine: Machine) -> Option<Domain> {
        let domain = self.keys[key].domain_of.get(machine).copied().unwrap_or(NOWHERE);
        (domain != NOWHERE).then_some(domain as usize)
    }

    /// The machine is there with these labels, or is gone.
    pub fn put(&mut self, machine: Machine, labels: Option<&Labels>) {
        for key in self.keys.iter_mut().filter(|key| key.users > 0) {
            let value = labels.and_then(|labels| labels.get(&key.name));
            key.put(machine, value);
        }
    }
}
