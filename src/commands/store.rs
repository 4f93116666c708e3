//! `gantry store status` and `gantry store snapshot …`: how members are, and files to begin a new group with. They change
//! nothing that runs.

use crate::cli::{Output, SnapshotCommand, StoreArgs, StoreCommand, StorePkiArgs, StoreStatusArgs};
use crate::pki::Pki;
use crate::problem::Problem;
use crate::roles::stores;
use crate::say::say;
use comfy_table::{Table, presets};
use gantry_store::{BackupError, MemberStatus, Restore, SavedSnapshot};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// A member, or one of the commands around it.
pub async fn store(args: StoreArgs) -> anyhow::Result<()> {
    match (args.command, args.member) {
        (Some(StoreCommand::Status(args)), _) => status(args).await,
        (Some(StoreCommand::Snapshot(command)), _) => snapshot(command).await,
        (None, Some(member)) => stores::run(member).await,
        (None, None) => {
            Err(Problem::new("gantry store needs --data-dir, or a command: see gantry store --help").into())
        }
    }
}

fn keys(pki: StorePkiArgs) -> Option<Pki> {
    pki.pki_dir.map(Pki::at)
}

async fn status(args: StoreStatusArgs) -> anyhow::Result<()> {
    let (addresses, tls) = stores::dial(&args.endpoints, keys(args.pki).as_ref())?;
    let asked = addresses.iter().map(|address| gantry_store::member_status(address, tls.as_ref()));
    let answers: Vec<_> = addresses.iter().cloned().zip(futures::future::join_all(asked).await).collect();
    match args.output {
        Output::Table => say!("{}", table(&answers)),
        Output::Json => say!("{}", serde_json::to_string_pretty(&as_json(&answers))?),
    }
    let silent = answers.iter().filter(|(_, answer)| answer.is_err()).count();
    anyhow::ensure!(silent == 0, "{silent} of {} members did not answer", answers.len());
    Ok(())
}

type Answer = (String, Result<MemberStatus, String>);

fn table(answers: &[Answer]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "ENDPOINT",
        "MEMBER",
        "VERSION",
        "LEADER",
        "TERM",
        "INDEX",
        "APPLIED",
        "REVISION",
        "COMPACTED",
        "KEYS",
        "SIZE",
        "ERRORS",
    ]);
    for (endpoint, answer) in answers {
        table.add_row(match answer {
            Ok(member) => row(endpoint, member),
            Err(error) => {
                let nothing = std::iter::repeat_n("-".to_owned(), 10);
                [endpoint.clone()].into_iter().chain(nothing).chain([error.clone()]).collect()
            }
        });
    }
    table
}

fn row(endpoint: &str, member: &MemberStatus) -> Vec<String> {
    let leader = match member.leader {
        0 => "none".to_owned(),
        leader if leader == member.member => "itself".to_owned(),
        leader => leader.to_string(),
    };
    let learner = if member.learner { " (learner)" } else { "" };
    let quota = if member.quota_bytes == 0 { String::new() } else { format!(" of {}", bytes(member.quota_bytes)) };
    vec![
        endpoint.to_owned(),
        format!("{}{learner}", member.member),
        member.version.clone(),
        leader,
        member.term.to_string(),
        member.index.to_string(),
        member.applied.to_string(),
        member.revision.to_string(),
        member.compacted.to_string(),
        member.keys.to_string(),
        format!("{}{quota}", bytes(member.stored_bytes)),
        if member.errors.is_empty() { "-".to_owned() } else { member.errors.join("; ") },
    ]
}

fn as_json(answers: &[Answer]) -> serde_json::Value {
    let member = |(endpoint, answer): &Answer| match answer {
        Err(error) => json!({ "endpoint": endpoint, "errors": [error] }),
        Ok(m) => json!({
            "endpoint": endpoint,
            "cluster": format!("{:016x}", m.cluster),
            "member": m.member,
            "version": m.version,
            "leader": m.leader,
            "learner": m.learner,
            "term": m.term,
            "index": m.index,
            "applied": m.applied,
            "revision": m.revision,
            "compacted": m.compacted,
            "keys": m.keys,
            "storedBytes": m.stored_bytes,
            "quotaBytes": m.quota_bytes,
            "diskBytes": m.disk_bytes,
            "errors": m.errors,
        }),
    };
    answers.iter().map(member).collect()
}

