//! No two machines share an address, whatever the order of coming and going.

use std::collections::BTreeSet;

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::json;

use super::cidr::{Cidr, Ranges};
use super::core::reconcile;
use super::types::Observed;
use crate::objects::Node;
use crate::plan::Plan;
use crate::sim::World;

fn look(world: &World) -> Plan {
    let ranges = Ranges::new(Cidr::parse("10.244.0.0/21").unwrap(), 24).unwrap();
    reconcile(&Observed { nodes: world.list(&kinds::NODE), ranges }, world.now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn ranges_are_disjoint_and_kept(steps in prop::collection::vec((0..12_u8, any::<bool>()), 1..40)) {
        let mut world = World::new();
        for (n, join) in steps {
            let name = format!("n{n}");
            if join && world.count(&kinds::NODE) < 8 {
                drop(world.create(&kinds::NODE, json!({"metadata": {"name": name}})));
            } else if !join {
                world.delete(&kinds::NODE, "", &name, None);
            }
            let before: Vec<_> = world.list::<Node>(&kinds::NODE).iter().filter_map(|n| n.spec.pod_cidr.clone()).collect();
            world.apply(&look(&world)).unwrap();
            let after: Vec<String> =
                world.list::<Node>(&kinds::NODE).iter().map(|n| n.spec.pod_cidr.clone().unwrap()).collect();
            prop_assert_eq!(after.iter().collect::<BTreeSet<_>>().len(), after.len());
            prop_assert!(before.iter().all(|range| after.contains(range)));
            prop_assert!(look(&world).is_settled());
        }
    }
}

#[test]
fn a_machine_too_many_is_said() {
    let mut world = World::new();
    let mut join = |machines: std::ops::Range<usize>| {
        for n in machines {
            world.create(&kinds::NODE, json!({"metadata": {"name": format!("n{n:02}")}})).unwrap();
        }
        look(&world)
    };
    let plan = join(0..9);
    assert_eq!((plan.writes().count(), plan.events.len(), plan.events[0].reason), (8, 1, "CIDRNotAvailable"));
    assert_eq!(join(9..60).events.len(), 16, "not each of many every time");
}
