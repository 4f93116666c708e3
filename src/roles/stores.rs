//! The three store groups: opened in this process, reached at other processes, or one member served alone.
//!
//! It decides how long each group lets writes wait for one another, what Events live for, and whose processes go first. Which
//! kind is kept in which group is decided elsewhere, by one table.

use crate::cli::MemberArgs;
use crate::datadir::{DataDir, make_dir};
use crate::pki::{self, Pki};
use crate::problem::Problem;
use crate::roles::tls;
use crate::{preflight, stop};
use anyhow::Context;
use gantry_apiserver::Stores;
use gantry_store::{Caps, Ended, Group, GroupConfig, GroupError, RemoteStore, StoreTls};
use std::collections::BTreeMap;
use std::net::IpAddr;
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
    caps: Option<Caps>,
    quota_bytes: u64,
    /// The nice value of a process that serves only this group.
    nice: i32,
}

/// Heartbeats are few and small, and a machine whose own are late is taken for dead: they do not queue behind other groups'
/// members for a processor.
const GROUPS: [Kind; 3] = [
    Kind { name: "state", linger: Duration::ZERO, ttl: None, caps: None, quota_bytes: 8 << 30, nice: 0 },
    Kind { name: "leases", linger: Duration::from_millis(10), ttl: None, caps: None, quota_bytes: 2 << 30, nice: -10 },
    Kind {
        name: "events",
        linger: Duration::from_millis(50),
        ttl: Some(Duration::from_secs(3600)),
        // A namespace is what comes before the fourth slash of /registry/events/NAMESPACE/NAME.
        caps: Some(Caps { slash: 4, each_bytes: 64 << 20, all_bytes: 1 << 30 }),
        quota_bytes: 4 << 30,
        nice: 0,
    },
];

/// Three single members in this process. The groups are for an orderly end.
pub async fn open(data: &DataDir) -> anyhow::Result<(Stores, Vec<Group>)> {
    let open = |index: usize| {
        let name = GROUPS[index].name;
        let config = config(name, &data.store(name));
        async move { Group::open(config?).await.map_err(judge).with_context(|| format!("opening the store group {name}")) }
    };
    let (state, leases, events) = tokio::try_join!(open(0), open(1), open(2))?;
    let groups = vec![state.clone(), leases.clone(), events.clone()];
    Ok((Stores { state: Arc::new(state), leases: Arc::new(leases), events: Arc::new(events) }, groups))
}

fn kind(name: &str) -> Result<&'static Kind, Problem> {
    let known = GROUPS.iter().find(|kind| kind.name == name);
    known.ok_or_else(|| Problem::new(format!("--group {name}: state, leases or events")))
}

fn config(name: &str, dir: &Path) -> anyhow::Result<GroupConfig> {
    let Kind { linger, ttl, caps, quota_bytes, .. } = *kind(name)?;
    make_dir(dir, 0o700)?;
    Ok(GroupConfig { linger, ttl, caps, quota_bytes, ..GroupConfig::single(name, dir) })
}

/// Stores that run elsewhere, as `state=HOST:PORT,HOST:PORT,leases=…,events=…`.
pub fn remote(endpoints: &str, keys: &Pki) -> anyhow::Result<Stores> {
    let groups = parse_endpoints(endpoints)?;
    let connect = |name: &str| -> anyhow::Result<Arc<RemoteStore>> {
        let members = groups.get(name).ok_or_else(|| Problem::new(format!("--store-endpoints names no {name}=…")))?;
        let (members, tls) = dial(members, Some(keys))?;
        let store = RemoteStore::new(&members, tls.as_ref())?;
        Ok(Arc::new(match kind(name)?.ttl {
            Some(ttl) => store.with_lifetime(ttl),
            None => store,
        }))
    };
    Ok(Stores { state: connect("state")?, leases: connect("leases")?, events: connect("events")? })
}

