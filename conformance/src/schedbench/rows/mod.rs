//! The kinds of rows, one file each.

pub mod burst;
pub mod pipeline;
pub mod start;
pub mod suite;

use super::Lab;
use super::paced::Paced;
use super::seen::Group;
use super::shapes;
use super::site::{self, Site, pod_name};
use crate::apibench::Identity;
use crate::apibench::bodies::Template;
use crate::apibench::wire::Call;
use crate::storebench::figures::Goal;
use crate::storebench::latency::Latencies;
use std::time::{Duration, Instant};

/// Of a large cluster.
const MACHINES: u64 = 10_000;
const PRODUCTION: &str = "production";
/// Twenty a second.
const ARRIVAL: Duration = Duration::from_millis(50);
/// At the size that the goals are for.
fn at_size(lab: &Lab, goal: Goal) -> Goal {
    if lab.scale < 1.0 { Goal::Free } else { goal }
}

/// Pods a second between the first that was seen bound and the last.
fn sustained(group: &Group) -> Option<f64> {
    let seconds = group.last()?.duration_since(group.first()?).as_secs_f64();
    (seconds > 0.0).then(|| (group.pods.len() - 1) as f64 / seconds)
}

/// Production that comes all the time, each pod by a request of its own from somebody who is authorised like anybody.
fn production(person: Identity) -> Paced {
    let body = Template::new(&shapes::classed(Some(PRODUCTION)));
    let path = format!("/api/v1/namespaces/{PRODUCTION}/pods");
    Paced::start(person, ARRIVAL, move |turn| {
        vec![Call::post(path.clone(), body.fill(&pod_name(PRODUCTION, turn), ""))]
    })
}

/// Ends it, and waits for its last pod.
fn production_waits(site: &mut Site, paced: Paced) -> anyhow::Result<Latencies> {
    let due: Vec<Instant> = paced.stop()?;
    site.wait_bound(PRODUCTION, due.len() as u64)?;
    Ok(site::waits(&site.group(PRODUCTION), PRODUCTION, &due))
}
