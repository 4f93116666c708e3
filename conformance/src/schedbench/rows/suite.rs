//! The shapes of the published suite, twice each: pods created while the scheduler runs, as the suite does it, and all of them
//! waiting already when it starts, so that the speed of creating does not count.

use crate::apibench::bodies::Template;
use crate::apibench::wire::Call;
use crate::schedbench::paced::Paced;
use crate::schedbench::published::{Churn, Shape};
use crate::schedbench::shapes::{self, BEFORE, MEASURED, Machine, Pod};
use crate::schedbench::site::{self, Batch, Site, bytes, pod_name};
use crate::schedbench::{Lab, Ledger};
use crate::storebench::figures::Goal;
use anyhow::Context;
use http::Method;
use serde_json::json;
use std::time::Duration;

const GROUP: &str = "m";
const PREEMPTOR: Duration = Duration::from_millis(200);
const MIXED: Duration = Duration::from_secs(1);
/// Machines that come and go have numbers of their own.
const COMING: usize = 90_000;

pub fn run(lab: &Lab, shape: &Shape, ledger: &mut Ledger) -> anyhow::Result<()> {
    while_created(lab, shape, ledger)?;
    all_waiting(lab, shape, ledger)
}

/// With the counts that were measured.
fn title(lab: &Lab, shape: &Shape) -> String {
    let count = lab.scaled(shape.measured.0);
    let machines = lab.scaled(shape.machines.iter().map(|(count, _)| *count).max().unwrap_or(0));
    match shape.published {
        "" => format!("{}: {count} pods, {machines} machines", shape.name),
        published => format!("{}: {count} pods, {machines} machines ({published})", shape.name),
    }
}

/// Beside the published floor, which is of the whole size alone.
fn rate(lab: &Lab, ledger: &mut Ledger, shape: &Shape, how: &str, value: f64) {
    let figure = format!("{}, {how}", title(lab, shape));
    match shape.floor.filter(|_| lab.scale >= 1.0) {
        Some(floor) => ledger.beside(figure, floor, shape.goal, value),
        None => ledger.free(figure, "pods/s", value),
    }
}

fn while_created(lab: &Lab, shape: &Shape, ledger: &mut Ledger) -> anyhow::Result<()> {
    let mut site = prepared(lab, shape)?;
    let count = lab.scaled(shape.measured.0);
    let (before, conflicts) = (site.costs()?, site.conflicts()?);
    let churn = churn(&site, shape.churn);
    let sent = measured(&site, shape, count)?;
    site.wait_bound(GROUP, count)?;
    let costs = site.costs()?.since(&before);
    churn.map_or(Ok(vec![]), Paced::stop)?;
    let group = site.group(GROUP);
    let mut waits = site::waits(&group, GROUP, &sent);
    let (first, last) = sent.iter().min().zip(group.last()).context("no pod was seen bound")?;
    rate(lab, ledger, shape, "created meanwhile", count as f64 / last.duration_since(*first).as_secs_f64());
    let creating = sent.iter().max().map_or(0.0, |at| at.duration_since(*first).as_secs_f64());
    ledger.free(format!("{}: creates alone", shape.name), "pods/s", count as f64 / creating.max(1e-3));
    ledger.latencies(&format!("{}: created to bound", shape.name), Goal::Free, &mut waits);
    ledger.costs(&format!("{}, created meanwhile", shape.name), &costs, count);
    let conflicts = site.conflicts()? - conflicts;
    ledger.free(format!("{}: binds decided again", shape.name), "times", conflicts);
    cut_off(&site, ledger, shape, "created meanwhile");
    Ok(())
}

fn all_waiting(lab: &Lab, shape: &Shape, ledger: &mut Ledger) -> anyhow::Result<()> {
    let mut site = prepared(lab, shape)?;
    let count = lab.scaled(shape.measured.0);
    site.stop_scheduler()?;
    measured(&site, shape, count)?;
    site.start_scheduler()?;
    site.wait_bound(GROUP, 1)?;
    let before = site.costs()?;
    let already = site.group(GROUP).pods.len() as u64;
    let churn = churn(&site, shape.churn);
    site.wait_bound(GROUP, count)?;
    let costs = site.costs()?.since(&before);
    churn.map_or(Ok(vec![]), Paced::stop)?;
    let value = super::sustained(&site.group(GROUP))?;
    rate(lab, ledger, shape, "all waiting", value);
    ledger.costs(&format!("{}, all waiting", shape.name), &costs, (count - already).max(1));
    cut_off(&site, ledger, shape, "all waiting");
    Ok(())
}

