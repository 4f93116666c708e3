//! A scheduler that starts beside a large cluster's machines and pods: how long until it binds a new pod, and what it holds then.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::MACHINES;
use crate::apibench::bodies::Template;
use crate::schedbench::shapes::{self, BEFORE, Machine};
use crate::schedbench::site::{self, Batch, Site};
use crate::schedbench::{Lab, Ledger};
use crate::storebench::figures::Goal;
use anyhow::Context;
use std::time::Instant;

const PODS: u64 = 300_000;
const TIMES: u64 = 3;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let (machines, pods) = (lab.scaled(MACHINES), lab.scaled(PODS));
    let mut site = Site::start(lab)?;
    let namespaces = [BEFORE.to_owned()];
    site.namespaces(&namespaces)?;
    site.machines(Machine::Plain, 0, machines, &["zone-1", "zone-2", "zone-3"])?;
    let placed = Template::new(&shapes::placed());
    let mark = |turn: u64| site::number(turn % machines);
    site.pods(&Batch { group: "placed", count: pods, body: &placed, namespaces: &namespaces, mark: &mark })?;
    site.look()?;
    let body = Template::new(&shapes::classed(None));
    let what = format!("scheduler beside {machines} machines and {pods} pods");
    for time in 0..TIMES {
        let group = format!("new{time}");
        site.pods(&Batch { group: &group, count: 1, body: &body, namespaces: &namespaces, mark: &site::number })?;
        let began = Instant::now();
        site.start_scheduler()?;
        site.wait_bound(&group, 1)?;
        let bound = site.group(&group).last().context("the new pod was not seen bound")?;
        let took = bound.duration_since(began).as_secs_f64();
        let goal = super::at_size(lab, Goal::AtMost(5.0));
        ledger.add(format!("{what}: from its start to the first bind"), "s", goal, took);
        ledger.free(format!("{what}: its resident memory then"), "MB", site.scheduler_mb()?);
        if let Some(scheduler) = &site.scheduler {
            ledger.free(format!("{what}: CPU until then"), "s", scheduler.cpu_s()?);
        }
        site.stop_scheduler()?;
    }
    Ok(())
}
