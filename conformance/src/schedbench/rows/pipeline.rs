//! A large Job on a large hollow fleet, with everything that belongs to it: the job controller's pods at its own pace, binds,
//! reports until each is ready, Events and Leases. Meanwhile production comes.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::{MACHINES, PRODUCTION};
use crate::apibench::wire::Call;
use crate::schedbench::shapes;
use crate::schedbench::site::{Costs, Site, bytes};
use crate::schedbench::{Lab, Ledger};
use crate::storebench::figures::Goal;
use anyhow::Context;
use std::time::Instant;

const TASKS: u64 = 100_000;
const JOB: &str = "task";
/// The rate that the processors are told for.
const WANTED: f64 = 2_000.0;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let (machines, tasks) = (lab.scaled(MACHINES), lab.scaled(TASKS));
    let mut site = Site::start(lab)?;
    site.start_controllers()?;
    site.namespaces(&["burst".to_owned(), PRODUCTION.to_owned()])?;
    site.start_scheduler()?;
    site.start_hollow(machines, &[])?;
    let person = site.person(PRODUCTION)?;
    site.look()?;
    site.look_apart(PRODUCTION)?;
    let production = super::production(person);
    site.wait_bound(PRODUCTION, 1)?;
    let (before, conflicts, began) = (site.costs()?, site.conflicts()?, Instant::now());
    let job = bytes(&shapes::job(JOB, tasks));
    site.api.must(&Call::post("/apis/batch/v1/namespaces/burst/jobs", job))?;
    site.wait_bound(JOB, tasks)?;
    site.wait_ready(JOB, tasks)?;
    let costs = site.costs()?.since(&before);
    let mut waits = super::production_waits(&mut site, production)?;
    let group = site.group(JOB);
    let bound = group.last().context("no task was seen bound")?;
    let ready = group.last_ready().context("no task was seen ready")?;
    let per_s = |at: Instant| tasks as f64 / at.duration_since(began).as_secs_f64();
    let what = format!("Job of {tasks} tasks on {machines} hollow machines, full pipeline");
    ledger.add(
        format!("{what}: until all are ready"),
        "pods/s",
        super::at_size(lab, Goal::AtLeast(1_000.0)),
        per_s(ready),
    );
    ledger.free(format!("{what}: until all are bound"), "pods/s", per_s(bound));
    let goal = super::at_size(lab, Goal::AtMost(1_000.0));
    let meanwhile = "production pods created meanwhile, 20/s: created to bound, full pipeline";
    ledger.latencies(meanwhile, goal, &mut waits);
    ledger.curve(meanwhile, &mut waits);
    ledger.costs("full pipeline", &costs, tasks);
    cores(ledger, &costs, tasks);
    ledger.free("full pipeline: binds decided again", "times", site.conflicts()? - conflicts);
    ledger.free("full pipeline: watches of the measurement cut off", "times", site.cut_off(JOB) as f64);
    Ok(())
}

/// What a rate would take. The hollow machines stand for ten thousand real ones, which bring their own processors.
fn cores(ledger: &mut Ledger, costs: &Costs, tasks: u64) {
    let plane = costs.api + costs.stores + costs.scheduler + costs.controllers;
    let all = plane + costs.hollow;
    for (who, seconds) in [("the control plane", plane), ("it and the hollow machines", all)] {
        let needed = seconds / tasks as f64 * WANTED;
        ledger.free(format!("full pipeline: {who} would need for {WANTED}/s"), "cores", needed);
    }
}
