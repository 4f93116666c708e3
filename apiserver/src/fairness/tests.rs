//! Requests that come, wait, and go away again, with a clock that stands still unless a test moves it.

use super::*;
use crate::http::Query;
use futures::FutureExt;
use queues::Refusal;
use serde_json::{Value, json};

fn with_level(total: usize, limited: &Value) -> Fairness {
    let fairness = Fairness::new(total);
    let level = json!({"metadata": {"name": "l", "uid": "ul"}, "spec": {"type": "Limited", "limited": limited}});
    let rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": "team"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let schema = json!({"metadata": {"name": "s", "uid": "us"}, "spec": {
        "matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "l"}, "rules": [rule],
        "distinguisherMethod": {"type": "ByUser"},
    }});
    fairness.change(|objects| {
        objects.settled = true;
        objects.levels.insert("l".into(), LevelSpec::read(&level));
        objects.schemas.insert("s".into(), Arc::new(Schema::read(&schema)));
        true
    });
    fairness
}

/// One seat, one queue.
fn narrow() -> Fairness {
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 2});
    let response = json!({"type": "Queue", "queuing": queuing});
    with_level(1, &json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": response}))
}

fn flow(fairness: &Fairness, user: &str) -> Flow {
    let what = Attributes { verb: "get", path: Some("/x"), ..Attributes::default() };
    fairness.classify(&UserInfo::new(user, &["team"]), &what)
}

async fn enter_with(fairness: &Fairness, work: Work) -> Result<Seat, Rejected> {
    let flow = flow(fairness, "jane");
    let uri = Uri::from_static("/api/v1/namespaces/n/pods/p/binding?x=y");
    let (verb, now) = (Some(Verb::Create), Timestamp::from_secs(0));
    let asked = Asked { user: "jane", method: &Method::POST, uri: &uri, verb, now };
    fairness.enter(&flow, work, asked).await
}

async fn enter(fairness: &Fairness) -> Result<Seat, Rejected> {
    enter_with(fairness, Work::ONE).await
}

