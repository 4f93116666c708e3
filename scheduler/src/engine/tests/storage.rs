//! Pods whose volumes keep them waiting, event by event.

use serde_json::{Value, json};

use super::*;
use crate::plugins::claims::VolumeWrite;

const CLASS: &str = "made";

fn stored<T: serde::de::DeserializeOwned>(stored: fn(Arc<T>) -> Stored, object: Value) -> Event {
    Event::Storage(stored(Arc::new(serde_json::from_value(object).unwrap())))
}

/// Claim `c`, as of a revision.
fn claim(revision: u64, selected: Option<&str>, volume: &str) -> Event {
    let annotations = selected.map(|node| json!({"volume.kubernetes.io/selected-node": node}));
    let phase = if volume.is_empty() { "Pending" } else { "Bound" };
    let metadata = json!({"namespace": "ns", "name": "c", "uid": "c", "resourceVersion": revision.to_string(),
        "annotations": annotations});
    let spec = json!({"storageClassName": CLASS, "volumeName": volume});
    stored(Stored::Claim, json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))
}

fn volume(host: &str) -> Event {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]});
    let spec = json!({"claimRef": {"namespace": "ns", "name": "c", "uid": "c"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}});
    stored(Stored::Volume, json!({"metadata": {"name": "v"}, "spec": spec}))
}

fn late_class() -> Event {
    let class = json!({"metadata": {"name": CLASS}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"});
    stored(Stored::Class, class)
}

fn mounts(claim: &str) -> Value {
    json!({"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]})
}

fn why(claim: &str, what: &str) -> String {
    format!("explain p: 0/1 machines: 1 that cannot mount PersistentVolumeClaim {claim}: {what}")
}

fn select(revision: &str) -> Effect {
    let write = VolumeWrite::Select {
        claim: "ns/c".into(),
        uid: "c".to_owned(),
        revision: revision.to_owned(),
        node: "m".to_owned(),
    };
    Effect::PrepareVolumes { pod: Arc::new(PodInfo::read(&pod("p", "1", "", mounts("c")))), writes: vec![write] }
}

#[test]
fn only_news_of_its_claim_wakes_a_pod() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    assert_eq!(told(&decide(&mut engine, 0)), [why("c", "it does not exist")]);
    let other = json!({"metadata": {"namespace": "ns", "name": "other"}});
    engine.step(1_000, stored(Stored::Claim, other));
    engine.step(1_000, Event::Pod(pod("else", "100m", "m", json!({}))));
    assert_eq!(decide(&mut engine, 1_000), []);
    assert_eq!(engine.depths().sleeping, 1, "what happened to others does not wake it");
    engine.step(2_000, claim(1, None, ""));
    assert_eq!(told(&decide(&mut engine, 2_000)), [why("c", "it is not bound to a volume yet")]);
    engine.step(3_000, claim(2, None, "v"));
    assert_eq!(told(&decide(&mut engine, 3_000)), [why("c", "its volume does not exist")]);
    engine.step(4_000, volume("elsewhere"));
    let expect = "explain p: 0/1 machines: 1 that do not reach the volume of PersistentVolumeClaim c";
    assert_eq!(told(&decide(&mut engine, 4_000)), [expect]);
    engine.step(5_000, volume("m"));
    assert_eq!(told(&decide(&mut engine, 5_000)), ["bind p@5"]);
}

#[test]
fn a_claim_that_says_the_same_again_wakes_nobody() {
    let mut engine = engine();
    engine.step(0, claim(1, None, ""));
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    assert_eq!(told(&decide(&mut engine, 0)), [why("c", "it is not bound to a volume yet")]);
    engine.step(1_000, claim(2, None, ""));
    assert!(!engine.has_ready());
}

#[test]
fn a_volume_is_made_on_the_machine_decided_before_the_pod_is_bound() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    let effects = decide(&mut engine, 0);
    assert_eq!(effects[0], select("7"));
    assert_eq!(told(&effects[1..]), ["explain p: waits for its volume to be provisioned on m"]);
    assert_eq!(machine(engine.snapshot(), "m"), (1000, 1), "its room is kept");
    engine.step(1_000, claim(8, Some("m"), ""));
    assert_eq!(decide(&mut engine, 1_000), [], "what was written came back");
    engine.step(2_000, volume("m"));
    engine.step(2_000, claim(9, Some("m"), "v"));
    assert_eq!(told(&decide(&mut engine, 2_000)), ["bind p@5"]);
    assert_eq!(machine(engine.snapshot(), "m"), (1000, 1));
}

#[test]
fn a_refused_machine_is_decided_again() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    decide(&mut engine, 0);
    engine.step(1_000, claim(8, Some("m"), ""));
    assert_eq!(decide(&mut engine, 1_000), []);
    engine.step(2_000, claim(9, None, ""));
    assert_eq!(decide(&mut engine, 2_000), [select("9")], "the provisioner took its machine away");
}

#[test]
fn what_was_not_written_is_tried_again() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    decide(&mut engine, 0);
    engine.step(1_000, Event::VolumesUnwritten("p".into()));
    assert_eq!(decide(&mut engine, 1_000), [], "after a back-off");
    let due = engine.next_due_ms().unwrap();
    assert!(due < 2_000, "{due}");
    assert_eq!(decide(&mut engine, due), [select("7")]);
    engine.step(due, claim(8, Some("m"), ""));
    engine.step(due, volume("m"));
    engine.step(due, claim(9, Some("m"), "v"));
    assert_eq!(told(&decide(&mut engine, due + 10_000)), ["bind p@5"]);
    engine.step(due + 10_000, Event::VolumesUnwritten("p".into()));
    assert_eq!(decide(&mut engine, due + 60_000), [], "who is on its way stays there");
}

