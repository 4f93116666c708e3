//! Sends a plan and reports what became of it. Decides only what counts as success (an object that is gone is deleted);
//! never what to write. Begins no write once the loop is told to stop: another leader may take over then.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Header, Uid};
use gantry_client::{ApiError, Client, EventRecorder, EventType};
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::plan::{Announce, Plan, Step, Verb, Write};

/// Requests of one step under way at the same time: at 20 ms each, three thousand a second.
const CONCURRENCY: usize = 64;

/// What became of a plan.
#[derive(Default)]
pub struct Report {
    /// Kind and version of everything written.
    pub written: Vec<(&'static Kind, u64)>,
    /// Pods that were told to go.
    pub deleted: Vec<(Uid, String, String)>,
    pub failure: Option<Failure>,
    /// The loop tries again for these.
    pub error: Option<ApiError>,
    /// A create met an object of its name, which the copy will show soon.
    pub retry_in: Option<Duration>,
    /// The loop was told to stop before everything was sent.
    pub stopped: bool,
}

enum Outcome {
    Written(u64),
    Deleted,
    /// The object or its namespace is gone or going: nothing is left to do.
    Moot,
    /// The loop was told to stop before its turn came.
    Unsent,
}

/// Where writes go, and whether they still may.
#[derive(Clone, Copy)]
struct Wire<'a> {
    client: &'a Client,
    stop: &'a CancellationToken,
}

/// Carries the plan out: the steps in order up to the first failure, then the status, then the events. After `stop` only what
/// is under way ends.
pub async fn execute(client: &Client, recorder: &EventRecorder, plan: &Plan, stop: &CancellationToken) -> Report {
    let (wire, mut report) = (Wire { client, stop }, Report::default());
    for step in &plan.steps {
        match step {
            Step::One(write) => one(wire, recorder, write, &mut report).await,
            Step::All(writes) => batch(wire, recorder, writes, &mut report).await,
            Step::SlowStart(writes) => slow_start(wire, recorder, writes, &mut report).await,
        }
        if report.error.is_some() || report.retry_in.is_some() || report.stopped {
            break;
        }
    }
    if let Some(status) = &plan.status {
        one(wire, recorder, status, &mut report).await;
    }
    if report.error.is_none() && !report.stopped {
        for note in &plan.events {
            recorder.event(&note.on, note.event_type, note.reason, &note.message);
        }
    }
    report
}

async fn one(wire: Wire<'_>, recorder: &EventRecorder, write: &Write, report: &mut Report) {
    batch(wire, recorder, std::slice::from_ref(write), report).await;
}

async fn batch(wire: Wire<'_>, recorder: &EventRecorder, writes: &[Write], report: &mut Report) {
    // Boxed, so that their type does not hold the borrow that a closure's would.
    let sends: Vec<BoxFuture<'_, _>> = writes.iter().map(|write| sent(wire, write)).collect();
    let mut results = futures::stream::iter(sends).buffer_unordered(CONCURRENCY);
    while let Some((write, result)) = results.next().await {
        settled(recorder, write, result, report);
    }
}

async fn slow_start(wire: Wire<'_>, recorder: &EventRecorder, writes: &[Write], report: &mut Report) {
    let sends = writes.iter().map(|write| sent(wire, write)).collect();
    widening(sends, |(write, result)| {
        let well = matches!(result, Ok((_, Outcome::Written(_) | Outcome::Deleted | Outcome::Moot)));
        settled(recorder, write, result, report);
        well
    })
    .await;
}

/// One at first, and with every one that `settle` finds to have gone well one more at the same time; none after one that did not.
async fn widening<R>(sends: Vec<BoxFuture<'_, R>>, mut settle: impl FnMut(R) -> bool) {
    let (mut window, mut refused) = (1, false);
    let (mut sends, mut under_way) = (sends.into_iter(), FuturesUnordered::new());
    loop {
        let free = if refused { 0 } else { window - under_way.len() };
        under_way.extend(sends.by_ref().take(free));
        let Some(result) = under_way.next().await else { return };
        if settle(result) {
            window = CONCURRENCY.min(window + 1);
        } else {
            refused = true;
        }
    }
}