fn load(fairness: &Fairness) -> (usize, usize) {
    let load = fairness.load();
    let (_, executing, waiting) = load.iter().find(|(name, ..)| name == "l").unwrap();
    (*executing, *waiting)
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let fairness = narrow();
    let seat = enter(&fairness).await.unwrap();
    assert_eq!(enter(&fairness).await.err(), Some(Rejected { why: Refusal::TimeOut, retry_after_s: 1 }));
    assert_eq!(load(&fairness), (1, 0), "who gave up waits no more");
    drop(seat);
    assert!(enter(&fairness).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_passes_its_seat_on() {
    let fairness = narrow();
    let seat = enter(&fairness).await.unwrap();
    let (mut first, mut second) = (Box::pin(enter(&fairness)), Box::pin(enter(&fairness)));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    let full = enter(&fairness).now_or_never().unwrap();
    assert_eq!(full.err().map(|rejected| rejected.why), Some(Refusal::QueueFull));
    drop(seat);
    // The first one has its seat by now and never looks.
    drop(first);
    let second = second.now_or_never().unwrap().unwrap();
    let third = Box::pin(enter(&fairness));
    assert_eq!((load(&fairness), fairness.writing.now()), ((1, 0), 1));
    drop((third, second));
    assert_eq!((load(&fairness), fairness.writing.now()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_keeps_its_seats_for_a_while() {
    let fairness = narrow();
    let work = Work { seats: 1, after_us: 5_000 };
    drop(enter_with(&fairness, work).await.unwrap());
    assert_eq!(load(&fairness), (1, 0));
    let before = tokio::time::Instant::now();
    let _seat = enter(&fairness).await.unwrap();
    assert!(before.elapsed() >= std::time::Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_list_keeps_its_seats_while_it_is_sent() {
    let fairness = narrow();
    let response = |body| crate::http::Response::new(body);
    let sent = until_sent(enter(&fairness).await.unwrap(), response(crate::http::body::full("all of it")));
    assert_eq!(load(&fairness), (0, 0), "what is there needs no seat");
    drop(sent);
    let endless = || crate::http::body::stream(futures::stream::pending());
    let sending = until_sent(enter(&fairness).await.unwrap(), response(endless()));
    assert_eq!(load(&fairness), (1, 0));
    let next = enter(&fairness);
    drop(sending);
    let seat = next.await.unwrap();
    let _slow = until_sent(seat, response(endless()));
    let before = tokio::time::Instant::now();
    assert!(enter(&fairness).await.is_ok(), "who does not read loses its seat");
    assert!(before.elapsed() >= std::time::Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_busy_level_borrows_and_gives_back() {
    let queuing = json!({"queues": 4, "handSize": 1, "queueLengthLimit": 100});
    let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Queue", "queuing": queuing}});
    let fairness = with_level(20, &limited);
    // Another level that lends all it has.
    let lender = json!({"nominalConcurrencyShares": 10, "lendablePercent": 100, "limitResponse": {"type": "Reject"}});
    let lender = json!({"metadata": {"name": "m"}, "spec": {"type": "Limited", "limited": lender}});
    fairness.change(|objects| replace(&mut objects.levels, "m", Some(LevelSpec::read(&lender))));
    let limits = || {
        let active = fairness.active.load();
        let limits = active.levels.iter().map(|level| level.level.look(|queues, _| queues.limit()));
        limits.collect::<Vec<_>>()
    };
    // `catch-all`, which lends nothing, `exempt`, `l` and `m`.
    assert_eq!(limits(), [5, usize::MAX, 5, 10]);
    let mut all: Vec<_> = (0..40).map(|_| Box::pin(enter(&fairness))).collect();
    let mut seats: Vec<Seat> = all.iter_mut().filter_map(|one| one.now_or_never()).map(Result::unwrap).collect();
    assert_eq!((seats.len(), load(&fairness)), (5, (5, 35)));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    fairness.rebalance();
    assert_eq!((limits(), load(&fairness)), (vec![5, usize::MAX, 15, 0], (15, 25)));
    let text = metrics(&fairness);
    for expect in [
        "apiserver_flowcontrol_current_limit_seats{priority_level=\"l\"} 15\n",
        "apiserver_flowcontrol_demand_seats_high_watermark{priority_level=\"l\"} 40\n",
        "apiserver_flowcontrol_current_inqueue_requests{flow_schema=\"s\",priority_level=\"l\"} 35\n",
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 5\n",
        "apiserver_flowcontrol_target_seats{priority_level=\"l\"} 40\n",
        "apiserver_flowcontrol_request_wait_duration_seconds_bucket{flow_schema=\"s\",priority_level=\"l\",execute=\"true\",le=\"0.005\"} 5\n",
        "apiserver_flowcontrol_request_queue_length_after_enqueue_count{flow_schema=\"s\",priority_level=\"l\"} 35\n",
        "apiserver_flowcontrol_work_estimated_seats_bucket{flow_schema=\"s\",priority_level=\"l\",le=\"+Inf\"} 5\n",
    ] {
        assert!(text.contains(expect), "{expect}{text}");
    }
    seats.clear();
    drop(all);
    fairness.rebalance();
    fairness.rebalance();
    assert_eq!(limits(), [5, usize::MAX, 5, 10], "nobody wants more than it has");
}

#[tokio::test(start_paused = true)]
async fn what_exempt_requests_take_is_taken_from_who_lends() {
    let limited = json!({"nominalConcurrencyShares": 5, "lendablePercent": 50, "limitResponse": {"type": "Reject"}});
    let fairness = with_level(20, &limited);
    let what = Attributes { verb: "get", path: Some("/x"), ..Attributes::default() };
    let admin = fairness.classify(&UserInfo::new("root", &["system:masters"]), &what);
    let uri = Uri::from_static("/x");
    let asked = Asked { user: "root", method: &Method::GET, uri: &uri, verb: None, now: Timestamp::from_secs(0) };
    let mut seats = Vec::new();
    for _ in 0..4 {
        seats.push(fairness.enter(&admin, Work::ONE, asked).await.unwrap());
    }
    fairness.rebalance();
    let active = fairness.active.load();
    let limits: Vec<_> = active.levels.iter().map(|level| level.level.look(|queues, _| queues.limit())).collect();
    assert_eq!(limits, [10, usize::MAX, 6], "`catch-all` lends nothing");
}

#[tokio::test(start_paused = true)]
async fn the_tables_show_who_runs_and_who_waits() {
    let fairness = narrow();
    let _seat = enter(&fairness).await.unwrap();
    let mut waits = Box::pin(enter(&fairness));
    assert!((&mut waits).now_or_never().is_none());
    let find = |what: &str, first: &str| {
        let text = dump::dump(&fairness, what, &Query::parse(Some("includeRequestDetails=1"))).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().filter(|line| line.starts_with(first)).map(words).collect::<Vec<_>>()
    };
    assert_eq!(find("dump_priority_levels", "l,"), ["l, 1, false, false, 1, 1, 1, 0, 0, 0"]);
    assert_eq!(find("dump_priority_levels", "exempt,"), ["exempt, 0, true, false, 0, 0, 0, 0, 0, 0"]);
    assert_eq!(find("dump_queues", "l,"), ["l, 0, 1, 1, 1, 0.00300000ss, 1, 1, 0.00300000ss"]);
    let requests = find("dump_requests", "l,");
    assert_eq!(requests.len(), 2);
    let zero = "1970-01-01T00:00:00.000000Z";
    let details = "jane, create, /api/v1/namespaces/n/pods/p/binding, n, p, v1, pods, binding";
    assert_eq!(requests[0], format!("l, s, 0, -1, jane, {zero}, 1, 0, 0s, {zero}, {details}"));
    assert_eq!(requests[1], format!("l, s, 0, 0, jane, {zero}, 1, 0, 0s, 0001-01-01T00:00:00Z, {details}"));
    let plain = dump::dump(&fairness, "dump_requests", &Query::parse(None)).unwrap();
    assert!(!plain.contains("UserName") && plain.contains("StartTime"), "{plain}");
    assert_eq!(dump::dump(&fairness, "other", &Query::parse(None)), None);
}
