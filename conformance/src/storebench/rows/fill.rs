//! Fills a store with keys in large transactions, and brings it to rest: history compacted, space given back, memory steady.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use crate::storebench::Lab;
use crate::storebench::load::{key, links, put_op, value};
use crate::storebench::servers::Servers;
use crate::storebench::wire::{Link, pb};
use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use std::time::{Duration, Instant};

/// etcd's own limit.
const OPERATIONS: usize = 128;
const IN_FLIGHT: usize = 8;
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes of a key.
pub const KEY_BYTES: f64 = 14.0;

/// Writes the keys of these numbers.
pub fn fill(lab: &Lab, servers: &Servers, numbers: Range<u64>, bytes: usize) -> anyhow::Result<()> {
    let target = servers.target("state");
    let start = Instant::now();
    let total = numbers.end - numbers.start;
    lab.block_on(async {
        let links = links(&target, 0, 1).await?;
        let links = &links;
        let writes = numbers.clone().step_by(OPERATIONS).map(|first| async move {
            let last = (first + OPERATIONS as u64).min(numbers.end);
            let link = &links[(first / OPERATIONS as u64) as usize % links.len()];
            write(link, first..last, bytes).await?;
            anyhow::Ok(last - first)
        });
        let mut writes = stream::iter(writes).buffer_unordered(IN_FLIGHT);
        let (mut done, mut said) = (0, 0);
        while let Some(more) = writes.try_next().await? {
            done += more;
            if done * 5 / total > said {
                said = done * 5 / total;
                eprintln!("      {done} of {total} keys after {:.1} s", start.elapsed().as_secs_f64());
            }
        }
        Ok(())
    })
}

/// Writing the same again is harmless, so that a peer that is too busy is asked again.
async fn write(link: &Link, numbers: Range<u64>, bytes: usize) -> anyhow::Result<()> {
    let seed = |number: u64| number.wrapping_mul(6_364_136_223_846_793_005);
    let success: Vec<_> = numbers.map(|number| put_op(key(number), value(seed(number), bytes))).collect();
    let mut tries = 0;
    loop {
        let txn = pb::TxnRequest { success: success.clone(), ..Default::default() };
        match link.kv().txn(txn).await {
            Ok(_) => return Ok(()),
            Err(status) if tries == TRIES => return Err(status).context("filling the store"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        tries += 1;
    }
}

/// Compacts everything that is superseded and gives free space back. What has nothing to do answers at once.
pub fn compact(lab: &Lab, servers: &Servers) -> anyhow::Result<()> {
    let target = servers.target("state");
    lab.block_on(async {
        let mut kv = target.connect(0).await?.kv();
        let range = pb::RangeRequest { key: key(0), ..Default::default() };
        let revision = kv.range(range).await?.into_inner().header.context("a header")?.revision;
        kv.compact(pb::CompactionRequest { revision, physical: true }).await.context("compacting")?;
        for place in 0..target.addresses.len() {
            let mut maintenance = target.connect(place).await?.maintenance();
            maintenance.defragment(pb::DefragmentRequest {}).await.context("defragmenting")?;
        }
        Ok(())
    })
}

/// Waits until memory is steady: four readings, two seconds apart, within one per cent; after a minute it is taken as it is.
pub fn settle(servers: &Servers) -> anyhow::Result<Vec<f64>> {
    const EVERY: Duration = Duration::from_secs(2);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut sums: Vec<f64> = Vec::new();
    loop {
        let each = servers.resident_mb()?;
        sums.push(each.iter().sum());
        if steady(&sums) || Instant::now() >= deadline {
            return Ok(each);
        }
        std::thread::sleep(EVERY);
    }
}

fn steady(sums: &[f64]) -> bool {
    let Some(last) = sums.len().checked_sub(4).map(|from| &sums[from..]) else { return false };
    let (least, most) = last.iter().fold((f64::MAX, 0.0_f64), |(least, most), sum| (least.min(*sum), most.max(*sum)));
    most - least <= most * 0.01
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[test]
    fn memory_is_steady_after_four_readings_alike() {
        assert!(!steady(&[100.0, 100.0, 100.0]));
        assert!(steady(&[100.0, 100.5, 100.0, 99.6]));
        assert!(!steady(&[100.0, 102.0, 100.0, 100.0]));
        assert!(steady(&[500.0, 100.0, 100.0, 100.0, 100.0]));
    }
}
