//! The edge to threads: work that waits for the disk or takes long, away from the tasks that must not wait. It decides
//! nothing about the work.

/// Runs `work` to its end, also if nobody waits for it any more.
pub async fn offload<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    // A simulation has one thread, or its order of events would be the machine's.
    #[cfg(test)]
    if crate::sim::running() {
        tokio::task::yield_now().await;
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}
