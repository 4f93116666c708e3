//! The informer against a server that the test plays: resume, bookmarks, 410, silence, and slow subscribers.

use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Header;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::mock::{self, Answer, Seen, failure};

/// A server whose every answer the test gives by hand, in order, from a prepared list.
fn server(answers: Vec<Answer>) -> (Client, mpsc::UnboundedReceiver<Seen>) {
    let (sender, seen) = mpsc::unbounded_channel();
    let mut answers = answers.into_iter();
    let client = mock::client(move |request| {
        sender.send(request).expect("the test listens");
        answers.next().unwrap_or(Answer::Never)
    });
    (client, seen)
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()}})
}

fn list(version: u64, items: &[Value]) -> Answer {
    Answer::Json(200, json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string()}, "items": items}))
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn bookmark(version: u64) -> String {
    line("BOOKMARK", &json!({"kind": "Pod", "metadata": {"resourceVersion": version.to_string()}}))
}

fn stream() -> (mpsc::UnboundedSender<String>, Answer) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Answer::Stream(receiver))
}

fn start(client: Client, cancel: &CancellationToken) -> Informer<Header> {
    Informer::start(client, &kinds::POD, InformerOptions::fields("spec.nodeName=x"), cancel.clone())
}

async fn next(changes: &mut Receiver<Header>) -> String {
    match timeout(Duration::from_secs(900), changes.recv()).await.expect("a change comes").expect("it runs") {
        Change::Applied { old, new } => {
            format!("{}{}@{}", if old.is_some() { '~' } else { '+' }, new.metadata.name, new.metadata.resource_version)
        }
        Change::Deleted(last) => format!("-{}", last.metadata.name),
        Change::Resync => "resync".to_owned(),
    }
}

fn version_asked(seen: &Seen) -> String {
    let query = seen.path.split_once('?').expect("a query").1;
    query.split('&').find_map(|p| p.strip_prefix("resourceVersion=")).unwrap_or("list").to_owned()
}

#[tokio::test(start_paused = true)]
async fn lists_then_watches_from_there_and_resumes_where_it_was() {
    let cancel = CancellationToken::new();
    let ((first, watch), (second, resumed)) = (stream(), stream());
    let (client, mut seen) = server(vec![list(10, &[pod("a", 3)]), watch, resumed]);
    let informer = start(client, &cancel);
    let mut changes = informer.subscribe();
    assert_eq!(next(&mut changes).await, "+a@3");
    informer.synced().await;
    assert_eq!(informer.revision(), 10);
    let asked = seen.recv().await.unwrap();
    assert_eq!(
        (asked.path.as_str(), version_asked(&asked).as_str()),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dx", "list")
    );
    let asked = seen.recv().await.unwrap();
    assert_eq!(version_asked(&asked), "10");
    assert!(asked.path.contains("watch=true&allowWatchBookmarks=true&timeoutSeconds="), "{}", asked.path);

    let both = line("ADDED", &pod("b", 11)) + &line("MODIFIED", &pod("a", 12));
    let (head, tail) = both.split_at(70);
    first.send(head.to_owned()).unwrap();
    first.send(tail.to_owned()).unwrap();
    assert_eq!(next(&mut changes).await, "+b@11");
    assert_eq!(next(&mut changes).await, "~a@12");
    first.send(bookmark(40)).unwrap();
    assert!(informer.wait_for_revision(40).await, "a bookmark moves the revision");
    drop(first);
    assert_eq!(version_asked(&seen.recv().await.unwrap()), "40", "the watch goes on where the bookmark was");
    second.send(line("DELETED", &pod("a", 41))).unwrap();
    assert_eq!(next(&mut changes).await, "-a");
    assert_eq!(informer.list().len(), 1);
    assert!(informer.get("n", "a").is_none() && informer.get("n", "b").is_some());
}

