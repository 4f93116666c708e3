//! Which machines a profile gives, and how a wrong profile is told.

use super::*;

#[test]
fn a_fleet_is_the_same_every_time_and_grows_at_its_end() {
    let profile = FleetProfile::built_in();
    let few: Vec<Machine> = machines(&profile, 7, 100).collect();
    let many: Vec<Machine> = machines(&profile, 7, 10_000).collect();
    assert_eq!(few, many[..100]);
    assert_ne!(few, machines(&profile, 8, 100).collect::<Vec<_>>());
    let gpus = many.iter().filter(|one| one.class(&profile).gpus.is_some()).count();
    assert!(gpus.abs_diff(1_000) < 100, "{gpus} of 10,000 have GPUs");
    let zones = |zone| many.iter().filter(|one| one.zone == zone).count();
    assert_eq!([zones(0), zones(1), zones(2)], [3_334, 3_333, 3_333]);
    let racks: std::collections::BTreeSet<String> =
        many.iter().map(|one| one.labels(&profile)[LABEL_RACK].clone()).collect();
    assert_eq!(racks.len(), 60);
    assert_eq!(many[61].name(&profile), "hollow-00061");
    let labels = many[61].labels(&profile);
    assert_eq!(labels["topology.kubernetes.io/zone"], "zone-2");
    assert_eq!(labels[LABEL_RACK], "zone-2-rack-01");
}

#[test]
fn a_file_says_what_differs() {
    let text = "
name: test
zones: 1
classes:
- name: gpu
  cpu: 7
  memory: 2Gi
  gpus: {count: 4, resource: example.com/gpu}
  labels: {generation: 5}
  taints: [{key: k}]
  images: [{name: 'registry/a:1', size: 2Gi}]
pods: {lifetime: 2s, failingPercent: 50}";
    let profile = FleetProfile::parse(text).unwrap();
    let class = &profile.classes[0];
    assert_eq!((class.milli_cpu, class.memory_bytes, class.pods), (7_000, 2 << 30, 110));
    assert_eq!(class.gpus.as_ref().map(|gpus| (gpus.count, gpus.resource.as_str())), Some((4, "example.com/gpu")));
    assert_eq!((class.labels["generation"].as_str(), class.taints[0].effect), ("5", "NoSchedule"));
    assert_eq!(profile.pods.lifetime_ms, crate::Span::exactly(2_000));
    assert_eq!(profile.pods.startup_ms, FleetProfile::built_in().pods.startup_ms);
}

#[test]
fn what_is_wrong_is_told_by_its_field() {
    let check = |text: &str, expect: &str| {
        let said = FleetProfile::parse(text).unwrap_err().to_string();
        assert!(said.contains(expect), "{text}: {said}");
    };
    let class = |rest: &str| format!("classes: [{{name: a, {rest}}}]");
    check("zones: [", "it is no YAML: ");
    check("- a", "a mapping of fields is needed, not [\"a\"]");
    check("{}", "classes: from 1 to 1000 classes of machines are needed");
    check("zones: 0", "zones: a whole number from 1 to 1000 is needed, not 0");
    check("zones: many", "zones: a whole number from 1 to 1000 is needed, not \"many\"");
    check("zonez: 3\nclasses: [{name: a}]", "zonez: there is no such field; there are name, region, zones, ");
    check("name: Big_Fleet", "name: lower-case letters, digits and dashes");
    check("classes: [{}]", "classes[0].name: a class needs a name");
    check("classes: [5]", "classes[0]: a mapping of fields is needed, not 5");
    check("classes: [{name: a}, {name: a}]", "classes[1].name: \"a\" is there twice");
    check(&class("share: 0"), "classes: the share of every class is 0");
    check(&class("cpu: fast"), "classes[0].cpu: \"fast\" is no quantity above 0, such as 500m, 4 or 16Gi");
    check(&class("cpu: 1500m"), "classes[0].cpu: a machine has whole CPUs");
    check(&class("memory: -1Gi"), "classes[0].memory: \"-1Gi\" is no quantity above 0");
    check(&class("cpu: {min: 1, max: 2}"), "classes[0].cpu: one quantity is needed");
    check(&class("gpus: {count: 0}"), "classes[0].gpus.count: a whole number from 1 to 1024 is needed, not 0");
    check(&class("gpus: {resource: gpu}"), "classes[0].gpus.resource: \"gpu\" is no resource such as");
    check(&class("taints: [{effect: Now}]"), "classes[0].taints[0].effect: one of NoSchedule, PreferNoSchedule");
    check("pods: {lifetime: soon}", "pods.lifetime: \"soon\" is no duration such as 250ms, 30s or 1h30m");
    check("pods: {startup: {min: 2s, max: 1s}}", "pods.startup: max is less than min");
    check("pods: {startup: {min: 2s}}", "pods.startup.max: it is needed beside the other end");
    check("pods: {startup: {min: 1s, max: x}}", "pods.startup.max: \"x\" is no duration");
}
