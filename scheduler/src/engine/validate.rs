//! What always holds between two events: nobody is forgotten. For tests.

use std::collections::BTreeSet;

use super::binding::Waiting;
use super::{Engine, Machine};
use crate::queue::Place;
use crate::snapshot::Standing;

impl Engine {
    pub fn validate(&self) {
        self.snapshot.validate();
        self.validate_taken();
        self.validate_lanes();
        self.validate_nominations();
        self.validate_parked();
    }

    /// Who was taken from the queue is on its way, or waits for news.
    fn validate_taken(&self) {
        for (uid, place) in self.queue.places() {
            assert!(self.pending.contains_key(uid), "{uid} is in the queue only");
            let kept = self.deciding.contains_key(uid) || self.stalled.contains(uid);
            assert!(place != Place::Taken || kept, "{uid} was taken and forgotten");
            assert!(place == Place::Taken || !self.deciding.contains_key(uid), "{uid} is decided twice: {place:?}");
        }
        for uid in &self.stalled {
            assert!(!self.deciding.contains_key(uid), "{uid} is stalled and decided");
        }
    }

    /// Who is decided stands in line or was sent; and every line moves, or is waited for.
    fn validate_lanes(&self) {
        for (uid, machine) in &self.deciding {
            let lane = self.lanes.get(machine).unwrap_or_else(|| panic!("{uid} has no lane"));
            let waits = lane.waiting.iter().any(|waiting| match waiting {
                Waiting::One(assumed) => assumed.uid() == uid,
                Waiting::Gang(gang) => self.gangs.stands(*gang, uid, *machine),
            });
            let flies = lane.in_flight.and_then(|id| self.flights.get(&id)).is_some_and(|flight| flight.has(uid));
            assert!(waits != flies, "{uid} stands in line: {waits}, was sent: {flies}");
        }
        for (machine, lane) in &self.lanes {
            if let Some(id) = lane.in_flight {
                assert!(
                    self.flights.get(&id).is_some_and(|flight| flight.is_to(*machine)),
                    "{machine} waits for nothing"
                );
                continue;
            }
            match lane.waiting.front() {
                Some(Waiting::One(assumed)) => panic!("{} waits for nothing", assumed.uid()),
                Some(Waiting::Gang(gang)) => assert!(!self.could_go(*gang), "gang {gang} waits for nothing"),
                None => {}
            }
        }
    }

    /// Whether all machines of the gang are there for it: then it should have gone.
    fn could_go(&self, gang: u64) -> bool {
        let machines = self.gangs.machines(gang).expect("a gang in line has a ticket");
        let is_busy = |machine: &Machine| {
            let lane = self.lanes.get(machine).expect("a gang stands in the lanes of all its machines");
            assert!(self.snapshot.current().get(*machine) || lane.in_flight.is_some(), "{machine} is not current");
            lane.in_flight.is_some() || !matches!(lane.waiting.front(), Some(Waiting::Gang(id)) if *id == gang)
        };
        !machines.iter().any(is_busy)
    }

    /// What is held is held for somebody who waits.
    fn validate_nominations(&self) {
        for (uid, nomination) in &self.nominated {
            let placed = self.snapshot.placement(uid).unwrap_or_else(|| panic!("nothing is held for {uid}"));
            assert_eq!((placed.standing, placed.machine), (Standing::Held, nomination.hold.machine()), "{uid}");
        }
        for placed in self.snapshot.placed() {
            let uid = &placed.info.uid;
            match placed.standing {
                Standing::Held => assert!(self.nominated.contains_key(uid), "{uid} holds for ever"),
                Standing::Assumed => assert!(self.deciding.contains_key(uid), "{uid} is assumed for ever"),
                Standing::Stored => {}
            }
        }
    }

    /// Whoever waits for its gang has one that is not complete, or of which somebody else is looked at again.
    fn validate_parked(&self) {
        let parked: BTreeSet<_> =
            self.queue.places().filter(|(_, place)| *place == Place::Parked).map(|(uid, _)| uid.clone()).collect();
        for uid in &parked {
            let others: Vec<_> = self.gangs.whole(uid).collect();
            assert!(
                others.is_empty() || others.iter().any(|other| !parked.contains(*other)),
                "{uid} waits for a gang that is complete"
            );
        }
    }
}
