//! ConfigMaps, Secrets and tokens that this machine's pods use: one watch per object, begun on first use. RuntimeClasses are read
//! when a sandbox is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{Client, Informer, InformerOptions};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Message;
use crate::api::Pod;
use crate::api::objects::{ConfigMap, RuntimeClass, Secret, TokenRequest};
use crate::api::volume::TokenSource;
use crate::checkpoint::Checkpoints;
use crate::volumes::Objects;

/// A start waits no longer than this for an object; it is tried again with the pod machine's back-off.
const PATIENCE: Duration = Duration::from_secs(3);

type Key = (String, String);
type Watched<T> = Mutex<BTreeMap<Key, Informer<T>>>;

pub struct ApiObjects {
    client: Client,
    cancel: CancellationToken,
    changes: mpsc::Sender<Message>,
    checkpoints: Arc<Checkpoints>,
    config_maps: Watched<ConfigMap>,
    secrets: Watched<Secret>,
    tokens: Mutex<BTreeMap<(String, String, String), Token>>,
}

struct Token {
    text: String,
    ends: Option<Timestamp>,
    /// From here on a new one is fetched.
    renew: Timestamp,
}

impl ApiObjects {
    pub fn new(
        client: Client,
        changes: mpsc::Sender<Message>,
        checkpoints: Arc<Checkpoints>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            client,
            cancel,
            changes,
            checkpoints,
            config_maps: Mutex::default(),
            secrets: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    async fn get<T>(
        &self,
        kind: &'static Kind,
        watched: &Watched<T>,
        ns: &str,
        name: &str,
    ) -> Result<Option<Arc<T>>, String>
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        let key = (ns.to_owned(), name.to_owned());
        let informer = {
            let mut watched = watched.lock();
            watched.entry(key).or_insert_with(|| self.watch(kind, ns, name)).clone()
        };
        match tokio::time::timeout(PATIENCE, informer.synced()).await {
            Ok(()) => Ok(informer.get(ns, name)),
            Err(_) => Err(format!("failed to sync {} cache: timed out waiting for the condition", kind.singular)),
        }
    }

    fn watch<T>(&self, kind: &'static Kind, ns: &str, name: &str) -> Informer<T>
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        let mut options = InformerOptions::fields(format!("metadata.name={name}"));
        options.namespace = ns.to_owned();
        let informer = Informer::start(self.client.clone(), kind, options, self.cancel.clone());
        let (mut changes, out, ns) = (informer.subscribe(), self.changes.clone(), ns.to_owned());
        tokio::spawn(async move {
            while changes.recv().await.is_some() {
                if out.send(Message::ObjectChanged { ns: ns.clone() }).await.is_err() {
                    return;
                }
            }
        });
        informer
    }

    /// Ends the watches of objects that no pod refers to, and forgets the tokens of pods that are gone.
    pub fn retain(&self, config_maps: &BTreeSet<Key>, secrets: &BTreeSet<Key>, pods: &BTreeSet<String>) {
        self.config_maps.lock().retain(|key, _| config_maps.contains(key));
        self.secrets.lock().retain(|key, _| secrets.contains(key));
        self.tokens.lock().retain(|key, _| pods.contains(&key.0));
    }
}

/// Where a ConfigMap is remembered. No name has a `_`, so no two share a file.
fn file(ns: &str, name: &str) -> String {
    format!("configmap_{ns}_{name}")
}

/// Where a RuntimeClass is remembered.
fn class_file(name: &str) -> String {
    format!("runtimeclass_{name}")
}

/// What runs a class' pods, by what the API says now; with no control plane, by what it said last.
fn settle_handler(
    checkpoints: &Checkpoints,
    name: &str,
    answer: Result<Option<RuntimeClass>, String>,
) -> Result<String, String> {
    let file = class_file(name);
    match answer {
        Ok(Some(class)) => {
            if let Err(e) = checkpoints.save(&file, &class) {
                tracing::warn!(%e, name, "a RuntimeClass could not be remembered");
            }
            Ok(class.handler)
        }
        Ok(None) => Err(format!("RuntimeClass {name:?} not found")),
        Err(e) => match checkpoints.load::<RuntimeClass>(&file).ok().flatten() {
            Some(class) if class.metadata.name == name => Ok(class.handler),
            _ => Err(e),
        },
    }
}

fn remember(checkpoints: &Checkpoints, map: &ConfigMap) {
    let (ns, name) = (&map.metadata.namespace, &map.metadata.name);
    if let Err(e) = checkpoints.save(&file(ns, name), map) {
        tracing::warn!(%e, ns, name, "a ConfigMap could not be remembered");
    }
}