/// The `host:port` of members, and what to show them; nothing only if all are `http://` on loopback addresses.
pub fn dial(members: &[String], keys: Option<&Pki>) -> anyhow::Result<(Vec<String>, Option<StoreTls>)> {
    let plain = members.iter().filter(|member| member.starts_with("http://")).count();
    let address = |member: &String| {
        let address = member.strip_prefix("http://").or_else(|| member.strip_prefix("https://")).unwrap_or(member);
        address.trim_end_matches('/').to_owned()
    };
    let addresses: Vec<_> = members.iter().map(address).collect();
    if plain == 0 {
        let keys = keys.ok_or_else(|| Problem::new("--pki-dir: the folder with the cluster's keys is needed"))?;
        let certificate = keys.certificate(pki::STORE_PEER);
        return Ok((
            addresses,
            Some(tls::store(&certificate, &keys.key(pki::STORE_PEER), &keys.certificate(pki::STORE_CA))?),
        ));
    }
    if plain < members.len() {
        return Err(Problem::new(format!("{}: all of a group or none of it with http://", members.join(","))).into());
    }
    check_loopback(addresses.iter().map(String::as_str), "http://")?;
    Ok((addresses, None))
}

/// What is not encrypted must not leave this machine.
fn check_loopback<'a>(addresses: impl Iterator<Item = &'a str>, because: &str) -> Result<(), Problem> {
    for address in addresses {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        if host != "localhost" && !ip.is_some_and(|ip| ip.is_loopback()) {
            return Err(Problem::new(format!("{because} is for loopback addresses only, and {address} is none")));
        }
    }
    Ok(())
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
pub async fn run(args: MemberArgs) -> anyhow::Result<()> {
    let members = parse_members(&args.members, args.member_id)?;
    let tls = match (&args.tls_cert, &args.tls_key, &args.client_ca) {
        (Some(certificate), Some(key), Some(authority)) => Some(tls::store(certificate, key, authority)?),
        _ => {
            let listen = args.listen.to_string();
            check_loopback(members.values().map(String::as_str).chain([&listen[..]]), "--insecure")?;
            None
        }
    };
    preflight::check_ports(&[(args.listen, "--listen")])?;
    let listener = std::net::TcpListener::bind(args.listen).with_context(|| format!("listening on {}", args.listen))?;
    let listen = listener.local_addr()?;
    let mut config = config(&args.group, &args.data_dir)?;
    config.member = args.member_id;
    config.members = if members.is_empty() { BTreeMap::from([(args.member_id, listen.to_string())]) } else { members };
    config.join = args.join;
    config.quota_bytes = args.quota_bytes.unwrap_or(config.quota_bytes);
    config.tls = tls;
    config.listener = Some(listener);
    if let Err(error) = set_nice(kind(&args.group)?.nice) {
        tracing::warn!(%error, group = args.group, "this member's threads go no sooner than others'");
    }
    let cancel = stop::signal_token()?;
    let group = tokio::select! {
        group = Group::open(config) => group.map_err(judge)?,
        () = cancel.cancelled() => return Ok(()),
    };
    tracing::info!(group = args.group, member = args.member_id, %listen, "store member serves");
    tokio::select! {
        () = cancel.cancelled() => {
            group.retire().await;
            Ok(())
        }
        why = group.ended() => {
            // It serves nothing any more: a supervisor starts it again, unless a person has to act.
            group.shutdown().await;
            Err(ended(why))
        }
        refusal = group.refused() => {
            group.shutdown().await;
            Err(judge(refusal))
        }
    }
}

fn ended(why: Ended) -> anyhow::Error {
    match why {
        Ended::Removed { .. } => Problem::new(why.to_string()).into(),
        Ended::Failed { .. } => why.into(),
    }
}

/// Waits until one of the groups ends by itself.
pub async fn first_ended(groups: &[Group]) -> anyhow::Error {
    if groups.is_empty() {
        return std::future::pending().await;
    }
    ended(futures::future::select_all(groups.iter().map(|group| Box::pin(group.ended()))).await.0)
}

/// Sets the nice value of every thread of this process; those that they start inherit it.
fn set_nice(nice: i32) -> std::io::Result<()> {
    if nice == 0 {
        return Ok(());
    }
    for task in std::fs::read_dir("/proc/self/task")? {
        let id = task?.file_name().to_str().and_then(|id| id.parse().ok()).and_then(rustix::process::Pid::from_raw);
        // For Linux a thread's number is as good as a process's: setpriority(2). One that has just ended needs nothing.
        match rustix::process::setpriority_process(id, nice) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What a person has to put right is told in one line.
fn judge(error: GroupError) -> anyhow::Error {
    let acts = !matches!(error, GroupError::Raft(_) | GroupError::Listen(_));
    let error = anyhow::Error::from(error);
    if acts { Problem::new(format!("{error:#}")).into() } else { error }
}

/// `N=HOST:PORT` each; if there are any, this member must be one of them.
pub fn parse_members(members: &[String], this: u64) -> Result<BTreeMap<u64, String>, Problem> {
    let parse = |member: &String| {
        let pair = member.split_once('=').and_then(|(id, address)| Some((id.parse().ok()?, address.to_owned())));
        pair.ok_or_else(|| Problem::new(format!("--members {member}: write it as NUMBER=HOST:PORT")))
    };
    let pairs: Vec<(u64, String)> = members.iter().map(parse).collect::<Result<_, _>>()?;
    for (at, (id, address)) in pairs.iter().enumerate() {
        if let Some((other, _)) = pairs[..at].iter().find(|(other, place)| other == id || place == address) {
            let what = if other == id { format!("the number {id}") } else { format!("the address {address}") };
            return Err(Problem::new(format!("--members names {what} twice: each member has its own")));
        }
    }
    let members: BTreeMap<u64, String> = pairs.into_iter().collect();
    match members.is_empty() || members.contains_key(&this) {
        true => Ok(members),
        false => Err(Problem::new(format!("--members does not name this member, {this}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_becomes_as_nice_as_its_process_is_to_be() {
        let (told, tell) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = tell.recv();
            rustix::process::getpriority_process(None).unwrap_or(i32::MIN)
        });
        // Everybody may become nicer.
        set_nice(1).unwrap();
        drop(told);
        assert_eq!(thread.join().unwrap(), 1);
    }

    #[test]
    fn every_member_has_a_number_and_an_address_of_its_own() {
        let parse = |members: &[&str]| parse_members(&members.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>(), 1);
        assert_eq!(parse(&["1=a:1", "2=b:1"]).unwrap().len(), 2);
        for (members, says) in [
            (["1=a:1", "1=b:1"], "names the number 1 twice"),
            (["1=a:1", "2=a:1"], "names the address a:1 twice"),
            (["2=a:1", "3=b:1"], "does not name this member, 1"),
        ] {
            let error = parse(&members).unwrap_err().to_string();
            assert!(error.contains(says), "{members:?}: {error}");
        }
    }

    #[test]
    fn endpoints() {
        let groups = parse_endpoints("state=a:1,b:1, leases=c:2,events=d:3").unwrap();
        assert_eq!(groups["state"], ["a:1", "b:1"]);
        assert_eq!((groups["leases"].len(), groups["events"].len()), (1, 1));
        let plain = |members: &[&str]| dial(&members.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>(), None);
        let (addresses, tls) = plain(&["http://127.0.0.1:1", "http://[::1]:2/"]).unwrap();
        assert_eq!((addresses, tls.is_none()), (vec!["127.0.0.1:1".to_owned(), "[::1]:2".to_owned()], true));
        for (members, says) in [
            (&["http://192.0.2.1:1"][..], "loopback addresses only"),
            (&["http://127.0.0.1:1", "127.0.0.1:2"], "all of a group or none"),
            (&["127.0.0.1:2"], "--pki-dir"),
        ] {
            let error = plain(members).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{members:?}: {error}");
        }
        assert!(parse_endpoints("a:1").unwrap_err().to_string().contains("begin with a group"));
    }
}
