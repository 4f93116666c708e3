//! No two machines share an address, whatever the order of coming and going.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::json;

use super::cidr::{Cidr, Ranges};
use super::core::reconcile;
use super::given::Given;
use super::types::Observed;
use crate::objects::Node;
use crate::plan::{Plan, Verb, Write};
use crate::sim::World;

fn look(world: &World) -> Plan {
    look_at(world.list(&kinds::NODE), &Given::default(), world)
}

fn look_at(nodes: Vec<Arc<Node>>, given: &Given, world: &World) -> Plan {
    let ranges = Ranges::new(Cidr::parse("10.244.0.0/21").unwrap(), 24).unwrap();
    reconcile(&Observed { nodes, ranges, given: given.clone() }, world.now)
}

/// As the server does it: only on this very machine, and a range never changes.
fn arrive(world: &mut World, write: &Write) {
    let Verb::Patch { patch: gantry_client::Patch::Merge(body), .. } = &write.verb else { panic!("{write:?}") };
    let node: Option<Arc<Node>> = world.get(&kinds::NODE, "", &write.name);
    let uid = body["metadata"]["uid"].as_str().unwrap();
    if node.is_some_and(|node| node.metadata.uid.as_str() == uid && node.spec.pod_cidr.is_none()) {
        world.edit(&kinds::NODE, "", &write.name, |node| node["spec"] = body["spec"].clone());
    }
}

fn ranges(world: &World) -> Vec<String> {
    world.list::<Node>(&kinds::NODE).iter().filter_map(|n| n.spec.pod_cidr.clone()).collect()
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

#[derive(Clone, Copy, Debug)]
enum Event {
    Join(u8),
    Leave(u8),
    /// The copy is as the world is.
    Seen,
    /// A look at the copy, whatever its age. Of each write it is random whether it arrives at once, later or never.
    Look(u8),
    /// The oldest write that is under way arrives.
    Arrives,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..8_u8).prop_map(Event::Join),
        (0..8_u8).prop_map(Event::Leave),
        Just(Event::Seen),
        any::<u8>().prop_map(Event::Look),
        Just(Event::Arrives),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_range_is_given_twice_whatever_is_known_of_the_writes(events in events()) {
        let (mut world, mut copy, mut given) = (World::new(), Vec::new(), Given::default());
        let mut under_way = std::collections::VecDeque::new();
        for event in events {
            match event {
                Event::Join(n) => drop(world.create(&kinds::NODE, json!({"metadata": {"name": format!("n{n}")}}))),
                Event::Leave(n) => world.delete(&kinds::NODE, "", &format!("n{n}"), None),
                Event::Seen => copy = world.list::<Node>(&kinds::NODE),
                Event::Look(fates) => {
                    given.settle(&copy);
                    let plan = look_at(copy.clone(), &given, &world);
                    given.note(&plan);
                    for (n, write) in plan.writes().enumerate() {
                        match fates.rotate_left(2 * u32::try_from(n).unwrap()) & 3 {
                            0 => {}
                            1 => under_way.push_back(write.clone()),
                            _ => arrive(&mut world, write),
                        }
                    }
                }
                Event::Arrives => under_way.pop_front().iter().for_each(|write| arrive(&mut world, write)),
            }
            let all = ranges(&world);
            prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{:?}", all);
        }
        // Once the copy is new and writes arrive, everybody has one.
        given.settle(&world.list(&kinds::NODE));
        let plan = look_at(world.list(&kinds::NODE), &given, &world);
        plan.writes().for_each(|write| arrive(&mut world, write));
        under_way.iter().for_each(|write| arrive(&mut world, write));
        let all = ranges(&world);
        prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), world.count(&kinds::NODE));
    }
}

#[test]
fn a_range_that_another_machine_shows_is_not_offered_again() {
    let (mut world, mut given) = (World::new(), Given::default());
    world.create(&kinds::NODE, json!({"metadata": {"name": "a"}})).unwrap();
    given.note(&look(&world));
    world.create(&kinds::NODE, json!({"metadata": {"name": "b"}, "spec": {"podCIDR": "10.244.0.0/24"}})).unwrap();
    let plan = look_at(world.list(&kinds::NODE), &given, &world);
    plan.writes().for_each(|write| arrive(&mut world, write));
    assert_eq!(ranges(&world), ["10.244.1.0/24", "10.244.0.0/24"]);
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
