//! Answers as people see them.

use super::*;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    Timestamp::parse(CREATED).unwrap().add_secs(192)
}

fn waiting(extra: Value) -> Value {
    let mut report = json!({
        "machines": 6, "feasible": 0, "band": "ordinary", "priority": 0,
        "filters": [
            {"filter": "Unschedulable", "removed": 1, "reasons": [{"reason": "cordoned", "machines": 1}]},
            {"filter": "ResourcesFit", "removed": 5, "reasons": [
                {"reason": "short of cpu", "machines": 5}, {"reason": "short of memory", "machines": 2}]}],
        "nearest": [
            {"machine": "m-2", "lacks": ["short of cpu: wants 9, 8 free (1 more)"]},
            {"machine": "m-11", "lacks": ["cordoned", "short of cpu: wants 9, 8 free (1 more)"]}],
        "preemption": {"possible": false, "why": "its preemptionPolicy is Never", "victims": [], "victimsElsewhere": 0},
        "queue": {"state": "Sleeping", "ahead": 0, "attempts": 2, "againInSeconds": 290, "message": "0/6 machines: …"},
        "team": {"name": "shop", "share": 0.0123, "before": 1, "teams": 4},
        "later": "unknown fields are passed over",
    });
    report.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    report
}

fn text(extra: Value) -> String {
    let pod = json!({"metadata": {"creationTimestamp": CREATED}});
    pod::text("pod shop/web-1", &pod, &read(&waiting(extra)).unwrap(), now())
}

fn verdict(extra: Value) -> String {
    pod::verdict(&read(&waiting(extra)).unwrap())
}

#[test]
fn a_pod_that_fits_nowhere() {
    let expect = "\
pod shop/web-1 waits: no machine of 6 takes it: 5 short of cpu; 2 short of memory; 1 cordoned

FILTER         REMOVED  WHY
Unschedulable  1        1 cordoned
ResourcesFit   5        5 short of cpu; 2 short of memory

NEAREST  IS
m-2      short of cpu: wants 9, 8 free (1 more)
m-11     cordoned
         short of cpu: wants 9, 8 free (1 more)

Preemption: would not help: its preemptionPolicy is Never
Queue:      it sleeps until something happens that could help, 4m50s at most; no ready pod goes before it; looked at 2 times before
Team:       shop has 1.2 % of the cluster by its weight, now and of late; 1 of 3 other teams has less: its pods go first
Waits:      for 3m12s; band ordinary, priority 0";
    assert_eq!(text(json!({})), expect);
}

#[test]
fn no_machine_at_all() {
    let extra = json!({"machines": 0, "filters": [], "nearest": []});
    assert!(text(extra).starts_with("pod shop/web-1 waits: there is no machine yet\n\nPreemption:"));
}

#[test]
fn room_that_is_being_made() {
    let ending = json!({"machine": "m-2", "victims": ["a", "b"], "victimsElsewhere": 3});
    assert_eq!(
        verdict(json!({"makingRoom": ending})),
        "pods a, b and 3 pods of other namespaces on m-2 must end first, to make way for it"
    );
    let told = text(json!({"makingRoom": ending}));
    assert!(told.contains("Preemption: under way: nobody else gets the room"), "{told}");
    assert!(!told.contains("preemptionPolicy"), "{told}");
    let kept = json!({"machine": "m-2", "victims": [], "victimsElsewhere": 0, "keptForSeconds": 20});
    assert_eq!(
        verdict(json!({"makingRoom": kept})),
        "no machine has room for it; m-2 is kept for it while others there end by themselves"
    );
    assert!(text(json!({"makingRoom": kept})).contains("the machine is kept for 20s more"));
}

#[test]
fn groups() {
    let gang = |min: Value, exist: u32, placed: u32, fit: u32| json!({"gang": {"name": "g", "minMember": min, "hasObject": true, "exist": exist, "placed": placed, "fit": fit}});
    let open = |mut extra: Value| {
        extra["feasible"] = json!(6);
        verdict(extra)
    };
    assert_eq!(open(gang(json!(4), 2, 0, 2)), "its group g starts with 4 pods at once, and 2 of them exist");
    assert_eq!(
        open(gang(json!(4), 5, 0, 3)),
        "its group g starts with 4 pods at once, and there is room for 3 of them; the next would not fit: \
         5 short of cpu; 2 short of memory; 1 cordoned"
    );
    assert_eq!(
        verdict(gang(json!(4), 4, 0, 0)),
        "its group g starts with 4 pods at once, and there is room for 0 of them: 5 short of cpu; 2 short of memory; 1 cordoned"
    );
    assert_eq!(
        open(gang(Value::Null, 4, 0, 0)),
        "nobody says how many pods its group g has: make a PodGroup of that name"
    );
    assert_eq!(open(gang(json!(4), 5, 4, 0)), "6 of 6 machines would take it now: it is about to be placed");
    assert_eq!(open(gang(json!(4), 4, 0, 4)), "6 of 6 machines would take it now: it is about to be placed");
    let told = text(gang(json!(4), 5, 1, 2));
    let expect = "Group:      g needs 4 at once; 5 exist, 1 have a machine, 2 of the other 4 would find a place now\n";
    assert!(told.contains(expect), "{told}");
}

