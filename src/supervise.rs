//! Keeps a component running: what ends or panics is logged once and started again after a growing pause.
//!
//! It decides when to try again. It never looks at why a component failed.

use futures::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A component that ran this long starts from the first pause again.
const SETTLED: Duration = Duration::from_secs(60);

/// The pause before the next start, given the last one and how long the component ran.
fn next_pause(last: Duration, ran: Duration) -> Duration {
    if ran >= SETTLED { FIRST_PAUSE } else { (last * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE) }
}

/// Runs what `start` returns until `cancel`, again and again. Returns when the component has ended after the
/// cancellation; each run gets a token of its own, so that a run can be dropped without ending the next.
pub async fn supervise<F, Run, E>(name: &'static str, cancel: CancellationToken, mut start: F)
where
    F: FnMut(CancellationToken) -> Run,
    Run: Future<Output = Result<(), E>>,
    E: Into<anyhow::Error>,
{
    let mut pause = Duration::ZERO;
    while !cancel.is_cancelled() {
        let began = Instant::now();
        let run = cancel.child_token();
        let outcome = AssertUnwindSafe(start(run.clone())).catch_unwind().await;
        run.cancel();
        if cancel.is_cancelled() {
            return;
        }
        pause = next_pause(pause, began.elapsed());
        let again_ms = pause.as_millis() as u64;
        match outcome {
            Ok(Ok(())) => tracing::warn!(component = name, again_ms, "ended unasked; starting it again"),
            Ok(Err(error)) => {
                let error: anyhow::Error = error.into();
                tracing::error!(component = name, again_ms, "failed: {error:#}; starting it again");
            }
            Err(_) => tracing::error!(component = name, again_ms, "panicked; starting it again"),
        }
        tokio::select! {
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_start_over() {
        let brief = Duration::from_secs(1);
        let mut pause = Duration::ZERO;
        let mut seen = vec![];
        for _ in 0..10 {
            pause = next_pause(pause, brief);
            seen.push(pause.as_millis());
        }
        assert_eq!(seen, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(next_pause(pause, SETTLED), FIRST_PAUSE);
    }

    #[tokio::test]
    async fn errors_and_panics_start_it_again_until_cancelled() {
        let cancel = CancellationToken::new();
        let mut runs = 0;
        supervise("x", cancel.clone(), |_| {
            runs += 1;
            let (run, cancel) = (runs, cancel.clone());
            async move {
                match run {
                    1 => anyhow::bail!("first"),
                    2 => panic!("second"),
                    _ => cancel.cancel(),
                }
                Ok(())
            }
        })
        .await;
        assert_eq!(runs, 3);
    }
}
