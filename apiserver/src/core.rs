//! What every request handler stands on: the caches, the stores, the clock and the gates. Decides where a kind lives; holds nothing
//! that the store does not have.

use crate::admission::{self, Admission};
use crate::auth::authz::{Authorizer, StaticAuthorizer};
use crate::auth::tokens::{TokenError, Tokens};
use crate::cache::{Group, Object, Resource};
use crate::config::Config;
use crate::connect::KubeletClient;
use crate::fairness::Fairness;
use crate::http::Outcome;
use crate::metrics::Metrics;
use crate::rest::stored::Stored;
use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::kinds::{Kind, StoreGroup};
use gantry_apimachinery::status::Status;
use gantry_store::{RangeRequest, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// One store per group. All three may be one and the same in tests.
#[derive(Clone)]
pub struct Stores {
    pub state: Arc<dyn Store>,
    pub leases: Arc<dyn Store>,
    pub events: Arc<dyn Store>,
}

/// A kind's cache and the group (store, revision line) that it belongs to.
#[derive(Clone)]
pub struct Served {
    pub resource: Arc<Resource>,
    pub group: Arc<Group>,
}

/// The server cannot start like this.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("service-account tokens cannot be signed")]
    Tokens(#[from] TokenError),
    #[error("the kubelet client certificate is not usable: {0}")]
    KubeletClient(String),
}

pub struct Core {
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub groups: [Arc<Group>; 3],
    served: HashMap<(&'static str, &'static str), Served>,
    pub tokens: Tokens,
    pub authorizer: Box<dyn Authorizer>,
    pub fairness: Fairness,
    pub admission: Vec<Box<dyn Admission>>,
    pub kubelet: Option<KubeletClient>,
    pub metrics: Metrics,
}

impl Core {
    pub fn new(config: Config, stores: Stores, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let group = |which, store| Arc::new(Group::new(which, store, config.history, clock.clone()));
        let groups = [
            group(StoreGroup::State, stores.state),
            group(StoreGroup::Leases, stores.leases),
            group(StoreGroup::Events, stores.events),
        ];
        let served = groups
            .iter()
            .flat_map(|group| {
                group.resources().map(move |resource| {
                    let served = Served { resource: resource.clone(), group: group.clone() };
                    ((resource.kind.group, resource.kind.plural), served)
                })
            })
            .collect();
        Ok(Self {
            tokens: Tokens::new(&config.token_private_key, &config.token_public_key, config.issuer.clone())?,
            kubelet: config.kubelet.as_ref().map(KubeletClient::new).transpose()?,
            authorizer: Box::new(StaticAuthorizer),
            fairness: Fairness::default(),
            admission: admission::built_in(),
            metrics: Metrics::new(),
            config,
            clock,
            groups,
            served,
        })
    }

    /// The cache of a stored kind.
    pub fn served(&self, kind: &Kind) -> Option<&Served> {
        self.served.get(&(kind.group, kind.plural))
    }

    /// As [`Core::served`], for kinds that are known to be stored.
    pub fn stored_kind(&self, kind: &Kind) -> &Served {
        self.served(kind).expect("every kind with the verb get has a cache")
    }

    pub fn all_served(&self) -> impl Iterator<Item = &Served> {
        self.served.values()
    }

    /// An object as the cache has it, possibly a moment old.
    pub fn cached(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let path = if kind.namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
        self.served(kind)?.resource.get(&path)
    }

    /// An object as the store has it now.
    pub async fn live(&self, kind: &Kind, namespace: &str, name: &str) -> Outcome<Option<Stored>> {
        let key = kind.key(namespace, name);
        let reply = self.stored_kind(kind).group.store.range(RangeRequest::key(key)).await.map_err(store_failure)?;
        reply.kvs.into_iter().next().map(|kv| Stored::read(kv.value, kv.mod_revision.0)).transpose()
    }

    /// From the cache, or from the store when the cache is known to be behind.
    pub async fn latest(&self, kind: &Kind, namespace: &str, name: &str, fresh: bool) -> Outcome<Option<Stored>> {
        match if fresh { None } else { self.cached(kind, namespace, name) } {
            Some(object) => Stored::from_cache(&object).map(Some),
            None => self.live(kind, namespace, name).await,
        }
    }
}

/// How a store's trouble reads to a client.
pub fn store_failure(error: StoreError) -> Status {
    match error {
        StoreError::TooLarge { limit, .. } => Status::request_too_large(limit),
        StoreError::Unavailable(_) | StoreError::Slow | StoreError::DiskFull { .. } => {
            Status::service_unavailable(error.to_string())
        }
        StoreError::Unknown(_) => Status::timeout(&error.to_string(), 1),
        StoreError::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.".to_owned())
        }
        StoreError::Future { .. } => Status::timeout(&format!("Too large resource version: {error}"), 1),
        StoreError::NoSpace
        | StoreError::Invalid(_)
        | StoreError::Corrupt(_)
        | StoreError::TooManyOps { .. }
        | StoreError::DuplicateKey(_)
        | StoreError::NoKey(_)
        | StoreError::NoLease(_)
        | StoreError::LeaseExists(_) => Status::internal(error),
    }
}