#[test]
fn what_the_pod_itself_says() {
    let check = |pod: Value, expect: Option<&str>| assert_eq!(pod::settled(&pod).as_deref(), expect);
    check(json!({"spec": {}}), None);
    check(
        json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "m"}}),
        Some("has ended (Failed): it needs no machine"),
    );
    let conditions = json!([{"type": "PodScheduled", "lastTransitionTime": CREATED}]);
    check(
        json!({"spec": {"nodeName": "m"}, "status": {"conditions": conditions}}),
        Some("has its machine since 2026-01-01T00:00:00Z: m"),
    );
    check(
        json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}),
        Some(
            "is held back by its scheduling gates a, b: no scheduler looks at it until whoever set them takes them away",
        ),
    );
    check(
        json!({"metadata": {"deletionTimestamp": CREATED}, "spec": {"schedulingGates": [{"name": "a"}]}}),
        Some("is being deleted: it gets no machine any more"),
    );
}

fn fitting(asked: u32, fit: u32, extra: Value) -> Value {
    let on = json!([{"machine": "m-2", "replicas": 40}, {"machine": "m-11", "replicas": 8}]);
    let on = if fit == 0 { json!([]) } else { on };
    let mut report = waiting(extra);
    report["fits"] = json!({"asked": asked, "fit": fit, "machines": if fit == 0 { 0 } else { 5 }, "on": on});
    report
}

fn found(is_daemon: bool) -> template::Found {
    template::Found { title: "Deployment web".into(), namespace: None, template: json!({}), replicas: 1, is_daemon }
}

#[test]
fn replicas_that_do_not_all_fit() {
    let report = read(&fitting(200, 48, json!({}))).unwrap();
    let judged = machines::judge(&found(false), &report);
    let expect = "\
Deployment web: 48 of 200 fit, on 5 machines; the next would not: 5 short of cpu; 2 short of memory; 1 cordoned

MACHINE  PODS
m-2      40
m-11     8
and 3 more machines with fewer

FILTER         REMOVED  WHY
Unschedulable  1        1 cordoned
ResourcesFit   5        5 short of cpu; 2 short of memory

NEAREST  IS
m-2      short of cpu: wants 9, 8 free (1 more)
m-11     cordoned
         short of cpu: wants 9, 8 free (1 more)

Preemption: would not help: its preemptionPolicy is Never";
    assert_eq!(machines::text("Deployment web", &judged, &report), expect);
    assert_eq!(judged.lacks.as_deref(), Some("152 of 200 do not fit"));
}

#[test]
fn what_fits_is_judged() {
    let check = |is_daemon: bool, report: Value, verdict: &str, lacks: Option<&str>| {
        let judged = machines::judge(&found(is_daemon), &read(&report).unwrap());
        assert_eq!((judged.verdict.as_str(), judged.lacks.as_deref()), (verdict, lacks));
    };
    let all = "5 short of cpu; 2 short of memory; 1 cordoned";
    check(false, fitting(200, 200, json!({})), "all 200 fit, on 5 machines", None);
    check(false, fitting(1, 0, json!({})), &format!("it does not fit: {all}"), Some("it does not fit"));
    check(false, fitting(3, 0, json!({})), &format!("none of 3 fits: {all}"), Some("none of 3 fits"));
    let next = format!("2 of 3 fit, on 5 machines; the next would not: {all}");
    check(false, fitting(3, 2, json!({})), &next, Some("1 of 3 does not fit"));
    check(
        true,
        fitting(1, 1, json!({"feasible": 4})),
        "4 of 6 machines would take one",
        Some("5 machines that it chooses would not take one"),
    );
    let chosen = json!({"feasible": 5, "filters": [{"filter": "Taints", "removed": 1, "reasons": []}]});
    check(true, fitting(1, 1, chosen), "5 of 6 machines would take one", None);
    check(
        true,
        fitting(1, 0, json!({"filters": []})),
        "0 of 6 machines would take one",
        Some("no machine would take one"),
    );
}

#[test]
fn silence_is_told_with_who_should_have_answered() {
    let said = |lease: &ask::Lease, pod: Option<&Value>| silence::said(lease, pod, Duration::from_secs(10), now());
    let lease = |renewed: &str| {
        ask::Lease::Seen(json!({"spec": {"holderIdentity": "a-1", "renewTime": renewed, "leaseDurationSeconds": 4}}))
    };
    let pod = json!({"spec": {"schedulerName": "default-scheduler"},
        "status": {"conditions": [{"type": "PodScheduled", "message": "0/6 machines: …"}]}});
    let expect = "\
no scheduler answered within 10s
  the Lease kube-system/kube-scheduler is held by a-1, renewed 3m12s ago (it lasts 4s): that is too long ago: it has stopped, \
or does not reach the API server
  the pod's condition says: 0/6 machines: …";
    assert_eq!(said(&lease(CREATED), Some(&pod)), expect);
    let other = json!({"spec": {"schedulerName": "theirs"}});
    let expect = "\
no scheduler answered within 10s
  the Lease kube-system/kube-scheduler is held by a-1, renewed 1s ago (it lasts 4s): it leads, and is busy or does not answer questions
  the pod's conditions say nothing: no scheduler has looked at it
  the pod asks for the scheduler theirs";
    assert_eq!(said(&lease("2026-01-01T00:03:11.000000Z"), Some(&other)), expect);
    assert!(said(&ask::Lease::Hidden, None).ends_with("you may not see: the Lease kube-system/kube-scheduler says it"));
    assert!(said(&ask::Lease::Missing, None).contains("no scheduler ever led"));
}

#[test]
fn scripts_get_the_same_fields_always() {
    let shown = |form| shown("pod a/b", "waits", &json!({"machines": 1}), form, || "text".to_owned()).unwrap();
    assert_eq!(shown(Form::Table), "text");
    let json: Value = serde_json::from_str(&shown(Form::Json)).unwrap();
    assert_eq!(json, json!({"about": "pod a/b", "verdict": "waits", "result": {"machines": 1}}));
    assert!(shown(Form::Yaml).contains("verdict: waits\n"));
}
