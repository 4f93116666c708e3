//! Creates a workload in the cluster at a pace and says how it goes. It decides when the next object's turn is and which refusals are
//! worth another try.

use crate::say::say;
use anyhow::Context;
use futures::{Stream, StreamExt, stream};
use gantry_apimachinery::kinds::{self, Kind};
use gantry_client::{ApiError, Client};
use gantry_rehearsal::workload::pods_of;
use gantry_rehearsal::{WorkloadProfile, generate};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

pub const CONNECTIONS: usize = 4;
/// An object that the server does not take now is tried this often, with growing pauses.
const TRIES: u32 = 30;
const SECOND: Duration = Duration::from_secs(1);
/// A new namespace takes pods once its account is there.
const ACCOUNT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub per_second: Option<u32>,
    pub in_flight: usize,
}

/// How one object fared.
enum Fate {
    Created { pods: u64 },
    There,
    Refused(String),
}

#[derive(Default)]
struct Tally {
    objects: u64,
    pods: u64,
    there: u64,
    refused: u64,
    why: Option<String>,
}

pub async fn all(client: &Client, profile: &WorkloadProfile, seed: u64, pods: u64, pace: Pace) -> anyhow::Result<()> {
    for namespace in &profile.namespaces {
        ensure(client, namespace).await.with_context(|| format!("the namespace {namespace}"))?;
    }
    let began = Instant::now();
    let mut said = began;
    let mut tally = Tally::default();
    let turns = turns(generate(profile, seed, pods), pace.per_second, began);
    let mut fates = std::pin::pin!(turns.map(|manifest| create(client, manifest)).buffer_unordered(pace.in_flight));
    while let Some(fate) = fates.next().await {
        tally.take(fate);
        if said.elapsed() >= SECOND {
            said = Instant::now();
            eprintln!("{}", tally.line(pods, began.elapsed()));
        }
    }
    say!("{}", tally.line(pods, began.elapsed()));
    match tally.why {
        None => Ok(()),
        Some(why) if tally.refused == 1 => anyhow::bail!("one object was refused: {why}"),
        Some(why) => anyhow::bail!("{} objects were refused, such as this one: {why}", tally.refused),
    }
}

/// Each object at its turn: the n-th comes n / rate seconds after the beginning, also when those before it were late.
fn turns(all: impl Iterator<Item = Value>, per_second: Option<u32>, began: Instant) -> impl Stream<Item = Value> {
    stream::iter(all.enumerate()).then(move |(nth, manifest)| async move {
        if let Some(rate) = per_second {
            let nth = u32::try_from(nth).unwrap_or(u32::MAX);
            tokio::time::sleep_until(began + SECOND * (nth / rate) + SECOND * (nth % rate) / rate).await;
        }
        manifest
    })
}

impl Tally {
    fn take(&mut self, fate: Fate) {
        match fate {
            Fate::Created { pods } => {
                self.objects += 1;
                self.pods += pods;
            }
            Fate::There => self.there += 1,
            Fate::Refused(why) => {
                self.refused += 1;
                self.why.get_or_insert(why);
            }
        }
    }

    fn line(&self, pods: u64, took: Duration) -> String {
        let rate = self.objects as f64 / took.as_secs_f64().max(0.001);
        let mut line = format!(
            "created {} objects with {} of {pods} pods in {:.1} s, {rate:.0} objects/s",
            self.objects,
            self.pods,
            took.as_secs_f64()
        );
        for (count, what) in [(self.there, "there already"), (self.refused, "refused")] {
            if count > 0 {
                line.push_str(&format!("; {count} {} {what}", if count == 1 { "was" } else { "were" }));
            }
        }
        line
    }
}

async fn ensure(client: &Client, namespace: &str) -> Result<(), ApiError> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    match client.create::<Value>(&kinds::NAMESPACE, "", &body).await {
        Ok(_) => {}
        Err(ApiError::AlreadyExists(_)) => return Ok(()),
        Err(error) => return Err(error),
    }
    let deadline = Instant::now() + ACCOUNT;
    while client.get::<Value>(&kinds::SERVICE_ACCOUNT, namespace, "default").await.is_err() {
        if Instant::now() >= deadline {
            tracing::warn!(namespace, "it has no default account, so pods may be refused: do the controllers run?");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn kind(manifest: &Value) -> &'static Kind {
    match manifest["kind"].as_str() {
        Some("Deployment") => &kinds::DEPLOYMENT,
        Some("Job") => &kinds::JOB,
        _ => &kinds::POD,
    }
}

async fn create(client: &Client, manifest: Value) -> Fate {
    let (kind, namespace) = (kind(&manifest), manifest["metadata"]["namespace"].as_str().unwrap_or_default());
    let (mut tries, mut unknown) = (0, false);
    loop {
        match client.create::<serde::de::IgnoredAny>(kind, namespace, &manifest).await {
            Ok(_) => return Fate::Created { pods: pods_of(&manifest) },
            // An earlier try that nobody answered for has made it.
            Err(ApiError::AlreadyExists(_)) if unknown => return Fate::Created { pods: pods_of(&manifest) },
            Err(ApiError::AlreadyExists(_)) => return Fate::There,
            Err(error) if error.is_transient() && tries < TRIES => {
                tries += 1;
                unknown |= may_be_done(&error);
                tokio::time::sleep(SECOND / 20 * tries.min(20)).await;
            }
            Err(error) => return Fate::Refused(error.chain()),
        }
    }
}

/// Whether a create that ended so may have happened all the same.
fn may_be_done(error: &ApiError) -> bool {
    !matches!(error, ApiError::TooManyRequests { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many_are_told_apart() {
        let mut tally = Tally::default();
        tally.take(Fate::Created { pods: 3 });
        tally.take(Fate::There);
        (0..2).for_each(|_| tally.take(Fate::Refused("no".to_owned())));
        let line = tally.line(4, Duration::from_secs(2));
        assert!(line.ends_with("; 1 was there already; 2 were refused"), "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_come_at_their_rate_and_catch_up() {
        let began = Instant::now();
        let all = (0..5_u32).map(|n| json!(n));
        let mut turns = std::pin::pin!(turns(all, Some(2), began));
        let mut came = vec![];
        while let Some(manifest) = turns.next().await {
            came.push((manifest, began.elapsed().as_millis()));
            if came.len() == 2 {
                tokio::time::sleep(Duration::from_millis(1_200)).await;
            }
        }
        let came: Vec<u128> = came.into_iter().map(|(_, at)| at).collect();
        assert_eq!(came, [0, 500, 1_700, 1_700, 2_000]);
    }
}
