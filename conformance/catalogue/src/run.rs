//! Runs behaviours: each in namespaces of its own, some at a time, and cleans up after each.
//!
//! It decides the order of steps and how long they may take. What a step means stands in `exchange`.

#![expect(clippy::disallowed_methods, reason = "a black-box run observes real time")]

use crate::behaviour::{Behaviour, Body, Need};
use crate::connect::{self, Credentials, Server};
use crate::exchange::{Failure, Prepared, Traces, captures, made};
use crate::expect::Reply;
use crate::pattern::{brief, differences};
use crate::step::Step;
use crate::template::{self, Fixtures, Variables};
use crate::watching::{Next, Watch, pattern};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an event may take to arrive.
const EVENT_PATIENCE: u64 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What all behaviours of a run share.
pub struct World {
    pub server: Server,
    pub fixtures: Fixtures,
    /// In the names of everything that this run makes.
    pub run: String,
    pub has: BTreeSet<Need>,
    /// Leave everything where it is.
    pub keep: bool,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Holds,
    Broken(Failure),
    /// The cluster has not what the behaviour needs.
    Skipped(Need),
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub behaviour: Arc<Behaviour>,
    pub verdict: Verdict,
    pub took: Duration,
}

/// Runs all, `jobs` at a time; those that must be alone come last. `said` hears of each as it ends.
pub async fn run(world: &World, behaviours: Vec<Arc<Behaviour>>, jobs: usize, said: impl Fn(&Outcome)) -> Vec<Outcome> {
    let numbered = behaviours.into_iter().enumerate();
    let (alone, together): (Vec<_>, Vec<_>) = numbered.partition(|(_, behaviour)| behaviour.alone);
    let mut outcomes = Vec::new();
    for (group, at_once) in [(together, jobs.max(1)), (alone, 1)] {
        let mut running = futures::stream::iter(group)
            .map(|(number, behaviour)| one(world, number, behaviour))
            .buffer_unordered(at_once);
        while let Some(outcome) = running.next().await {
            said(&outcome);
            outcomes.push(outcome);
        }
    }
    outcomes.sort_by(|a, b| (&a.behaviour.area, &a.behaviour.id).cmp(&(&b.behaviour.area, &b.behaviour.id)));
    outcomes
}

async fn one(world: &World, number: usize, behaviour: Arc<Behaviour>) -> Outcome {
    let began = Instant::now();
    if let Some(need) = behaviour.needs.iter().find(|need| !world.has.contains(need)) {
        return Outcome { verdict: Verdict::Skipped(*need), behaviour, took: Duration::ZERO };
    }
    let id = format!("{}-{number}", world.run);
    let mut session = Session {
        world,
        namespaces: namespaces(&id, behaviour.namespaces()),
        id,
        fixtures: Fixtures::new(),
        traces: Traces::default(),
    };
    session.fixtures = template::fixtures_with(&world.fixtures, &session.built_in());
    let result = session.all(&behaviour).await;
    if !world.keep {
        session.clean().await;
    }
    let verdict = result.map_or_else(Verdict::Broken, |()| Verdict::Holds);
    Outcome { behaviour, verdict, took: began.elapsed() }
}

fn namespaces(id: &str, count: usize) -> Vec<String> {
    // The second comes after the first in a list of both.
    ["", "z"].iter().take(count).map(|suffix| format!("cat-{id}{suffix}")).collect()
}

/// One behaviour's time in the cluster.
pub struct Session<'w> {
    pub world: &'w World,
    /// Unique; begins with a letter.
    pub id: String,
    pub namespaces: Vec<String>,
    fixtures: Fixtures,
    traces: Traces,
}

type Watches = BTreeMap<String, Watch>;