/// With a unit that leaves a number a person can read.
fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(units.len() as u32);
    format!("{:.1} {}", bytes as f64 / f64::from(1u32 << 10).powi(power.cast_signed()), units[power as usize - 1])
}

async fn snapshot(command: SnapshotCommand) -> anyhow::Result<()> {
    match command {
        SnapshotCommand::Save { file, endpoint: Some(endpoint), pki, .. } => {
            let (addresses, tls) = stores::dial(&[endpoint], keys(pki).as_ref())?;
            let bar =
                ProgressBar::new(0).with_style(ProgressStyle::with_template("{bytes} of {total_bytes} {bar:30}")?);
            let progress = |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            };
            let saved = gantry_store::save(&addresses[0], tls.as_ref(), &file, progress).await;
            bar.finish_and_clear();
            say_saved(&saved.map_err(judge)?, &file)
        }
        SnapshotCommand::Save { file, data_dir, .. } => {
            let dir = data_dir.ok_or_else(|| Problem::new("--endpoint or --data-dir is needed"))?;
            let to = file.clone();
            let saved = blocking(move || gantry_store::save_stopped(&dir, &to)).await?;
            say_saved(&saved, &file)
        }
        SnapshotCommand::Status { file, output } => {
            let saved = blocking(move || gantry_store::inspect(&file)).await?;
            match output {
                Output::Table => say!("{}", saved_table(&saved)),
                Output::Json => say!("{}", serde_json::to_string_pretty(&saved_json(&saved))?),
            }
            Ok(())
        }
        SnapshotCommand::Restore { file, data_dir, group, member_id, members, bump_revision } => {
            let named = stores::parse_members(&members, member_id)?;
            let members = if named.is_empty() { BTreeMap::from([(member_id, String::new())]) } else { named };
            let dir = data_dir.clone();
            let restore = Restore { from: file, dir, group, member: member_id, members, bump: bump_revision };
            let restored = blocking(move || gantry_store::restore(&restore)).await?;
            let (keys, revision) = (restored.keys, restored.revision);
            say!("restored {keys} keys to {} at revision {revision}", data_dir.display());
            Ok(())
        }
    }
}

fn say_saved(saved: &SavedSnapshot, file: &Path) -> anyhow::Result<()> {
    let SavedSnapshot { keys, revision, .. } = saved;
    say!("saved {keys} keys at revision {revision} to {} ({})", file.display(), bytes(saved.bytes));
    Ok(())
}

async fn blocking(
    work: impl FnOnce() -> Result<SavedSnapshot, BackupError> + Send + 'static,
) -> anyhow::Result<SavedSnapshot> {
    tokio::task::spawn_blocking(work).await?.map_err(judge)
}

/// Only a member that does not answer is not the person's to put right.
fn judge(error: BackupError) -> anyhow::Error {
    let acts = !matches!(error, BackupError::Endpoint { .. });
    let error = anyhow::Error::from(error);
    if acts { Problem::new(format!("{error:#}")).into() } else { error }
}

fn saved_table(saved: &SavedSnapshot) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["GROUP", "REVISION", "HASH", "KEYS", "SIZE", "FORMAT"]);
    table.add_row([
        saved.group.clone().unwrap_or_else(|| "?".to_owned()),
        saved.revision.to_string(),
        format!("{:016x}", saved.hash),
        saved.keys.to_string(),
        bytes(saved.bytes),
        saved.format.to_string(),
    ]);
    table
}

fn saved_json(saved: &SavedSnapshot) -> serde_json::Value {
    json!({
        "group": saved.group,
        "cluster": saved.cluster.map(|cluster| format!("{cluster:016x}")),
        "revision": saved.revision.0,
        "compacted": saved.oldest.0,
        "hash": format!("{:016x}", saved.hash),
        "keys": saved.keys,
        "leases": saved.leases,
        "liveBytes": saved.live_bytes,
        "bytes": saved.bytes,
        "format": saved.format,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (8 << 30, "8.0 GiB"),
            (3 << 19, "1.5 MiB"),
            (5 << 50, "5120.0 TiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
