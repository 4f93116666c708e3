//! What every request handler stands on: the caches, the stores, the clock and the gates. Decides where a kind lives; holds nothing
//! that the store does not have.

use crate::admission::{self, Admission};
use crate::aggregation::Aggregation;
use crate::audit::Audit;
use crate::auth::UserInfo;
use crate::auth::authz::{Attributes, Authorizer, Authorizers, Decision};
use crate::auth::oidc::Oidc;
use crate::auth::peers::Peers;
use crate::auth::rbac::Rbac;
use crate::auth::tokens::{TokenError, Tokens};
use crate::auth::webhook::access::AccessReviews;
use crate::auth::webhook::review::TokenReviews;
use crate::cache::{Group, Object};
use crate::config::Config;
use crate::connect::{KubeletClient, Sessions};
use crate::custom::Custom;
use crate::fairness::Fairness;
use crate::http::Outcome;
use crate::metrics::Metrics;
use crate::quota::Charges;
use crate::rest::stored::Stored;
use crate::served::{Registry, Served};
use crate::shares::Shares;
use arc_swap::ArcSwap;
use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::kinds::{KINDS, Kind, StoreGroup};
use gantry_apimachinery::status::Status;
use gantry_store::{KeyValue, RangeRequest, Store, StoreError};
use std::sync::Arc;

/// Bodies of writes that are being read or wait to be carried out, all together: beyond it clients come again later.
const BODIES_KIB: usize = 512 << 10;
/// Of those, of one user: who sends slowly leaves room for the others.
const BODIES_EACH_KIB: usize = BODIES_KIB / 4;

/// One store per group. All three may be one and the same in tests.
#[derive(Clone)]
pub struct Stores {
    pub state: Arc<dyn Store>,
    pub leases: Arc<dyn Store>,
    pub events: Arc<dyn Store>,
}