#[test]
fn room_is_not_kept_for_a_pod_that_cannot_come_any_more() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    engine.step(0, Event::Pod(pod("p", "1", "", mounts("c"))));
    decide(&mut engine, 0);
    engine.step(1_000, Event::Storage(Stored::ClaimGone("ns/c".to_owned())));
    assert_eq!(told(&decide(&mut engine, 1_000)), [why("c", "it does not exist")]);
    assert_eq!(machine(engine.snapshot(), "m"), (0, 0));
}

#[test]
fn a_list_replaces_what_was_known() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    engine.step(0, volume("m"));
    for all in [Stored::AllClaims(vec![]), Stored::AllVolumes(vec![]), Stored::AllClasses(vec![])] {
        engine.step(1, Event::Storage(all));
    }
    let snapshot = engine.snapshot();
    assert!(snapshot.claim("ns/c").is_none() && snapshot.volume("v").is_none());
    assert!(snapshot.storage_class(CLASS).is_none() && snapshot.volumes_for("ns/c").next().is_none());
}

#[test]
fn a_gang_is_bound_when_all_of_its_volumes_are_there() {
    let mut engine = engine();
    engine.step(0, late_class());
    engine.step(0, claim(7, None, ""));
    for (name, extra) in [("p", mounts("c")), ("q", json!({}))] {
        let mut member = (*pod(name, "1", "", extra)).clone();
        member.metadata.labels.insert("gantry.dev/pod-group".to_owned(), "g".to_owned());
        member.metadata.labels.insert("gantry.dev/min-member".to_owned(), "2".to_owned());
        engine.step(0, Event::Pod(Arc::new(member)));
    }
    let effects: Vec<String> = told(&decide(&mut engine, 0));
    assert!(effects.iter().any(|told| told.starts_with("volumes of p: [Select")), "{effects:?}");
    assert!(!effects.iter().any(|told| told.starts_with("bind")), "{effects:?}");
    engine.step(20_000, volume("m"));
    engine.step(20_000, claim(9, Some("m"), "v"));
    assert_eq!(told(&decide(&mut engine, 20_000)), ["bind p+q@5 of g"]);
}
