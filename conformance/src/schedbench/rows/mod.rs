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
use anyhow::Context;
use std::time::{Duration, Instant};

/// Of a large cluster.
const MACHINES: u64 = 10_000;
const PRODUCTION: &str = "production";
/// Twenty a second.
const ARRIVAL: Duration = Duration::from_millis(50);
/// Binds that one request of a scheduler may carry, which are seen at the same moment.
const BULK: usize = 256;

/// At the size that the goals are for.
fn at_size(lab: &Lab, goal: Goal) -> Goal {
    if lab.scale < 1.0 { Goal::Free } else { goal }
}

/// Pods a second after the first bulk: the time begins when its last pod was seen bound, and what was seen by then does not count.
/// Of few pods it is the first half.
fn sustained(group: &Group) -> anyhow::Result<f64> {
    let mut bound: Vec<Instant> = group.pods.values().map(|pod| pod.bound).collect();
    bound.sort_unstable();
    let rate = || {
        let begin = *bound.get(BULK.min(bound.len() / 2).checked_sub(1)?)?;
        let seconds = bound.last()?.duration_since(begin).as_secs_f64();
        let after = bound.iter().filter(|at| **at > begin).count();
        (seconds > 0.0).then(|| after as f64 / seconds)
    };
    rate().with_context(|| format!("{} pods, all bound at one moment, have no rate", bound.len()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedbench::seen::Pod;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment does")]
    fn the_first_bulk_is_where_the_time_begins_and_does_not_count() {
        let began = Instant::now();
        let check = |moments: &[(usize, u64)], expect: Option<f64>| {
            let bound = moments.iter().flat_map(|(count, ms)| (0..*count).map(|_| began + Duration::from_millis(*ms)));
            let pod = |(number, bound)| (pod_name("m", number), Pod { bound, ready: None });
            let group = Group { pods: (0..).zip(bound).map(pod).collect(), ..Group::default() };
            assert_eq!(sustained(&group).ok(), expect, "{moments:?}");
        };
        check(&[(256, 0), (256, 500), (256, 1_000)], Some(512.0));
        // A bulk that came in two parts is one all the same.
        check(&[(200, 0), (100, 500), (300, 1_000)], Some(600.0));
        check(&[(10, 0), (10, 100)], Some(100.0));
        for none in [&[][..], &[(1, 0)], &[(1_000, 7)]] {
            check(none, None);
        }
    }
}