/// The server cannot start like this.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("service-account tokens cannot be signed")]
    Tokens(#[from] TokenError),
    #[error("the kubelet client certificate is not usable: {0}")]
    KubeletClient(String),
    #[error("the front-proxy client certificate is not usable: {0}")]
    FrontProxy(String),
    #[error("OIDC: {0}")]
    Oidc(String),
    #[error("the {0} webhook: {1}")]
    Webhook(&'static str, String),
    #[error("the authorities of clients and of proxies: {0}")]
    RequestHeader(String),
    #[error("the audit log: {0}")]
    Audit(String),
}

pub struct Core {
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub groups: [Arc<Group>; 3],
    built_in: Registry,
    /// The kinds of the table and the custom resources that are served now.
    registry: ArcSwap<Registry>,
    pub custom: Custom,
    pub aggregation: Aggregation,
    pub quotas: Charges,
    pub tokens: Tokens,
    pub peers: Peers,
    pub oidc: Option<Oidc>,
    pub token_reviews: Option<TokenReviews>,
    pub authorizer: Box<dyn Authorizer>,
    access_reviews: Option<AccessReviews>,
    pub rbac: Arc<Rbac>,
    pub fairness: Arc<Fairness>,
    pub admission: Vec<Box<dyn Admission>>,
    pub kubelet: Option<KubeletClient>,
    pub sessions: Sessions,
    /// Room for the bodies of writes that are being read or wait, in KiB.
    pub bodies: Shares,
    pub metrics: Metrics,
    pub audit: Option<Arc<Audit>>,
}

impl Core {
    pub fn new(config: Config, stores: Stores, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let group = |which, store| Arc::new(Group::new(which, store, config.history, clock.clone()));
        let groups = [
            group(StoreGroup::State, stores.state),
            group(StoreGroup::Leases, stores.leases),
            group(StoreGroup::Events, stores.events),
        ];
        let mut built_in = Registry::default();
        for kind in KINDS.iter().copied() {
            let kept = groups.iter().find_map(|group| Some((group, group.built_in(kind.stored_as())?)));
            match kept.filter(|_| kind.is_stored()) {
                Some((group, resource)) => {
                    built_in.add(Arc::new(Served::built_in(kind, resource.clone(), group.clone())));
                }
                None => built_in.add_virtual(kind),
            }
        }
        let rbac = Rbac::following(&groups[0]);
        let metrics = Metrics::new();
        let audit = config.audit.as_ref().map(|config| {
            let (written, lost) = (metrics.audit_events.clone(), metrics.audit_errors.clone());
            Audit::new(config, clock.clone(), written, lost).map(Arc::new)
        });
        let aggregation = Aggregation::new(config.front_proxy.as_ref())?;
        Ok(Self {
            tokens: Tokens::new(&config.token_private_key, &config.token_public_key, config.issuer.clone())?,
            kubelet: config.kubelet.as_ref().map(KubeletClient::new).transpose()?,
            peers: Peers::new(&config)?,
            oidc: config.oidc.as_ref().map(|config| Oidc::new(config, clock.clone())).transpose()?,
            token_reviews: config.token_webhook.as_ref().map(TokenReviews::new).transpose()?,
            access_reviews: config.access_webhook.as_ref().map(AccessReviews::new).transpose()?,
            sessions: Sessions::default(),
            bodies: Shares::new(BODIES_KIB, BODIES_EACH_KIB),
            authorizer: Box::new(Authorizers { rbac: rbac.clone() }),
            rbac,
            fairness: Fairness::following(&groups[0], config.seats),
            admission: admission::built_in(),
            metrics,
            audit: audit.transpose()?,
            config,
            clock,
            groups,
            custom: Custom::default(),
            aggregation,
            quotas: Charges::default(),
            registry: ArcSwap::from_pointee(built_in.clone()),
            built_in,
        })
    }

    /// Everything that is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Serves these custom resources beside the kinds of the table, and no others.
    pub fn serve_custom(&self, custom: impl IntoIterator<Item = Arc<Served>>) {
        let mut registry = self.built_in.clone();
        custom.into_iter().for_each(|served| registry.add(served));
        self.registry.store(Arc::new(registry));
    }

    /// Whether somebody may do something: by what is known here, or else by whom there is to ask.
    pub async fn authorize(&self, user: &UserInfo, what: &Attributes<'_>) -> Decision {
        let here = self.authorizer.authorize(self, user, what);
        match (&here, &self.access_reviews) {
            (Decision::Deny(_), Some(reviews)) => match reviews.decide(user, what, self.clock.boottime_ms()).await {
                // What is missing here helps more than silence.
                Decision::Deny(why) if why.is_empty() => here,
                decision => decision,
            },
            _ => here,
        }
    }

    /// A stored kind of the table.
    pub fn stored_kind(&self, kind: &Kind) -> &Arc<Served> {
        let served = self.built_in.find(kind.group, kind.version, kind.plural);
        served.expect("every kind with the verb get has a cache")
    }

    /// An object as the cache has it, possibly a moment old.
    pub fn cached(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let path = if kind.namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
        self.built_in.find(kind.group, kind.version, kind.plural)?.resource.get(&path)
    }

    /// An object as the store has it now.
    pub async fn live(&self, kind: &Kind, namespace: &str, name: &str) -> Outcome<Option<Stored>> {
        let found = self.live_bytes(kind, namespace, name).await?;
        found.map(|kv| Stored::read(kv.value, kv.mod_revision.0)).transpose()
    }

    /// As [`Self::live`], as it lies there.
    pub async fn live_bytes(&self, kind: &Kind, namespace: &str, name: &str) -> Outcome<Option<KeyValue>> {
        let key = kind.key(namespace, name);
        let reply = self.stored_kind(kind).group.store.range(RangeRequest::key(key)).await.map_err(store_failure)?;
        Ok(reply.kvs.into_iter().next())
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
        StoreError::Unavailable(_) | StoreError::Slow | StoreError::DiskFull { .. } | StoreError::Unreadable(_) => {
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