fn settled(recorder: &EventRecorder, write: &Write, result: Result<(String, Outcome), ApiError>, report: &mut Report) {
    let result = result.map(|(name, outcome)| {
        if let (Some(announce), false) = (&write.announce, matches!(outcome, Outcome::Moot | Outcome::Unsent)) {
            say(recorder, announce, &name);
        }
        outcome
    });
    take_in(recorder, write, result, report);
}

fn take_in(recorder: &EventRecorder, write: &Write, result: Result<Outcome, ApiError>, report: &mut Report) {
    match result {
        Ok(Outcome::Written(revision)) => report.written.push((write.kind, revision)),
        Ok(Outcome::Deleted) => {
            if let (Verb::Delete(options), true) = (&write.verb, *write.kind == kinds::POD)
                && let Some(uid) = &options.uid
            {
                report.deleted.push((Uid::from(uid.as_str()), write.namespace.clone(), write.name.clone()));
            }
        }
        Ok(Outcome::Moot) => {}
        Ok(Outcome::Unsent) => report.stopped = true,
        Err(error) => {
            let already_exists = error.is_already_exists();
            let failure = Failure {
                kind: write.kind.plural,
                name: write.name.clone(),
                already_exists,
                message: error.to_string(),
            };
            if already_exists {
                report.retry_in = Some(Duration::from_millis(20));
            } else {
                if let Some((reason, text)) = write.announce.as_ref().and_then(|a| a.failed.as_ref())
                    && let Some(announce) = &write.announce
                {
                    let text = text.replace("{name}", &write.name).replace("{error}", &error.chain());
                    recorder.event(&announce.on, EventType::Warning, reason, &text);
                }
                report.error = Some(error);
            }
            // A conflict is how two writers meet, not a failure to tell the user of.
            if report.failure.is_none() && !report.error.as_ref().is_some_and(ApiError::is_conflict) {
                report.failure = Some(failure);
            }
        }
    }
}

fn say(recorder: &EventRecorder, announce: &Announce, name: &str) {
    if let Some((reason, text)) = &announce.done {
        recorder.event(&announce.on, EventType::Normal, reason, &text.replace("{name}", name));
    }
}

type Sent<'a> = (&'a Write, Result<(String, Outcome), ApiError>);

fn sent<'a>(wire: Wire<'a>, write: &'a Write) -> BoxFuture<'a, Sent<'a>> {
    Box::pin(async move {
        if wire.stop.is_cancelled() {
            return (write, Ok((String::new(), Outcome::Unsent)));
        }
        (write, send(wire.client, write).await)
    })
}

async fn send(client: &Client, write: &Write) -> Result<(String, Outcome), ApiError> {
    let Write { kind, namespace, name, .. } = write;
    let result = match &write.verb {
        Verb::Create(body) => client.create::<Header>(kind, namespace, body).await,
        Verb::Patch { subresource, patch } => {
            client.patch::<Header>(kind, namespace, name, patch.clone(), *subresource).await
        }
        Verb::Replace { subresource, body } => {
            client.put::<Header>(&format!("{}/{subresource}", kind.path(namespace, name)), body).await
        }
        Verb::Delete(options) => {
            let result = client.delete(kind, namespace, name, options).await;
            return match result {
                Ok(()) => Ok((name.clone(), Outcome::Deleted)),
                // Gone already, or replaced by another of its name: this one is deleted.
                Err(error) if error.is_not_found() || error.is_conflict() => Ok((name.clone(), Outcome::Moot)),
                Err(error) => Err(error),
            };
        }
    };
    match result {
        Ok(header) => Ok((header.metadata.name.clone(), Outcome::Written(header.metadata.revision()))),
        Err(error) if error.is_not_found() && !matches!(write.verb, Verb::Create(_)) => {
            Ok((name.clone(), Outcome::Moot))
        }
        Err(error) if is_terminating(&error) => Ok((name.clone(), Outcome::Moot)),
        Err(error) => Err(error),
    }
}

