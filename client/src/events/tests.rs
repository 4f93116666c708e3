//! What the recorder writes, and that it gives up in the right places.

use gantry_apimachinery::clock::FakeClock;
use gantry_apimachinery::time::Timestamp;
use tokio::sync::mpsc;

use super::*;
use crate::mock::{self, Answer, Seen, failure};

fn about() -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: "n".into(),
        name: "p".into(),
        uid: "u".into(),
        ..ObjectRef::default()
    }
}

/// Of a server that takes one event at a time.
fn recorder(
    mut answer: impl FnMut(&Seen) -> Answer + Send + 'static,
) -> (EventRecorder, mpsc::UnboundedReceiver<Seen>, Metrics) {
    let (recorder, mut all, metrics) = batching(move |request| match request.path.as_str() {
        BATCHES => failure(404, "NotFound"),
        _ => answer(request),
    });
    let (sender, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(request) = all.recv().await {
            if request.path != BATCHES {
                sender.send(request).unwrap();
            }
        }
    });
    (recorder, seen, metrics)
}

fn batching(
    mut answer: impl FnMut(&Seen) -> Answer + Send + 'static,
) -> (EventRecorder, mpsc::UnboundedReceiver<Seen>, Metrics) {
    let (sender, seen) = mpsc::unbounded_channel();
    let client = mock::client(move |request| {
        let answer = answer(&request);
        sender.send(request).unwrap();
        answer
    });
    let (clock, metrics) = (FakeClock::new(Timestamp::from_secs(1_700_000_000)), Metrics::new());
    let recorder = EventRecorder::start(client, "tester".into(), "h".into(), Arc::new(clock), Some(metrics.clone()));
    (recorder, seen, metrics)
}

fn ok(_: &Seen) -> Answer {
    Answer::Json(200, json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_new_event_is_created_and_its_repeat_is_a_patch() {
    let (recorder, mut seen, _) = recorder(ok);
    recorder.event(&about(), EventType::Warning, "Failed", "no room");
    recorder.event(&about(), EventType::Warning, "Failed", "no room");
    let create = seen.recv().await.unwrap();
    assert_eq!((create.method.as_str(), create.path.as_str()), ("POST", "/api/v1/namespaces/n/events"));
    let expect = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.17979cfe362a0000", "namespace": "n"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"},
        "reason": "Failed", "message": "no room", "type": "Warning", "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z", "lastTimestamp": "2023-11-14T22:13:20Z", "eventTime": null,
        "source": {"component": "tester", "host": "h"}, "reportingComponent": "tester", "reportingInstance": "h",
    });
    assert_eq!(create.body, expect);
    let patch = seen.recv().await.unwrap();
    assert_eq!(patch.path, "/api/v1/namespaces/n/events/p.17979cfe362a0000");
    assert_eq!(patch.content_type, "application/merge-patch+json");
    assert_eq!(patch.body["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_written_together() {
    let (recorder, mut seen, metrics) = batching(|request| match request.path.as_str() {
        BATCHES => Answer::Json(200, json!({"items": [{"code": 200}, {"code": 422, "message": "bad"}, {"code": 503}]})),
        _ => Answer::Json(201, json!({})),
    });
    let third = ObjectRef { name: "r".into(), ..about() };
    let other = ObjectRef { name: "q".into(), ..about() };
    for (about, reason) in [(about(), "Failed"), (about(), "Failed"), (other, "Killed"), (third, "Killed")] {
        recorder.event(&about, EventType::Warning, reason, "m");
    }
    let batch = seen.recv().await.unwrap();
    assert_eq!((batch.method.as_str(), batch.path.as_str()), ("POST", BATCHES));
    assert_eq!((&batch.body["apiVersion"], &batch.body["kind"]), (&json!("gantry.dev/v1"), &json!("EventBatch")));
    let told = |event: &Value| json!([event["kind"], event["involvedObject"]["name"], event["reason"], event["count"]]);
    let told: Vec<Value> = batch.body["items"].as_array().unwrap().iter().map(told).collect();
    let killed = |name| json!(["Event", name, "Killed", 1]);
    assert_eq!(told, [json!(["Event", "p", "Failed", 2]), killed("q"), killed("r")]);
    let alone = seen.recv().await.unwrap();
    assert_eq!((&*alone.path, &alone.body["involvedObject"]["name"]), ("/api/v1/namespaces/n/events", &json!("r")));
    drop(recorder);
    assert!(seen.recv().await.is_none(), "nothing is written twice");
    assert!(metrics.encode().contains("gantry_events_failed_total 1"));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_whose_event_has_expired_is_created_again() {
    let (recorder, mut seen, _) = recorder(|request| match request.method.as_str() {
        "PATCH" => failure(404, "NotFound"),
        _ => Answer::Json(201, json!({})),
    });
    for _ in 0..2 {
        recorder.event(&about(), EventType::Normal, "R", "m");
    }
    let mut methods = Vec::new();
    for _ in 0..3 {
        methods.push(seen.recv().await.unwrap().method);
    }
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_tried_thrice_and_a_refusal_once() {
    let (recorder, mut seen, metrics) = recorder(|request| match request.body["reason"].as_str() {
        Some("Away") => failure(503, "ServiceUnavailable"),
        Some("Bad") => failure(422, "Invalid"),
        _ => Answer::Json(201, json!({})),
    });
    for reason in ["Away", "Bad", "Fine"] {
        recorder.event(&about(), EventType::Normal, reason, "m");
    }
    let mut reasons = Vec::new();
    for _ in 0..5 {
        reasons.push(seen.recv().await.unwrap().body["reason"].as_str().unwrap().to_owned());
    }
    assert_eq!(reasons, ["Away", "Away", "Away", "Bad", "Fine"]);
    assert!(metrics.encode().contains("gantry_events_failed_total 2"));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_the_oldest_and_counts() {
    let (recorder, mut seen, metrics) = recorder(ok);
    for n in 0..QUEUE + 3 {
        let about = ObjectRef { name: format!("p{n}"), ..about() };
        recorder.event(&about, EventType::Normal, "R", "m");
    }
    assert_eq!(seen.recv().await.unwrap().body["involvedObject"]["name"], "p3");
    assert!(metrics.encode().contains("gantry_events_dropped_total 3"));
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_written_after_the_last_handle_is_gone() {
    let (recorder, mut seen, _) = recorder(ok);
    recorder.event(&ObjectRef { namespace: String::new(), ..about() }, EventType::Normal, "R", &"é".repeat(600));
    drop(recorder);
    let create = seen.recv().await.unwrap();
    assert_eq!(create.path, "/api/v1/namespaces/default/events");
    assert_eq!(create.body["message"].as_str().unwrap().len(), 1024);
    assert!(seen.recv().await.is_none(), "the writer has ended");
}
