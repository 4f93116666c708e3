//! Aggregation: whole group versions that another server serves, as APIServices say.
//!
//! `local` decides which APIServices this server keeps for what it serves itself, `available` whether a Service can be reached,
//! `upkeep` keeps both in step with the cluster, `look` asks the other servers what they have, `proxy` hands requests on,
//! `documents` joins their OpenAPI with ours, and `published` tells them how to recognise us. This file holds what is known.

mod available;
pub mod documents;
mod local;
mod look;
pub mod proxy;
mod published;
mod upkeep;

pub use local::{Priority, ensure};
pub use published::publish;
pub use upkeep::run;

use crate::auth::UserInfo;
use crate::cache::Group;
use crate::config::FrontProxyPem;
use crate::core::StartError;
use crate::http::body::Body;
use crate::http::target::Target;
use crate::kinds::value::{at, bool_at, i64_at, items, str_at};
use crate::outbound::dial::{self, ClientIdentity, Connector, Place, Trust, decoded_bundle};
use arc_swap::ArcSwap;
use gantry_apimachinery::time::Timestamp;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::Notify;

/// The one condition of an APIService.
pub const AVAILABLE: &str = "Available";
/// Of another server's head; what is longer is refused.
const MAX_HEAD: usize = 64 * 1024;

/// The condition of an APIService without a Service.
pub fn local_condition(now: Timestamp) -> Value {
    json!({"type": AVAILABLE, "status": "True", "lastTransitionTime": now.to_string(), "reason": "Local",
        "message": "Local APIServices are always available"})
}

/// What was last seen of another server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests are handed on only then.
    pub available: bool,
    /// `resources` is what the server says now.
    pub fresh: bool,
    /// The `resources` of its `APIResourceList`.
    pub resources: Arc<Vec<Value>>,
    pub documents: documents::Documents,
}

/// A group version that another server serves.
pub struct Remote {
    pub group: String,
    pub version: String,
    pub place: Arc<Place>,
    /// Or why there can be no connection.
    client: Result<Client<Connector, Body>, String>,
    pub seen: ArcSwap<Seen>,
    /// Something about its Service changed.
    nudged: Notify,
}

impl Remote {
    fn read(object: &Value, group: &Arc<Group>, identity: Option<&ClientIdentity>) -> Option<Self> {
        let spec = &object["spec"];
        let service = at(spec, "service")?;
        let port = u16::try_from(i64_at(service, "port").unwrap_or(443)).ok()?;
        let place = Place::new(str_at(service, "namespace"), str_at(service, "name"), port, group.clone());
        let place = Arc::new(place);
        let condition = items(object, "status.conditions").iter().find(|one| str_at(one, "type") == AVAILABLE);
        // What another server or an earlier life of this one found out counts until it is looked at again.
        let available = condition.is_some_and(|one| str_at(one, "status") == "True");
        Some(Self {
            group: str_at(spec, "group").to_owned(),
            version: str_at(spec, "version").to_owned(),
            client: client(spec, &place, identity),
            place,
            seen: ArcSwap::from_pointee(Seen { available, ..Seen::default() }),
            nudged: Notify::new(),
        })
    }

    pub fn group_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

fn client(
    spec: &Value,
    place: &Arc<Place>,
    identity: Option<&ClientIdentity>,
) -> Result<Client<Connector, Body>, String> {
    let bundle = decoded_bundle(str_at(spec, "caBundle")).map_err(|error| error.to_string())?;
    let trust = if bool_at(spec, "insecureSkipTLSVerify") { Trust::Anybody } else { Trust::Bundle(&bundle) };
    let tls = dial::tls(&trust, identity).map_err(|error| error.to_string())?;
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(32).http1_max_buf_size(MAX_HEAD);
    Ok(builder.build(Connector { tls, place: Some(place.clone()) }))
}

/// All APIServices at a moment.
#[derive(Default)]
pub struct Table {
    remotes: BTreeMap<String, BTreeMap<String, Arc<Remote>>>,
    priorities: HashMap<String, HashMap<String, Priority>>,
}

impl Table {
    pub fn remote(&self, group: &str, version: &str) -> Option<&Arc<Remote>> {
        self.remotes.get(group)?.get(version)
    }

    pub fn remotes(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.remotes.values().flat_map(BTreeMap::values)
    }

    /// Where a group version stands in discovery.
    pub fn priority(&self, group: &str, version: &str) -> Priority {
        let said = self.priorities.get(group).and_then(|versions| versions.get(version));
        said.copied().unwrap_or_else(|| local::priority(group, version))
    }
}

/// What this server knows of APIServices.
pub struct Aggregation {
    table: ArcSwap<Table>,
    identity: Option<ClientIdentity>,
}

impl Aggregation {
    pub fn new(pem: Option<&FrontProxyPem>) -> Result<Self, StartError> {
        let identity = pem.map(|pem| ClientIdentity::read(&pem.cert, &pem.key)).transpose();
        Ok(Self { table: ArcSwap::default(), identity: identity.map_err(StartError::FrontProxy)? })
    }

    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// The other server that this request is for.
    pub fn remote(&self, target: &Target) -> Option<Arc<Remote>> {
        let table = self.table.load();
        if table.remotes.is_empty() {
            return None;
        }
        match target {
            Target::Resource { path, .. } => table.remote(&path.group, &path.version).cloned(),
            Target::NonResource { path } => {
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                match parts.as_slice() {
                    ["apis", group, version] => table.remote(group, version).cloned(),
                    ["openapi", "v3", "apis", group, version] => {
                        table.remote(group, version).filter(|remote| remote.seen.load().documents.v3.is_some()).cloned()
                    }
                    _ => None,
                }
            }
        }
    }
}

/// As whom this server looks at others by itself.
fn aggregator() -> UserInfo {
    UserInfo { username: "system:kube-aggregator".into(), groups: vec!["system:masters".into()], ..UserInfo::default() }
}