/// What was remembered, if it is surely this one.
fn recall(checkpoints: &Checkpoints, ns: &str, name: &str) -> Option<ConfigMap> {
    let map: Option<ConfigMap> = checkpoints.load(&file(ns, name)).ok().flatten();
    map.filter(|m| m.metadata.namespace == ns && m.metadata.name == name)
}

#[async_trait]
impl Objects for ApiObjects {
    async fn config_map(&self, ns: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, String> {
        match self.get(&kinds::CONFIG_MAP, &self.config_maps, ns, name).await {
            Ok(Some(map)) => {
                remember(&self.checkpoints, &map);
                Ok(Some(map))
            }
            Ok(None) => Ok(None),
            // With no control plane a restart uses what the last start used.
            Err(e) => recall(&self.checkpoints, ns, name).map(|map| Some(Arc::new(map))).ok_or(e),
        }
    }

    async fn secret(&self, ns: &str, name: &str) -> Result<Option<Arc<Secret>>, String> {
        self.get(&kinds::SECRET, &self.secrets, ns, name).await
    }

    async fn handler(&self, class: &str) -> Result<String, String> {
        let call = self.client.get::<RuntimeClass>(&kinds::RUNTIME_CLASS, "", class);
        let answer = match tokio::time::timeout(PATIENCE, call).await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(e)) if e.is_not_found() => Ok(None),
            Ok(Err(e)) => Err(e.chain()),
            Err(_) => Err("timed out".to_owned()),
        };
        settle_handler(&self.checkpoints, class, answer).map_err(|why| format!("failed to get sandbox runtime: {why}"))
    }

    async fn token(&self, pod: &Pod, source: &TokenSource) -> Result<(String, Option<Timestamp>), String> {
        let audience = source.audience.clone().unwrap_or_default();
        let key = (pod.uid().to_owned(), audience.clone(), source.path.clone());
        let now = SystemClock.now();
        if let Some(t) = self.tokens.lock().get(&key).filter(|t| t.renew > now) {
            return Ok((t.text.clone(), t.ends));
        }
        let account = pod.spec.service_account_name.as_deref().filter(|a| !a.is_empty()).unwrap_or("default");
        let wanted_s = source.expiration_seconds.unwrap_or(3600);
        let audiences = if audience.is_empty() { json!([]) } else { json!([audience]) };
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "expirationSeconds": wanted_s, "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid()}}
        });
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", pod.metadata.namespace);
        let call = self.client.post::<TokenRequest>(&path, &body);
        let answer = match tokio::time::timeout(PATIENCE, call).await {
            Ok(Ok(answer)) => answer.status,
            Ok(Err(e)) => return Err(format!("failed to fetch token: {}", e.chain())),
            Err(_) => return Err("failed to fetch token: timed out".into()),
        };
        let life_s = answer.expiration_timestamp.map_or(wanted_s, |ends| ends.secs() - now.secs());
        let renew = now.add_secs((life_s * 8 / 10).min(24 * 3600));
        let token = Token { text: answer.token.clone(), ends: answer.expiration_timestamp, renew };
        self.tokens.lock().insert(key, token);
        Ok((answer.token, answer.expiration_timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ns: &str, name: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"namespace": ns, "name": name}, "data": {"of": ns}})).unwrap()
    }

    #[test]
    fn a_class_is_what_the_api_says_or_said_last() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        let settled = |name: &str, answer| settle_handler(&checkpoints, name, answer);
        fn away<T>() -> Result<T, String> {
            Err("away".to_owned())
        }
        assert_eq!(settled("a", away()), away());
        let class: RuntimeClass = serde_json::from_value(json!({"metadata": {"name": "a"}, "handler": "h"})).unwrap();
        assert_eq!(settled("a", Ok(Some(class))), Ok("h".to_owned()));
        assert_eq!(settled("a", away()), Ok("h".to_owned()));
        assert_eq!(settled("b", away()), away());
        // Who is sure that it is gone runs nothing by it.
        assert_eq!(settled("a", Ok(None)), Err("RuntimeClass \"a\" not found".to_owned()));
    }

    #[test]
    fn a_config_map_is_recalled_as_itself_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        let (a, b) = (map("team", "a-config"), map("team-a", "config"));
        remember(&checkpoints, &a);
        assert_eq!(recall(&checkpoints, "team-a", "config"), None);
        remember(&checkpoints, &b);
        assert_eq!(recall(&checkpoints, "team", "a-config"), Some(a.clone()));
        assert_eq!(recall(&checkpoints, "team-a", "config"), Some(b));
        // Whatever brought another's content under this name, it is not given to a pod.
        checkpoints.save(&file("ns", "x"), &a).unwrap();
        assert_eq!(recall(&checkpoints, "ns", "x"), None);
    }
}