#[tokio::test(start_paused = true)]
async fn history_that_is_gone_is_listed_again_and_told_as_a_difference() {
    let cancel = CancellationToken::new();
    let ((first, watch), (_second, resumed)) = (stream(), stream());
    let (client, mut seen) =
        server(vec![list(10, &[pod("a", 3), pod("b", 4)]), watch, list(90, &[pod("b", 80), pod("c", 81)]), resumed]);
    let informer = start(client, &cancel);
    let mut changes = informer.subscribe();
    assert_eq!((next(&mut changes).await, next(&mut changes).await), ("+a@3".into(), "+b@4".into()));
    let gone = json!({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"});
    first.send(line("ERROR", &gone)).unwrap();
    for expect in ["-a", "~b@80", "+c@81"] {
        assert_eq!(next(&mut changes).await, expect);
    }
    assert_eq!(informer.revision(), 90);
    let asked: Vec<String> = [seen.recv().await, seen.recv().await, seen.recv().await, seen.recv().await]
        .into_iter()
        .map(|s| version_asked(&s.unwrap()))
        .collect();
    assert_eq!(asked, ["list", "10", "list", "90"]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_from_the_same_place() {
    let cancel = CancellationToken::new();
    let (_open, watch) = stream();
    let answers = vec![
        failure(500, "InternalError"),
        list(10, &[]),
        failure(503, "ServiceUnavailable"),
        failure(429, "TooManyRequests"),
        watch,
    ];
    let (client, mut seen) = server(answers);
    let informer = start(client, &cancel);
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(version_asked(&seen.recv().await.unwrap()));
    }
    assert_eq!(asked, ["list", "list", "10", "10", "10"]);
    assert!(informer.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_started_again() {
    let cancel = CancellationToken::new();
    let ((_held_open, watch), (_second, resumed)) = (stream(), stream());
    let (client, mut seen) = server(vec![list(10, &[]), watch, resumed]);
    let _informer = start(client, &cancel);
    let begin = tokio::time::Instant::now();
    for _ in 0..3 {
        seen.recv().await.unwrap();
    }
    assert_eq!(begin.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_page_at_a_time() {
    let cancel = CancellationToken::new();
    let page = |token: &str, name: &str| {
        Answer::Json(200, json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": [pod(name, 2)]}))
    };
    let (client, mut seen) = server(vec![page("t", "a"), page("", "b")]);
    let informer = start(client, &cancel);
    informer.synced().await;
    assert_eq!(informer.list().len(), 2);
    seen.recv().await.unwrap();
    assert!(seen.recv().await.unwrap().path.contains("continue=t"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_to_read_again() {
    let cancel = CancellationToken::new();
    let (feed, watch) = stream();
    let (client, _seen) = server(vec![list(1, &[]), watch]);
    let informer = start(client, &cancel);
    informer.synced().await;
    let (state, mut slow) = informer.subscribe_with_state();
    assert!(state.is_empty());
    let many = u64::try_from(FAN_OUT).unwrap() + 10;
    for n in 0..many {
        feed.send(line("ADDED", &pod(&format!("p{n}"), n + 2))).unwrap();
    }
    assert!(informer.wait_for_revision(many + 1).await);
    assert_eq!(next(&mut slow).await, "resync");
    assert!(slow.try_recv().is_none(), "what was queued is older than the copy");
    feed.send(line("ADDED", &pod("last", many + 2))).unwrap();
    assert_eq!(next(&mut slow).await, format!("+last@{}", many + 2));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_stop_the_rest() {
    let cancel = CancellationToken::new();
    let (feed, watch) = stream();
    let strange = json!({"metadata": {"name": "s", "namespace": "n", "uid": "s", "resourceVersion": "12"}, "kind": 5});
    let (client, _seen) = server(vec![list(10, &[strange.clone(), pod("a", 3)]), watch]);
    let informer = start(client, &cancel);
    informer.synced().await;
    assert_eq!(informer.len(), 1);
    feed.send(line("ADDED", &strange)).unwrap();
    assert!(informer.wait_for_revision(12).await);
    assert_eq!(informer.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_watch() {
    let cancel = CancellationToken::new();
    let (feed, watch) = stream();
    let (client, mut seen) = server(vec![list(1, &[]), watch]);
    let informer = start(client, &cancel);
    let other = informer.clone();
    seen.recv().await.unwrap();
    seen.recv().await.unwrap();
    drop(informer);
    other.synced().await;
    assert!(!feed.is_closed());
    drop(other);
    timeout(Duration::from_secs(5), feed.closed()).await.expect("the stream is let go");
}

/// What a follower is told, in short.
async fn told(follow: &mut Follow<Header>) -> String {
    match timeout(Duration::from_secs(900), follow.next()).await.expect("something comes").expect("it runs") {
        Told::All(all) => format!("all {}", all.iter().map(|o| o.metadata.name.as_str()).collect::<Vec<_>>().join(",")),
        Told::Applied(new) => format!("{}@{}", new.metadata.name, new.metadata.resource_version),
        Told::Deleted(last) => format!("-{}", last.metadata.name),
        Told::Reached(revision) => format!("to {revision}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_hears_everything_once_and_again_after_a_loss() {
    let (sender, answer) = stream();
    let gone = failure(410, "Expired");
    let (client, _seen) =
        server(vec![list(5, &[pod("a", 3), pod("b", 4)]), answer, gone, list(20, &[pod("b", 4)]), Answer::Never]);
    let cancel = CancellationToken::new();
    let mut follow: Follow<Header> = Follow::start(client, &kinds::POD, InformerOptions::all(), &cancel);
    assert_eq!(told(&mut follow).await, "all a,b");
    assert_eq!(told(&mut follow).await, "to 5");
    let piece = [line("MODIFIED", &pod("a", 6)), line("DELETED", &pod("a", 7)), line("ADDED", &pod("c", 8))].concat();
    sender.send(piece).unwrap();
    for expect in ["a@6", "-a", "c@8", "to 7"] {
        assert_eq!(told(&mut follow).await, expect);
    }
    sender.send(bookmark(12)).unwrap();
    assert_eq!(told(&mut follow).await, "to 12");
    drop(sender);
    assert_eq!(told(&mut follow).await, "all b", "the watch could not go on");
    assert_eq!(told(&mut follow).await, "to 20");
    cancel.cancel();
    assert!(follow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_follower_hears_a_revision_once_though_the_server_tells_it_again() {
    let ((first, watch), (second, resumed)) = (stream(), stream());
    let (client, mut seen) = server(vec![list(5, &[]), watch, resumed]);
    let cancel = CancellationToken::new();
    let mut follow: Follow<Header> = Follow::start(client, &kinds::POD, InformerOptions::all(), &cancel);
    for expect in ["all ", "to 5"] {
        assert_eq!(told(&mut follow).await, expect);
    }
    // One transaction wrote three pods; the watch is cut off after two of them.
    first.send([line("MODIFIED", &pod("a", 9)), line("MODIFIED", &pod("b", 9))].concat()).unwrap();
    for expect in ["a@9", "b@9", "to 8"] {
        assert_eq!(told(&mut follow).await, expect);
    }
    drop(first);
    seen.recv().await.unwrap();
    seen.recv().await.unwrap();
    assert_eq!(version_asked(&seen.recv().await.unwrap()), "9");
    let again = ["a", "b", "c"].map(|name| line("MODIFIED", &pod(name, 9))).concat();
    second.send([again, line("DELETED", &pod("a", 10))].concat()).unwrap();
    for expect in ["c@9", "-a", "to 9"] {
        assert_eq!(told(&mut follow).await, expect);
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_asks_for_a_list_when_something_unreadable_is_gone() {
    let (feed, watch) = stream();
    let (client, _seen) =
        server(vec![list(5, &[pod("a", 3), pod("s", 4)]), watch, list(9, &[pod("a", 3)]), Answer::Never]);
    let cancel = CancellationToken::new();
    let mut follow: Follow<Header> = Follow::start(client, &kinds::POD, InformerOptions::all(), &cancel);
    for expect in ["all a,s", "to 5"] {
        assert_eq!(told(&mut follow).await, expect);
    }
    let strange = json!({"metadata": {"name": "s", "namespace": "n", "uid": "s", "resourceVersion": "7"}, "kind": 5});
    feed.send(line("DELETED", &strange)).unwrap();
    for expect in ["all a", "to 9"] {
        assert_eq!(told(&mut follow).await, expect);
    }
}
