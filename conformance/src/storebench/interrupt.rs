//! An interrupted benchmark leaves no server running: at SIGINT or SIGTERM those that it started are killed, by pid, and the
//! data is removed. Nothing else is touched.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use tokio::signal::unix::{SignalKind, signal};

/// Children that were not waited for yet, so that each number is still theirs.
static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().expect("no holder of the lock panics")
}

pub fn started(pid: u32) {
    children().insert(pid);
}

/// To be said before it is waited for.
pub fn ending(pid: u32) {
    children().remove(&pid);
}

/// From now on a signal ends the program as its head says.
pub fn watch(folder: PathBuf) -> anyhow::Result<()> {
    let runtime = super::load::runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            // Held to the end: nothing is started any more.
            let children = children();
            for pid in children.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = std::fs::remove_dir_all(&folder);
            eprintln!("interrupted; {} servers killed", children.len());
            std::process::exit(130);
        });
    });
    Ok(())
}
