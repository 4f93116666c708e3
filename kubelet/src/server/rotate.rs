//! Rotates logs that have grown too large, and drops the oldest. Decides by size alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::logs;
use crate::agent::{Shared, now};

const LOOK: Duration = Duration::from_secs(10);

pub async fn run(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.cancel.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        for view in shared.views.all() {
            let meta = &view.pod.metadata;
            let dir = shared.config.pod_log_dir(&meta.namespace, &meta.name, meta.uid.as_str());
            for (name, id) in &view.running {
                let Some(attempt) = view.attempts.get(name) else { continue };
                let dir = dir.join(name);
                if logs::size(&dir, *attempt) <= shared.config.log_max_bytes {
                    continue;
                }
                if let Err(error) = rotate(&dir, *attempt, shared.config.log_files) {
                    tracing::warn!(container = name, %error, "a log could not be rotated");
                    continue;
                }
                if let Err(error) = shared.runtime.reopen_log(id).await {
                    tracing::warn!(container = name, %error, "the runtime did not reopen a log");
                }
            }
        }
    }
}

fn rotate(dir: &Path, attempt: u32, keep: u32) -> std::io::Result<()> {
    let stamp = now().wall.to_micro_string().replace([':', '-'], "");
    let current = dir.join(format!("{attempt}.log"));
    std::fs::rename(&current, dir.join(format!("{attempt}.log.{stamp}")))?;
    let mut old = logs::files(dir, attempt);
    old.pop();
    let kept = usize::try_from(keep).unwrap_or(1).saturating_sub(1);
    let surplus = old.len().saturating_sub(kept);
    old.iter().take(surplus).try_for_each(std::fs::remove_file)
}
