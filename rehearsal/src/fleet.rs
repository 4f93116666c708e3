//! The machines of a hollow fleet: which zone, rack and class each is of. A machine depends on the profile, the seed and its number
//! alone, so a larger fleet begins with the smaller one.

mod profile;

use crate::dice::Dice;
use std::collections::BTreeMap;

pub use profile::{Class, FleetProfile, Gpus, Image, Pods, Taint};

/// A machine's rack; racks are inside zones.
pub const LABEL_RACK: &str = "gantry.dev/rack";
/// The name of its class in the profile.
pub const LABEL_CLASS: &str = "gantry.dev/machine-class";

/// One machine: what is its own. What it has is its class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub number: u32,
    /// The class's place in the profile.
    pub class: u16,
    pub zone: u16,
    pub rack: u16,
}

/// The first `count` machines of the fleet.
pub fn machines(profile: &FleetProfile, seed: u64, count: u32) -> impl Iterator<Item = Machine> + '_ {
    (0..count).map(move |number| machine(profile, seed, number))
}

fn machine(profile: &FleetProfile, seed: u64, number: u32) -> Machine {
    let mut dice = Dice::of(seed, &format!("machine {number}"));
    let class = dice.weighted(profile.classes.iter().map(|class| class.share));
    let small = |n: u32| u16::try_from(n).expect("the profile bounds zones and racks");
    Machine {
        number,
        class: u16::try_from(class).expect("a profile has few classes"),
        zone: small(number % profile.zones),
        rack: small(number / profile.zones % profile.racks_per_zone),
    }
}

impl Machine {
    pub fn name(&self, profile: &FleetProfile) -> String {
        format!("{}-{:05}", profile.name, self.number)
    }

    pub fn class<'a>(&self, profile: &'a FleetProfile) -> &'a Class {
        &profile.classes[usize::from(self.class)]
    }

    /// Where it stands and what it is. The agent adds host name, system and architecture.
    pub fn labels(&self, profile: &FleetProfile) -> BTreeMap<String, String> {
        let class = self.class(profile);
        let zone = format!("zone-{}", self.zone + 1);
        let rack = format!("{zone}-rack-{:02}", self.rack + 1);
        let own = [
            ("topology.kubernetes.io/region", profile.region.clone()),
            ("topology.kubernetes.io/zone", zone),
            (LABEL_RACK, rack),
            (LABEL_CLASS, class.name.clone()),
            ("node.kubernetes.io/instance-type", class.instance_type.clone()),
        ];
        let mut labels = class.labels.clone();
        labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
        if let Some(gpus) = class.gpus.as_ref().filter(|gpus| !gpus.product.is_empty()) {
            labels.insert("nvidia.com/gpu.product".to_owned(), gpus.product.clone());
        }
        labels
    }
}

#[cfg(test)]
mod tests;