/// The namespace is being deleted and takes nothing new.
fn is_terminating(error: &ApiError) -> bool {
    let Some(status) = error.status().filter(|_| error.is_forbidden()) else { return false };
    status.causes().iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;

    type Request = BoxFuture<'static, bool>;
    type Log = Arc<Mutex<Vec<usize>>>;

    /// Requests that show when they are sent and end when they are told how.
    fn requests(count: usize) -> (Vec<Request>, Log, Vec<oneshot::Sender<bool>>) {
        let sent = Log::default();
        let (mut futures, mut ends) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (end, ended) = oneshot::channel();
            ends.push(end);
            let sent = sent.clone();
            let request = async move {
                sent.lock().push(number);
                ended.await.unwrap()
            };
            futures.push(Box::pin(request) as Request);
        }
        (futures, sent, ends)
    }

    #[test]
    fn each_success_lets_one_more_run_and_a_refusal_ends_it() {
        const REFUSED: usize = 150;
        let (futures, sent, ends) = requests(300);
        let mut all = Box::pin(widening(futures, |well| well));
        for (number, end) in ends.into_iter().enumerate() {
            let over = all.as_mut().now_or_never().is_some();
            let sent = sent.lock().len();
            match number {
                0..=REFUSED => assert_eq!(sent - number, CONCURRENCY.min(number + 1)),
                _ => assert_eq!(sent, REFUSED + CONCURRENCY, "those under way end, no other is sent"),
            }
            if over {
                return assert_eq!(number, sent);
            }
            end.send(number != REFUSED).unwrap();
        }
        panic!("all were sent");
    }

    /// A server that tells the loop to stop when its first pod comes, and counts what it is asked for beside events.
    fn server(stop: &CancellationToken) -> (Client, Arc<Mutex<Vec<String>>>) {
        let (stop, seen) = (stop.clone(), Arc::<Mutex<Vec<String>>>::default());
        let asked = seen.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path().to_owned();
            if !path.contains("/events") {
                stop.cancel();
                asked.lock().push(path);
            }
            let body = br#"{"metadata":{"name":"p","resourceVersion":"7"}}"#.to_vec();
            async { Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(body))) }
        });
        (Client::new(kube::Client::new(service, "default")), seen)
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_begun_after_the_loop_was_told_to_stop() {
        let pods = |count| {
            let pod = |_| Write::create(&kinds::POD, "ns", json!({"metadata": {"generateName": "p-"}}));
            (0..count).map(pod).collect::<Vec<_>>()
        };
        let status = Write::status(&kinds::JOB, "ns", "j", json!({"status": {"active": 1}}));
        let check = |steps: Vec<Step>, at_most: usize| {
            let plan = Plan { steps, status: Some(status.clone()), ..Plan::default() };
            async move {
                let stop = CancellationToken::new();
                let (client, seen) = server(&stop);
                let recorder = EventRecorder::new(client.clone(), "test", "");
                let report = execute(&client, &recorder, &plan, &stop).await;
                let asked = seen.lock().clone();
                assert!(report.stopped && asked.len() <= at_most, "{} requests", asked.len());
                assert!(asked.iter().all(|path| path.ends_with("/pods")), "no status after the end");
                assert_eq!(report.written.len(), asked.len(), "what was under way is known");
                // The same plan at a loop that stands already.
                assert!(execute(&client, &recorder, &plan, &stop).await.stopped);
                assert_eq!(seen.lock().len(), asked.len());
            }
        };
        check(vec![Step::SlowStart(pods(1000))], 1).await;
        check(vec![Step::All(pods(1000))], CONCURRENCY).await;
        check(pods(5).into_iter().map(Step::One).collect(), 1).await;
    }
}
