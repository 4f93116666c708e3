//! Waiting on a condition with a deadline; the only place of the suites that sleeps.

use std::time::{Duration, Instant};

/// Polls `probe` every 50 ms until it gives a value. After `timeout` the last reason becomes the error.
#[expect(clippy::disallowed_methods, reason = "a black-box test observes real time")]
pub fn wait_for<T>(what: &str, timeout: Duration, mut probe: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() >= timeout => {
                return Err(error.context(format!("waited {timeout:?} for: {what}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Like [`wait_for`] with a plain condition.
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) -> anyhow::Result<()> {
    wait_for(what, timeout, || if condition() { Ok(()) } else { Err(anyhow::anyhow!("not yet")) })
}
