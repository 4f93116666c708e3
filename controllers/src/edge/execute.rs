//! Sends a plan and reports what became of it. Decides only what counts as success (an object that is gone is deleted);
//! never what to write.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Header, Uid};
use gantry_client::{ApiError, Client, EventRecorder, EventType};

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
}

enum Outcome {
    Written(u64),
    Deleted,
    /// The object or its namespace is gone or going: nothing is left to do.
    Moot,
}

/// Carries the plan out: the steps in order up to the first failure, then the status, then the events.
pub async fn execute(client: &Client, recorder: &EventRecorder, plan: &Plan) -> Report {
    let mut report = Report::default();
    for step in &plan.steps {
        match step {
            Step::One(write) => one(client, recorder, write, &mut report).await,
            Step::All(writes) => batch(client, recorder, writes, &mut report).await,
            Step::SlowStart(writes) => slow_start(client, recorder, writes, &mut report).await,
        }
        if report.error.is_some() || report.retry_in.is_some() {
            break;
        }
    }
    if let Some(status) = &plan.status {
        one(client, recorder, status, &mut report).await;
    }
    if report.error.is_none() {
        for note in &plan.events {
            recorder.event(&note.on, note.event_type, note.reason, &note.message);
        }
    }
    report
}

async fn one(client: &Client, recorder: &EventRecorder, write: &Write, report: &mut Report) {
    batch(client, recorder, std::slice::from_ref(write), report).await;
}

async fn batch(client: &Client, recorder: &EventRecorder, writes: &[Write], report: &mut Report) {
    // Boxed, so that their type does not hold the borrow that a closure's would.
    let sends: Vec<BoxFuture<'_, _>> = writes.iter().map(|write| sent(client, write)).collect();
    let mut results = futures::stream::iter(sends).buffer_unordered(CONCURRENCY);
    while let Some((write, result)) = results.next().await {
        settled(recorder, write, result, report);
    }
}

/// One create at first, and with every one that went well one more at the same time; none after one that did not.
async fn slow_start(client: &Client, recorder: &EventRecorder, writes: &[Write], report: &mut Report) {
    let (mut rest, mut window, mut under_way) = (writes.iter(), 1, FuturesUnordered::new());
    loop {
        let refused = report.error.is_some() || report.retry_in.is_some();
        let free = if refused { 0 } else { window - under_way.len() };
        under_way.extend(rest.by_ref().take(free).map(|write| sent(client, write)));
        let Some((write, result)) = under_way.next().await else { return };
        if result.is_ok() && window < CONCURRENCY {
            window += 1;
        }
        settled(recorder, write, result, report);
    }
}

fn settled(recorder: &EventRecorder, write: &Write, result: Result<(String, Outcome), ApiError>, report: &mut Report) {
    let result = result.map(|(name, outcome)| {
        if let (Some(announce), false) = (&write.announce, matches!(outcome, Outcome::Moot)) {
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

fn sent<'a>(client: &'a Client, write: &'a Write) -> BoxFuture<'a, Sent<'a>> {
    Box::pin(async move { (write, send(client, write).await) })
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