fn cut_off(site: &Site, ledger: &mut Ledger, shape: &Shape, how: &str) {
    let figure = format!("{}, {how}: watches of the measurement cut off", shape.name);
    ledger.free(figure, "times", site.cut_off(GROUP) as f64);
}

fn namespaces(shape: &Shape) -> Vec<String> {
    match shape.namespaces {
        1 => vec![BEFORE.to_owned()],
        many => (0..many).map(|number| format!("before-{number}")).collect(),
    }
}

/// Machines, and the pods that are there before, bound by the scheduler that then runs.
fn prepared<'a>(lab: &'a Lab, shape: &Shape) -> anyhow::Result<Site<'a>> {
    let mut site = Site::start(lab)?;
    let before = namespaces(shape);
    site.namespaces(&[&before[..], &[MEASURED.to_owned()]].concat())?;
    let mut first = 0;
    for (count, kind) in shape.machines {
        let count = if *kind == Machine::Chosen { 1 } else { lab.scaled(*count) };
        site.machines(*kind, first, count, shape.zones)?;
        first += count;
    }
    site.look()?;
    site.start_scheduler()?;
    for (number, (count, kind)) in shape.before.iter().enumerate() {
        let (count, group) = (lab.scaled(*count), format!("b{number}"));
        let body = site::template(*kind);
        site.pods(&Batch { group: &group, count, body: &body, namespaces: &before, mark: &site::number })?;
        site.wait_bound(&group, count)?;
    }
    if shape.before.is_empty() {
        // It must have begun: its start is a row of its own.
        let body = site::template(Pod::Plain);
        site.pods(&Batch { group: "first", count: 1, body: &body, namespaces: &before, mark: &site::number })?;
        site.wait_bound("first", 1)?;
    }
    Ok(site)
}

fn measured(site: &Site, shape: &Shape, count: u64) -> anyhow::Result<Vec<std::time::Instant>> {
    let body = site::template(shape.measured.1);
    let namespaces = [MEASURED.to_owned()];
    site.pods(&Batch { group: GROUP, count, body: &body, namespaces: &namespaces, mark: &site::number })
}

fn churn(site: &Site, churn: Churn) -> Option<Paced> {
    let pods = format!("/api/v1/namespaces/{MEASURED}/pods");
    let admin = site.admin.clone();
    match churn {
        Churn::None => None,
        Churn::Preemptors => {
            let body = site::template(Pod::High);
            let call = move |turn| vec![Call::post(pods.clone(), body.fill(&pod_name("high", turn), ""))];
            Some(Paced::start(admin, PREEMPTOR, call))
        }
        Churn::Mixed => Some(Paced::start(admin, MIXED, mixed(pods))),
    }
}

/// What was made a second ago goes, and the same comes again.
fn mixed(pods: String) -> impl Fn(u64) -> Vec<Call> {
    const NODES: &str = "/api/v1/nodes";
    let services = format!("/api/v1/namespaces/{MEASURED}/services");
    let large = site::template(Pod::TooLarge);
    let machine = Template::new(&shapes::machine(Machine::Plain, None));
    let delete = |collection: &str, name: &str| {
        let mut call = Call::post(format!("{collection}/{name}"), bytes(&json!({"gracePeriodSeconds": 0})));
        call.method = Method::DELETE;
        call
    };
    move |turn| {
        let mut calls = Vec::new();
        let name =
            |turn: u64| (pod_name("large", turn), format!("node-{}", COMING as u64 + turn), pod_name("svc", turn));
        if let Some(old) = turn.checked_sub(1) {
            let (pod, node, service) = name(old);
            calls.extend([delete(&pods, &pod), delete(NODES, &node), delete(&services, &service)]);
        }
        let (pod, node, service) = name(turn);
        let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service},
            "spec": {"selector": {"app": "none"}, "ports": [{"port": 8080, "targetPort": 8080}]}});
        calls.push(Call::post(pods.clone(), large.fill(&pod, "")));
        calls.push(Call::post(NODES, machine.fill(&node, "")));
        calls.push(Call::post(services.clone(), bytes(&body)));
        calls
    }
}
