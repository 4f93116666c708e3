//! The three store groups: opened in this process, reached at other processes, or one member served alone.
//!
//! It decides how long each group lets writes wait for one another, and what Events live for. Which kind is kept in
//! which group is decided elsewhere, by one table.

use crate::cli::StoreArgs;
use crate::datadir::{DataDir, make_dir};
use crate::pki::{self, Pki};
use crate::problem::Problem;
use crate::roles::tls;
use crate::{preflight, stop};
use anyhow::Context;
use gantry_apiserver::Stores;
use gantry_store::{Group, GroupConfig, RemoteStore};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a group is like besides what it holds.
struct Kind {
    name: &'static str,
    /// The pause in which writes gather for one fdatasync.
    linger: Duration,
    /// How long what is not written again lives.
    ttl: Option<Duration>,
    quota_bytes: u64,
}

const GROUPS: [Kind; 3] = [
    Kind { name: "state", linger: Duration::ZERO, ttl: None, quota_bytes: 8 << 30 },
    Kind { name: "leases", linger: Duration::from_millis(10), ttl: None, quota_bytes: 2 << 30 },
    Kind {
        name: "events",
        linger: Duration::from_millis(50),
        ttl: Some(Duration::from_secs(3600)),
        quota_bytes: 4 << 30,
    },
];

/// Three single members in this process. The groups are for an orderly end.
pub async fn open(data: &DataDir) -> anyhow::Result<(Stores, Vec<Group>)> {
    let open = |index: usize| {
        let name = GROUPS[index].name;
        let config = config(name, &data.store(name));
        async move { Group::open(config?).await.with_context(|| format!("opening the store group {name}")) }
    };
    let (state, leases, events) = tokio::try_join!(open(0), open(1), open(2))?;
    let groups = vec![state.clone(), leases.clone(), events.clone()];
    Ok((Stores { state: Arc::new(state), leases: Arc::new(leases), events: Arc::new(events) }, groups))
}

fn config(name: &str, dir: &Path) -> anyhow::Result<GroupConfig> {
    let known = GROUPS.iter().find(|kind| kind.name == name);
    let kind = known.ok_or_else(|| Problem::new(format!("--group {name}: state, leases or events")))?;
    make_dir(dir, 0o700)?;
    let Kind { linger, ttl, quota_bytes, .. } = *kind;
    Ok(GroupConfig { linger, ttl, quota_bytes, ..GroupConfig::single(name, dir) })
}

/// Stores that run elsewhere, as `state=HOST:PORT,HOST:PORT,leases=…,events=…`.
pub fn remote(endpoints: &str, keys: &Pki) -> anyhow::Result<Stores> {
    let groups = parse_endpoints(endpoints)?;
    let tls =
        tls::store(&keys.certificate(pki::STORE_PEER), &keys.key(pki::STORE_PEER), &keys.certificate(pki::STORE_CA))?;
    let connect = |name: &str| -> anyhow::Result<Arc<RemoteStore>> {
        let members = groups.get(name).ok_or_else(|| Problem::new(format!("--store-endpoints names no {name}=…")))?;
        Ok(Arc::new(RemoteStore::new(members, Some(&tls))?))
    };
    Ok(Stores { state: connect("state")?, leases: connect("leases")?, events: connect("events")? })
}

/// A word with `=` begins a group, one without goes on with it.
fn parse_endpoints(text: &str) -> Result<BTreeMap<String, Vec<String>>, Problem> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut group = None;
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let address = match word.split_once('=') {
            Some((name, address)) => {
                group = Some(name.to_owned());
                address
            }
            None => word,
        };
        let group = group.clone().ok_or_else(|| {
            Problem::new(format!("--store-endpoints {text}: begin with a group, as in state=HOST:PORT"))
        })?;
        groups.entry(group).or_default().push(address.to_owned());
    }
    Ok(groups)
}

/// `gantry store`: one member of one group, until it is told to stop.
pub async fn run(args: StoreArgs) -> anyhow::Result<()> {
    let members = parse_members(&args)?;
    preflight::check_ports(&[(args.listen, "--listen")])?;
    let tls = tls::store(&args.tls.tls_cert, &args.tls.tls_key, &args.tls.client_ca)?;
    let mut config = config(&args.group, &args.data_dir)?;
    config.member = args.member_id;
    config.members = members;
    config.join = args.join;
    config.quota_bytes = args.quota_bytes.unwrap_or(config.quota_bytes);
    config.tls = Some(tls);
    config.listener =
        Some(std::net::TcpListener::bind(args.listen).with_context(|| format!("listening on {}", args.listen))?);
    let cancel = stop::signal_token()?;
    let group = Group::open(config).await?;
    tracing::info!(group = args.group, member = args.member_id, listen = %args.listen, "store member serves");
    cancel.cancelled().await;
    group.shutdown().await;
    Ok(())
}

/// Without `--members`, this member is alone.
fn parse_members(args: &StoreArgs) -> Result<BTreeMap<u64, String>, Problem> {
    if args.members.is_empty() {
        return Ok(BTreeMap::from([(args.member_id, args.listen.to_string())]));
    }
    let parse = |member: &String| {
        let pair = member.split_once('=').and_then(|(id, address)| Some((id.parse().ok()?, address.to_owned())));
        pair.ok_or_else(|| Problem::new(format!("--members {member}: write it as NUMBER=HOST:PORT")))
    };
    let members: BTreeMap<u64, String> = args.members.iter().map(parse).collect::<Result<_, _>>()?;
    match members.contains_key(&args.member_id) {
        true => Ok(members),
        false => Err(Problem::new(format!("--members does not name this member, {}", args.member_id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let groups = parse_endpoints("state=a:1,b:1, leases=c:2,events=d:3").unwrap();
        assert_eq!(groups["state"], ["a:1", "b:1"]);
        assert_eq!((groups["leases"].len(), groups["events"].len()), (1, 1));
        assert!(parse_endpoints("a:1").unwrap_err().to_string().contains("begin with a group"));
    }
}
