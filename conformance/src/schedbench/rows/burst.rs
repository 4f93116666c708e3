//! A burst of raw pods that wait already on a large hollow fleet whose reports of pods are paused: binds alone, with Leases and
//! Events going on. Meanwhile production comes.

use super::{MACHINES, PRODUCTION};
use crate::apibench::bodies::Template;
use crate::schedbench::shapes;
use crate::schedbench::site::{self, Batch, Site};
use crate::schedbench::{Lab, Ledger};
use crate::storebench::figures::Goal;

const PODS: u64 = 100_000;
const GROUP: &str = "task";

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let (machines, count) = (lab.scaled(MACHINES), lab.scaled(PODS));
    let mut site = Site::start(lab)?;
    site.start_controllers()?;
    site.namespaces(&["burst".to_owned(), PRODUCTION.to_owned()])?;
    site.start_hollow(machines, &["--pause-reports"])?;
    // They made the machines ready; what they cost is the full pipeline's affair.
    site.stop_controllers()?;
    let person = site.person(PRODUCTION)?;
    site.look()?;
    site.look_apart(PRODUCTION)?;
    let body = Template::new(&shapes::classed(Some("batch")));
    let namespaces = ["burst".to_owned()];
    site.pods(&Batch { group: GROUP, count, body: &body, namespaces: &namespaces, mark: &site::number })?;
    site.start_scheduler()?;
    site.wait_bound(GROUP, 1)?;
    let (before, conflicts) = (site.costs()?, site.conflicts()?);
    let already = site.group(GROUP).pods.len() as u64;
    let production = super::production(person);
    site.wait_bound(GROUP, count)?;
    let costs = site.costs()?.since(&before);
    let mut waits = super::production_waits(&mut site, production)?;
    let rate = super::sustained(&site.group(GROUP))?;
    let what = format!("burst of {count} raw pods on {machines} hollow machines, reports paused");
    ledger.add(format!("{what}: sustained"), "binds/s", super::at_size(lab, Goal::AtLeast(2_000.0)), rate);
    let goal = super::at_size(lab, Goal::AtMost(1_000.0));
    let meanwhile = "production pods created meanwhile, 20/s: created to bound, raw burst";
    ledger.latencies(meanwhile, goal, &mut waits);
    ledger.curve(meanwhile, &mut waits);
    ledger.costs("raw burst", &costs, (count - already).max(1));
    ledger.free("raw burst: binds decided again", "times", site.conflicts()? - conflicts);
    ledger.free("raw burst: watches of the measurement cut off", "times", site.cut_off(GROUP) as f64);
    ledger.free("raw burst: resident memory of the scheduler", "MB", site.scheduler_mb()?);
    Ok(())
}