impl Session<'_> {
    async fn all(&self, behaviour: &Behaviour) -> Result<(), Failure> {
        for namespace in &self.namespaces {
            self.make_namespace(namespace, behaviour.needs.contains(&Need::Controllers)).await?;
        }
        let steps = match &behaviour.body {
            Body::Special(function) => return function(self).await,
            Body::Steps(steps) => steps,
        };
        for (index, case) in behaviour.cases.iter().enumerate() {
            let mut variables = self.built_in();
            variables.insert("case".to_owned(), json!(index + 1));
            variables.extend(
                template::substitute(&json!(case), &variables)
                    .ok()
                    .and_then(|v| serde_json::from_value(v).ok())
                    .unwrap_or_else(|| case.clone()),
            );
            let mut watches = Watches::new();
            let result = self.steps(steps, &mut variables, &mut watches).await;
            let cleaned = self.steps(&behaviour.cleanup, &mut variables, &mut watches).await;
            let several = behaviour.cases.len() > 1;
            result.and(cleaned).map_err(|failure| Failure {
                what: if several { format!("case {}: {}", index + 1, failure.what) } else { failure.what },
                ..failure
            })?;
        }
        Ok(())
    }

    fn built_in(&self) -> Variables {
        let namespace = |index: usize| json!(self.namespaces.get(index).cloned().unwrap_or_default());
        BTreeMap::from([
            ("ns".to_owned(), namespace(0)),
            ("ns2".to_owned(), namespace(1)),
            ("id".to_owned(), json!(self.id)),
            ("server".to_owned(), json!(self.world.server.access.server)),
        ])
    }

    async fn make_namespace(&self, name: &str, with_account: bool) -> Result<(), Failure> {
        let labels = json!({"catalogue": self.id});
        let mut variables = Variables::new();
        let make = json!({"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": name, "labels": labels}}, "expect": 201});
        self.step(&make, &mut variables, &mut Watches::new()).await?;
        if with_account {
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            let account = json!({"do": format!("GET {path}"), "eventually": 90});
            self.step(&account, &mut variables, &mut Watches::new()).await?;
        }
        Ok(())
    }

    async fn steps(&self, steps: &[Value], variables: &mut Variables, watches: &mut Watches) -> Result<(), Failure> {
        for step in steps {
            self.step(step, variables, watches).await?;
        }
        Ok(())
    }

    /// Runs one step as it is written; `special` functions use this, too.
    pub async fn say(&self, step: Value) -> Result<Reply, Failure> {
        let step = self.read(&step, &self.built_in())?;
        self.ask(&step).await.map(|(reply, _)| reply)
    }

    fn read(&self, raw: &Value, variables: &Variables) -> Result<Step, Failure> {
        let told = |error: String| Failure::of_step(raw.to_string(), format!("the catalogue: {error}"));
        let mut value = template::substitute(raw, variables).map_err(told)?;
        if let Some(make) = value["make"].as_str().map(str::to_owned) {
            value = made(&value, &make).map_err(told)?;
        }
        let value = template::expand(&value, &self.fixtures).map_err(told)?;
        Step::read(&value).map_err(told)
    }

    async fn step(&self, raw: &Value, variables: &mut Variables, watches: &mut Watches) -> Result<(), Failure> {
        if raw.get("times").is_some() {
            return self.repeated(raw, variables).await;
        }
        if let Some(steps) = raw["attempt"].as_array() {
            let seconds = raw["eventually"].as_u64().unwrap_or(EVENT_PATIENCE);
            return Box::pin(self.attempt(steps, Duration::from_secs(seconds), variables, watches)).await;
        }
        let step = match raw.get("together") {
            Some(_) => Step { together: raw["together"].as_array().cloned(), ..Step::default() },
            None => self.read(raw, variables)?,
        };
        if let Some(inner) = &step.together {
            let known = &*variables;
            let all = join_all(inner.iter().map(|raw| async move { self.ask(&self.read(raw, known)?).await })).await;
            for taken in all {
                variables.extend(taken?.1);
            }
        } else if let Some(set) = step.set {
            variables.extend(set);
        } else if let Some(value) = &step.check {
            let unmet = differences(step.is.as_ref().unwrap_or(&Value::Null), Some(value));
            if !unmet.is_empty() {
                return Err(Failure { what: format!("check {}", raw["check"]), unmet, got: brief(value) });
            }
        } else if let Some(name) = &step.close {
            watches.remove(name);
        } else if let Some(name) = step.events.as_ref().or(step.ended.as_ref()) {
            let told = |error: &str| Failure::of_step(raw.to_string(), error);
            let watch = watches.get_mut(name).ok_or_else(|| told("the catalogue: no such watch is open"))?;
            variables.extend(follow(watch, &step, raw).await?);
        } else if let Some(name) = &step.watch {
            let watch = self.open(&step).await?;
            watches.insert(name.clone(), watch);
        } else {
            variables.extend(self.ask(&step).await?.1);
        }
        Ok(())
    }

    async fn attempt(
        &self,
        steps: &[Value],
        patience: Duration,
        variables: &mut Variables,
        watches: &mut Watches,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        loop {
            match self.steps(steps, variables, watches).await {
                Err(_) if Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
                result => return result,
            }
        }
    }

    async fn open(&self, step: &Step) -> Result<Watch, Failure> {
        let prepared = self.prepare(step)?;
        let answer = prepared.open(&self.world.server).await?;
        let head = connect::head(&answer);
        if !(200..300).contains(&head.status) {
            let reply = connect::read(answer)
                .await
                .map_err(|error| Failure::of_step(prepared.describe(), format!("{error:#}")))?;
            prepared.judge(&reply)?;
            return Err(Failure::of_step(prepared.describe(), "the watch did not open"));
        }
        prepared.judge(&head)?;
        Ok(Watch::new(answer.into_body()))
    }

    fn prepare(&self, step: &Step) -> Result<Prepared, Failure> {
        let namespace = self.namespaces.first().map_or("default", String::as_str);
        Prepared::new(step, namespace, &self.fixtures)
            .map_err(|error| Failure::of_step(format!("{:?}", step.request), format!("the catalogue: {error}")))
    }

    /// Asks until the answer is as expected, once if the step does not say otherwise.
    async fn ask(&self, step: &Step) -> Result<(Reply, Variables), Failure> {
        let prepared = self.prepare(step)?;
        let deadline = Instant::now() + Duration::from_secs(step.eventually.unwrap_or(0));
        loop {
            let reply = prepared.send(&self.world.server, &self.namespaces, &self.traces).await?;
            let judged = prepared.judge(&reply).and_then(|()| {
                captures(step, &reply).map_err(|error| Failure {
                    what: prepared.describe(),
                    unmet: vec![error],
                    got: crate::expect::describe(&reply),
                })
            });
            match judged {
                Ok(taken) => return Ok((reply, taken)),
                Err(failure) if Instant::now() >= deadline => return Err(failure),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn repeated(&self, raw: &Value, variables: &mut Variables) -> Result<(), Failure> {
        let times = raw["times"].as_u64().unwrap_or(1);
        let known = &*variables;
        let once = |i: u64| async move {
            let mut own = known.clone();
            own.insert("i".to_owned(), json!(i));
            let step = self.read(raw, &own)?;
            if step.outcomes.is_none() {
                return self.ask(&step).await;
            }
            let reply = self.prepare(&step)?.send(&self.world.server, &self.namespaces, &self.traces).await?;
            Ok((reply, Variables::new()))
        };
        let replies = if raw["parallel"] == true {
            join_all((1..=times).map(once)).await
        } else {
            futures::stream::iter(1..=times).then(once).collect::<Vec<_>>().await
        };
        let mut counts = BTreeMap::<String, u64>::new();
        let mut taken = Variables::new();
        for reply in replies {
            let (reply, captured) = reply?;
            *counts.entry(reply.status.to_string()).or_default() += 1;
            taken.extend(captured);
        }
        if let Some(expected) = raw.get("outcomes") {
            let unmet = differences(expected, Some(&json!(counts)));
            if !unmet.is_empty() {
                return Err(Failure { what: raw.to_string(), unmet, got: format!("{counts:?}") });
            }
        }
        variables.extend(taken);
        Ok(())
    }

    /// Removes what the behaviour made. What cannot be removed is not a failure: the names are unique.
    async fn clean(&self) {
        let json_body = |value: Value| Bytes::from(value.to_string());
        let server = &self.world.server;
        let send = async |method: &str, path: &str, kind: &str, body: Bytes| {
            let request = http::Request::builder().method(method).header("content-type", kind);
            drop(server.send(&Credentials::Own, request, path, body).await);
        };
        let paths = |set: &std::sync::Mutex<BTreeSet<String>>| set.lock().expect("no holder panics").clone();
        for path in paths(&self.traces.held) {
            let free = json_body(json!({"metadata": {"finalizers": null}}));
            send("PATCH", &path, "application/merge-patch+json", free).await;
        }
        let namespaces: BTreeSet<String> =
            self.namespaces.iter().map(|name| format!("/api/v1/namespaces/{name}")).collect();
        let outside = paths(&self.traces.outside);
        for path in outside.difference(&namespaces).chain(&namespaces) {
            let now = json_body(json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}));
            send("DELETE", path, "application/json", now).await;
        }
    }
}

