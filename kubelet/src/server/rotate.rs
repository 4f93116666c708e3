//! Rotates logs that have grown too large, and drops the oldest. Decides by size alone; what failed is tried again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::logs;
use crate::agent::{Shared, now};
use crate::runtime::Runtime;

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
                let (run, keep) = (Run { id, dir: &dir, attempt: *attempt }, shared.config.log_files);
                if let Err(error) = rotate(shared.runtime.as_ref(), run, keep).await {
                    tracing::warn!(container = name, %error, "a log could not be rotated");
                }
            }
        }
    }
}

/// A container's run and where its logs are.
#[derive(Clone, Copy)]
struct Run<'a> {
    id: &'a str,
    dir: &'a Path,
    attempt: u32,
}

async fn rotate(runtime: &dyn Runtime, run: Run<'_>, keep: u32) -> std::io::Result<()> {
    let stamp = now().wall.to_micro_string().replace([':', '-'], "");
    let current = run.dir.join(format!("{}.log", run.attempt));
    let rotated = run.dir.join(format!("{}.log.{stamp}", run.attempt));
    std::fs::rename(&current, &rotated)?;
    if let Err(e) = runtime.reopen_log(run.id).await {
        // The runtime writes to the renamed file. Under its old name its size is seen again; a new file there means that
        // the log was reopened after all.
        if !current.exists() {
            std::fs::rename(&rotated, &current)?;
        }
        return Err(std::io::Error::other(e));
    }
    drop_oldest(run, keep)
}

fn drop_oldest(run: Run<'_>, keep: u32) -> std::io::Result<()> {
    let mut old = logs::files(run.dir, run.attempt);
    old.pop();
    let kept = usize::try_from(keep).unwrap_or(1).saturating_sub(1);
    let surplus = old.len().saturating_sub(kept);
    old.iter().take(surplus).try_for_each(std::fs::remove_file)
}

#[cfg(test)]
mod tests {
    use gantry_apimachinery::clock::SystemClock;

    use super::*;
    use crate::runtime::FakeRuntime;

    #[tokio::test]
    async fn a_log_that_is_not_reopened_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(dir.path().join("3.log"), text).unwrap();
        let texts = || {
            let files = logs::files(dir.path(), 3).into_iter();
            files.map(|f| std::fs::read_to_string(f).unwrap_or_default()).collect::<Vec<_>>()
        };
        let runtime = FakeRuntime::new(Arc::new(SystemClock));
        let run = Run { id: "c1", dir: dir.path(), attempt: 3 };
        write("one");
        runtime.set_down(true);
        assert!(rotate(&runtime, run, 3).await.is_err());
        assert_eq!(texts(), ["one"]);
        runtime.set_down(false);
        rotate(&runtime, run, 3).await.unwrap();
        assert_eq!(
            (texts(), runtime.take_calls()),
            (vec!["one".to_owned(), String::new()], vec!["reopen c1".to_owned()])
        );
        for text in ["two", "three"] {
            write(text);
            rotate(&runtime, run, 3).await.unwrap();
        }
        assert_eq!(texts(), ["two", "three", ""]);
    }
}
