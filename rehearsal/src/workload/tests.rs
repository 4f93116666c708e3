//! Which manifests a profile gives, and how a wrong profile is told.

use super::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_same_seed_gives_the_same_manifests_and_exactly_so_many_pods() {
    for (name, _) in BUILT_IN {
        let profile = WorkloadProfile::built_in(name).unwrap();
        let all: Vec<Value> = generate(&profile, 7, 3_000).collect();
        assert_eq!(all, generate(&profile, 7, 3_000).collect::<Vec<_>>(), "{name}");
        assert_ne!(all[..5], generate(&profile, 8, 3_000).take(5).collect::<Vec<_>>()[..], "{name}");
        assert_eq!(all.iter().map(pods_of).sum::<u64>(), 3_000, "{name}");
        let key = |one: &Value| {
            let part = |field: &str| one["metadata"][field].as_str().unwrap().to_owned();
            (one["kind"].as_str().unwrap().to_owned(), part("namespace"), part("name"))
        };
        assert_eq!(all.iter().map(key).collect::<BTreeSet<_>>().len(), all.len(), "{name}: every name is its own");
        // A larger workload begins with the smaller one, but for the object that was cut short.
        let more: Vec<Value> = generate(&profile, 7, 6_000).take(50).collect();
        assert_eq!(all[..50], more[..], "{name}");
    }
}

#[test]
fn a_gang_is_whole_and_says_how_many_it_needs() {
    let profile = WorkloadProfile::built_in("gangs").unwrap();
    let mut gangs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for pod in generate(&profile, 3, 2_000) {
        let labels = &pod["metadata"]["labels"];
        let Some(group) = labels[LABEL_GROUP].as_str() else { continue };
        let least: u64 = labels[LABEL_MIN_MEMBER].as_str().unwrap().parse().unwrap();
        let gang = gangs.entry(group.to_owned()).or_insert((0, least));
        gang.0 += 1;
        assert_eq!(gang.1, least, "{group}");
        assert!(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].is_string());
    }
    assert!(gangs.len() > 50, "{}", gangs.len());
    for (group, (members, least)) in gangs {
        assert!(least >= 1 && least <= members, "{group}: {least} of {members}");
        assert!(group.starts_with("tune") || least == members, "{group}");
    }
}

fn first(text: &str) -> Value {
    generate(&WorkloadProfile::parse(text).unwrap(), 1, 9).next().unwrap()
}

#[test]
fn a_part_becomes_the_object_that_it_describes() {
    let job = first(
        "parts: [{name: j, kind: Job, replicas: 4, cpu: 250m, memory: 1Gi, lifetime: 90s, failingPercent: 100,
            priorityClassName: batch, nodeSelector: {a: b}}]",
    );
    assert_eq!((&job["kind"], &job["metadata"]["name"]), (&json!("Job"), &json!("j-1-000000")));
    assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(4), &json!(4)));
    let template = &job["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"], json!({ANNOTATION_LIFETIME: "90s", ANNOTATION_EXIT_CODE: "1"}));
    let spec = &template["spec"];
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!((&spec["priorityClassName"], &spec["nodeSelector"]), (&json!("batch"), &json!({"a": "b"})));
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "250m", "memory": "1024Mi"}));

    let web = first(
        "namespaces: [ns]\nparts: [{name: w, replicas: 3, spread: [{over: zone, required: true}],
            affinity: [{apart: true, required: true}, {over: rack, weight: 5}]}]",
    );
    assert_eq!((&web["kind"], &web["metadata"]["namespace"]), (&json!("Deployment"), &json!("ns")));
    let own = json!({"matchLabels": {"app": "w-1-000000"}});
    let spec = &web["spec"]["template"]["spec"];
    assert_eq!(web["spec"]["selector"], own);
    assert_eq!(
        spec["topologySpreadConstraints"],
        json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": own}])
    );
    assert_eq!(
        spec["affinity"],
        json!({
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": own, "topologyKey": "kubernetes.io/hostname"}]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": {"labelSelector": own, "topologyKey": "gantry.dev/rack"}}]},
        })
    );
    assert!(spec.get("restartPolicy").is_none() && web["spec"]["template"]["metadata"].get("annotations").is_none());
}

#[test]
fn what_is_wrong_is_told_by_its_field() {
    let check = |text: &str, expect: &str| {
        let said = WorkloadProfile::parse(text).unwrap_err().to_string();
        assert!(said.contains(expect), "{text}: {said}");
    };
    check("{}", "parts: at least one part with a share above 0 is needed");
    check(
        "parts: [{kind: DaemonSet}]",
        "parts[0].kind: one of Deployment, Job, Pod, Gang is needed, not \"DaemonSet\"",
    );
    check("parts: [{}, {replicas: 0}]", "parts[1].replicas: a whole number from 1 to 1000000 is needed, not 0");
    check("parts: [{kind: Gang, replicas: {min: 1, max: 513}}]", "parts[0].replicas.max: a whole number from 1 to 512");
    check("parts: [{replica: 1}]", "parts[0].replica: there is no such field; there are kind, name, share, replicas");
    check("parts: [{spread: [{maxSkew: 0}]}]", "parts[0].spread[0].maxSkew: a whole number from 1");
    check("parts: [{affinity: [{to: all}]}]", "parts[0].affinity[0].to: one of own, tier is needed");
    check("parts: [{affinity: {to: own}}]", "parts[0].affinity: a list is needed");
    check("parts: [{minMemberPercent: 0}]", "parts[0].minMemberPercent: a whole number from 1 to 100");
    check("namespaces: [1]\nparts: [{}]", "namespaces[0]: a namespace's name is needed, not 1");
}
