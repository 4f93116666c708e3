//! Lists of all pods at once: what a byte of them costs, in each form, and what many of them at once do to the memory.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use crate::apibench::bodies::PODS;
use crate::apibench::servers::{ADDRESS, Api};
use crate::apibench::wire::{Call, JSON, Link};
use crate::apibench::{Identity, Lab, tls_cost};
use crate::readings;
use crate::storebench::figures::Goal;
use crate::storebench::load::{runtime, share};
use futures::future::try_join_all;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Pages as kubectl asks for them.
const PAGE: u64 = 500;
const SAMPLE: Duration = Duration::from_millis(50);

pub fn run(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let pods = lab.sizes.listed_pods;
    let tls = tls_cost::seconds_per_gb(lab)?;
    ledger.free("TLS alone", "CPU-seconds per GB", tls);
    for (form, accept, goal) in
        [("JSON", JSON, Goal::AtLeast(1.0)), ("protobuf", PROTOBUF, Goal::Free), ("Table", TABLE, Goal::Free)]
    {
        let what = format!("list of {pods} pods, unpaged, {form}");
        for round in 0..lab.sizes.lists {
            let (before, began) = (api.cpu()?, Instant::now());
            readings::reset_peak(api.pid())?;
            let steady = readings::resident_mb(api.pid())?;
            let bytes = length(lab, &lab.admin()?, &Call::get(PODS).accepting(accept))?;
            let seconds = began.elapsed().as_secs_f64();
            let cpu = api.cpu()?.since(before);
            let gb = bytes as f64 / 1e9;
            ledger.add(format!("{what}: TLS aside"), "GB per CPU-second", goal, gb / (cpu.api - tls * gb).max(0.001));
            ledger.free(format!("{what}: with TLS"), "GB per CPU-second", gb / cpu.api.max(0.001));
            ledger.free(format!("{what}: CPU of the API server"), "µs a pod", cpu.api * 1e6 / pods as f64);
            ledger.free(format!("{what}: CPU of the generator"), "µs a pod", cpu.generator * 1e6 / pods as f64);
            ledger.free(format!("{what}: takes"), "s", seconds);
            ledger.free(format!("{what}: size"), "MB", bytes as f64 / 1e6);
            ledger.free(format!("{what}: memory beside the steady"), "MB", readings::peak_mb(api.pid())? - steady);
            if form != "JSON" && round >= 1 {
                break;
            }
        }
    }
    paged(lab, api, ledger)?;
    together(lab, api, ledger)
}

fn length(lab: &Lab, who: &Identity, call: &Call) -> anyhow::Result<u64> {
    lab.store.block_on(async { Link::connect(ADDRESS, who).await?.length(call).await })
}

/// The same list in pages.
fn paged(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let admin = lab.admin()?;
    let before = api.cpu()?;
    let bytes = lab.store.block_on(async {
        let link = Link::connect(ADDRESS, &admin).await?;
        let (mut token, mut bytes) = (String::new(), 0);
        loop {
            let from = if token.is_empty() { token } else { format!("&continue={token}") };
            let page = link.must(&Call::get(format!("{PODS}?limit={PAGE}{from}"))).await?;
            bytes += page.len();
            token = next(&page);
            if token.is_empty() {
                return anyhow::Ok(bytes);
            }
        }
    })?;
    let cpu = api.cpu()?.since(before);
    let each = |seconds: f64| seconds * 1e6 / lab.sizes.listed_pods as f64;
    let what = format!("list of {} pods in pages of {PAGE}, JSON", lab.sizes.listed_pods);
    ledger.free(format!("{what}: CPU of the API server"), "µs a pod", each(cpu.api));
    ledger.free(format!("{what}: CPU of the stores"), "µs a pod", each(cpu.stores));
    ledger.free(format!("{what}: with TLS"), "GB per CPU-second", bytes as f64 / 1e9 / cpu.api.max(0.001));
    Ok(())
}

/// A page's token, which stands before its items.
fn next(page: &[u8]) -> String {
    const FIELD: &str = "\"continue\":\"";
    let head = String::from_utf8_lossy(&page[..page.len().min(2_000)]);
    let found = head.split_once(FIELD).and_then(|(_, rest)| rest.split_once('"'));
    found.map(|(token, _)| token.to_owned()).unwrap_or_default()
}

/// Many at once, each on a connection of its own.
fn together(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let clients = lab.sizes.listing_clients;
    let (pid, admin) = (api.pid(), lab.admin()?);
    readings::reset_peak(pid)?;
    let (resident, steady) = (readings::resident_mb(pid)?, readings::pss_mb(pid)?);
    let over = AtomicBool::new(false);
    let (before, began) = (api.cpu()?, Instant::now());
    let (bytes, peak) = std::thread::scope(|scope| {
        let sampled = scope.spawn(|| sampled(pid, &over));
        let admin = &admin;
        let readers = [0, 1].map(|reader| scope.spawn(move || lists_at_once(admin, share(clients, reader, 2))));
        let lengths = readers.map(|reader| reader.join().expect("a generator thread does not panic"));
        over.store(true, Ordering::Relaxed);
        let peak = sampled.join().expect("the sampler does not panic");
        anyhow::Ok((lengths.into_iter().sum::<anyhow::Result<u64>>()?, peak?))
    })?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), api.cpu()?.since(before));
    let what = format!("{clients} clients listing {:.0} MB each at once", bytes as f64 / 1e6 / clients as f64);
    let ratio = readings::peak_mb(pid)? / resident;
    ledger.add(format!("{what}: peak resident memory to steady"), "", Goal::AtMost(1.2), ratio);
    ledger.free(format!("{what}: PSS before"), "MB", steady);
    ledger.free(format!("{what}: highest PSS seen"), "MB", peak);
    ledger.free(format!("{what}: with TLS"), "GB per CPU-second", bytes as f64 / 1e9 / cpu.api.max(0.001));
    ledger.free(format!("{what}: takes"), "s", seconds);
    Ok(())
}

/// Their bytes.
fn lists_at_once(who: &Identity, clients: usize) -> anyhow::Result<u64> {
    let list = |_| async move { Link::connect(ADDRESS, who).await?.length(&Call::get(PODS)).await };
    let lengths = runtime()?.block_on(try_join_all((0..clients).map(list)))?;
    Ok(lengths.into_iter().sum())
}

/// The highest that was seen until it is over.
fn sampled(pid: u32, over: &AtomicBool) -> anyhow::Result<f64> {
    let mut peak = 0.0_f64;
    while !over.load(Ordering::Relaxed) {
        peak = peak.max(readings::pss_mb(pid)?);
        std::thread::sleep(SAMPLE);
    }
    Ok(peak)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_token_of_a_page() {
        let page = br#"{"kind":"PodList","metadata":{"continue":"abc","resourceVersion":"7"},"items":["#;
        assert_eq!(super::next(page), "abc");
        assert_eq!(super::next(br#"{"metadata":{},"items":[]}"#), "");
    }
}
