//! What happened since sleeping pods were last thought of, and whom it could help.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Engine;
use crate::bits::Bits;
use crate::class::Class;
use crate::plugins::{Check, Wake};
use crate::queue::Sleepers;
use crate::snapshot::{Machine, Snapshot};

#[derive(Debug, Default)]
pub(super) struct News {
    happened: Wake,
    machines: Bits,
    everywhere: bool,
    /// Claims that are different, or whose volumes are: `namespace/name`.
    claims: BTreeSet<Arc<str>>,
    /// Something that any claim may want is there.
    storage: bool,
}

impl News {
    pub fn on(&mut self, what: Wake, machine: Machine) {
        self.happened = self.happened.or(what);
        self.machines.set(machine, true);
    }

    pub fn everywhere(&mut self, what: Wake) {
        self.happened = self.happened.or(what);
        self.everywhere = true;
    }

    pub fn of_claim(&mut self, key: &str) {
        self.claims.insert(key.into());
    }

    pub fn of_any_claim(&mut self) {
        self.storage = true;
    }

    fn of_volumes(&self) -> bool {
        self.storage || !self.claims.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.happened.is_nothing() && !self.of_volumes()
    }

    /// Whether any of it is what somebody waits for.
    pub fn meets(&self, wake_on: Wake) -> bool {
        wake_on.meets(self.happened) || (wake_on.meets(Wake::VOLUME) && self.of_volumes())
    }

    fn helps(&self, snapshot: &Snapshot, sleepers: &Sleepers) -> bool {
        let wake_on = sleepers.wake_on();
        let its_claim = || self.storage || sleepers.class.spec.claims.iter().any(|own| self.claims.contains(&own.key));
        (wake_on.meets(Wake::VOLUME) && its_claim())
            || wake_on.meets(self.happened)
                && (self.everywhere
                    || !sleepers.local
                    || sleepers.class.was_let_go()
                    || self.machines.iter().any(|machine| may_do(snapshot, &sleepers.class, machine)))
    }
}

/// Whether the machine would do by the rules that look at it alone.
fn may_do(snapshot: &Snapshot, class: &Class, machine: Machine) -> bool {
    let lesser = || crate::schedule::held_for_lesser(snapshot, class, machine);
    // Whether the machine's own news has arrived is asked when the pod is decided: it stalls until then.
    let alone = |check: &&dyn Check| !check.spans_machines() && !check.is_passing();
    let checks = || class.checks.iter().map(|(_, check)| &**check).filter(alone);
    let held = || {
        let lesser = lesser();
        let mut reasons = Vec::new();
        !lesser.is_empty()
            && checks().all(|check| {
                check.refuse(snapshot, machine, &lesser, &mut reasons);
                reasons.is_empty()
            })
    };
    snapshot.is_live(machine)
        && (checks().all(|check| check.admits(snapshot, machine)) || (snapshot.held().get(machine) && held()))
}

impl Engine {
    /// Wakes whom the news could help.
    pub(super) fn sweep(&mut self, now_ms: u64) {
        if self.news.is_empty() {
            return;
        }
        let news = std::mem::take(&mut self.news);
        let snapshot = &self.snapshot;
        let mut woken = Vec::new();
        for sleepers in self.queue.sleeping_mut().classes_mut() {
            sleepers.hopeless = false;
            if news.helps(snapshot, sleepers) {
                sleepers.stale = true;
                woken.push(sleepers.class.id);
            }
        }
        for class in woken {
            self.queue.wake_class(class, now_ms);
        }
    }
}
