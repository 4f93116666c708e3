//! `gantry up --detach`: starts the same command in the background and shows its progress until the machine is Ready.

use super::phase::Phase;
use super::ready;
use crate::datadir::DataDir;
use crate::detached;
use crate::problem::Problem;
use crate::say::say;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

const POLL: Duration = Duration::from_millis(25);

/// The flags of this process, without those that are for the front only.
fn background_arguments(own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut skip_next = false;
    let kept = own.skip(1).filter(|argument| {
        let text = argument.to_string_lossy();
        let skip = std::mem::take(&mut skip_next);
        skip_next = text == "--wait-s";
        !(skip || skip_next || ["--detach", "--restart"].contains(&&*text) || text.starts_with("--wait-s="))
    });
    // Nobody waits beside a process in the background, so the guard does.
    kept.chain(["--restart".into()]).collect()
}

/// Returns when the machine is Ready. A `gantry up` that already runs on this data directory is only waited for.
pub async fn run(data: &DataDir, wait: Duration) -> anyhow::Result<()> {
    let log = data.log_file("gantry");
    let log_start = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
    let mut child = match data.holder("gantry") {
        Some(_) => None,
        None => {
            data.create()?;
            let own = std::env::current_exe().context("finding this program")?;
            let arguments = background_arguments(std::env::args_os());
            // The child writes its pid file itself, together with its lock.
            Some(detached::spawn(&own, &arguments, &log, None)?)
        }
    };
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid"));
    bar.enable_steady_tick(Duration::from_millis(100));
    let deadline = Instant::now() + wait;
    let mut shown = None;
    loop {
        let phase = Phase::read(data);
        if phase != shown
            && let Some(phase) = phase
        {
            bar.set_message(phase.to_string());
            if bar.is_hidden() {
                say!("gantry: {phase}");
            }
        }
        shown = phase;
        if phase == Some(Phase::Ready) {
            bar.finish_and_clear();
            for line in text_since(&log, log_start).lines().filter(|line| line.contains(ready::TAKES_NO_PODS)) {
                say!("{line}");
            }
            return Ok(());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "not Ready after {} s (still {}); it goes on in the background, see {}{}",
            wait.as_secs(),
            shown.map_or_else(|| "starting".to_owned(), |phase| phase.to_string()),
            log.display(),
            last_error(&text_since(&log, log_start))
                .map(|said| format!("\nthe last error there: {said}"))
                .unwrap_or_default(),
        );
        let ended = async {
            match &mut child {
                Some(child) => child.ended().await,
                None => std::future::pending().await,
            }
        };
        if tokio::time::timeout(POLL, ended).await.is_ok() {
            bar.finish_and_clear();
            return Err(Problem::new(last_words(&log, log_start)).into());
        }
    }
}

fn text_since(log: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = vec![];
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The newest error in the log, without its time.
fn last_error(text: &str) -> Option<&str> {
    text.lines().rev().find_map(|line| line.split_once(" ERROR ")).map(|(_, said)| said.trim())
}

/// What the background process said last: its error line, without the program's name.
fn last_words(log: &Path, from: u64) -> String {
    let text = text_since(log, from);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it ended without a word");
    format!("{} (log: {})", last.trim_start_matches("gantry: "), log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_gets_the_same_flags() {
        let own = ["gantry", "up", "--detach", "--data-dir", "/d", "--wait-s", "9", "--wait-s=7", "--api-port=1"];
        let got = background_arguments(own.iter().map(OsString::from));
        assert_eq!(got, ["up", "--data-dir", "/d", "--api-port=1", "--restart"]);
    }

    #[test]
    fn the_newest_error_is_shown() {
        let log = "2026-11-30T02:00:00.1Z ERROR gantry_kubelet::feed: this machine belongs to another cluster\n\
            2026-11-30T02:00:01.1Z  INFO gantry: waiting\n";
        assert_eq!(last_error(log), Some("gantry_kubelet::feed: this machine belongs to another cluster"));
        assert_eq!(last_error("gantry: opening the store\n"), None);
    }

    #[test]
    fn last_words_are_the_last_line() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scratch.path(), "old\ngantry: making keys\ngantry: port 1 is in use\n").unwrap();
        assert!(last_words(scratch.path(), 4).starts_with("port 1 is in use (log: "));
        assert!(last_words(scratch.path(), 99).starts_with("it ended without a word"));
    }
}