/// Reads the events that a step expects, or the stream's end.
async fn follow(watch: &mut Watch, step: &Step, raw: &Value) -> Result<Variables, Failure> {
    let patience = Duration::from_secs(step.eventually.unwrap_or(EVENT_PATIENCE));
    let failure = |unmet: Vec<String>, got: String| Failure { what: raw.to_string(), unmet, got };
    let mut events = Vec::new();
    for expected in &step.are {
        let expected = pattern(expected);
        let event = loop {
            match watch.next(patience).await {
                // Bookmarks come whenever the server likes.
                Next::Event(event) if event["type"] == "BOOKMARK" && expected["type"] != "BOOKMARK" => {}
                Next::Event(event) if step.among && !differences(&expected, Some(&event)).is_empty() => {}
                Next::Event(event) => break event,
                other => return Err(failure(vec![format!("expected {expected}")], format!("{other:?}"))),
            }
        };
        let unmet = differences(&expected, Some(&event));
        if !unmet.is_empty() {
            return Err(failure(unmet, brief(&event)));
        }
        events.push(event);
    }
    if step.ended.is_some() {
        loop {
            match watch.next(patience).await {
                Next::End => break,
                Next::Event(event) if event["type"] == "BOOKMARK" => {}
                other => return Err(failure(vec!["the stream did not end".to_owned()], format!("{other:?}"))),
            }
        }
    }
    let reply = Reply { value: Value::from(events), ..Reply::default() };
    captures(step, &reply).map_err(|error| failure(vec![error], brief(&reply.value)))
}
