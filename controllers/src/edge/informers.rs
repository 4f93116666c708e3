//! One informer per kind, started once and shared by all controllers. Decides which kinds are followed and by what they can
//! be found; never what they mean.

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Header, Object, ObjectMeta, Uid};
use gantry_client::{Client, Informer, InformerOptions, Metrics};
use tokio_util::sync::CancellationToken;

use super::feeds::{Feeds, Seen};
use crate::daemonset::DaemonSet;
use crate::deployment::Deployment;
use crate::disruption::PodDisruptionBudget;
use crate::endpoints::Endpoints;
use crate::job::{self, Job};
use crate::objects::{
    ApiService, ConfigMap, CustomResourceDefinition, EndpointSlice, Lease, Namespace, Node, Pod, ReplicaSet, Service,
    ServiceAccount,
};
use crate::policy_status::ValidatingAdmissionPolicy;
use crate::revision::ControllerRevision;
use crate::storage_protection::{PersistentVolume, PersistentVolumeClaim};

/// The index by controlling owner's uid; objects without one are found under [`orphans`] of their namespace.
pub const OWNER: &str = "owner";

/// Changes of pods that a loop may lag behind before it reads all pods again: some seconds of a burst.
const PODS_FAN_OUT: usize = 16_384;

fn lagging(kind: &Kind, options: &InformerOptions) -> InformerOptions {
    let fan_out = (*kind == kinds::POD).then_some(PODS_FAN_OUT);
    InformerOptions { fan_out, ..options.clone() }
}

macro_rules! informers {
    ($($field:ident: $object:ty = $kind:expr;)*) => {
        /// Handles on the shared copies.
        pub struct Informers {
            $(pub $field: Informer<$object>,)*
            /// Kinds of which nobody reads more than the header.
            pub headers: Vec<(&'static Kind, Informer<Header>)>,
        }

        impl Informers {
            /// Starts to follow every kind.
            pub fn start(client: &Client, metrics: &Metrics, cancel: &CancellationToken) -> Self {
                let options = InformerOptions { metrics: Some(metrics.clone()), ..InformerOptions::all() };
                let typed: &[&Kind] = &[$(&$kind),*];
                let followed = |kind: &&'static Kind| {
                    let kept = kind.has_verb("watch") && kind.has_verb("delete") && kind.stored_as() == *kind;
                    kept && **kind != kinds::EVENT && !typed.contains(kind)
                };
                let header = |kind: &'static Kind| {
                    let options = InformerOptions { metadata_only: true, ..options.clone() };
                    (kind, Informer::start(client.clone(), kind, options, cancel.clone()))
                };
                Informers {
                    headers: kinds::KINDS.iter().copied().filter(followed).map(header).collect(),
                    $($field: Informer::start(client.clone(), &$kind, lagging(&$kind, &options), cancel.clone()),)*
                }
            }

            /// Waits until every copy is complete.
            pub async fn synced(&self) {
                $(self.$field.synced().await;)*
                for (_, informer) in &self.headers {
                    informer.synced().await;
                }
            }

            /// Waits until the copy of `kind` has this version in it. At once for kinds that nobody follows.
            pub async fn reached(&self, kind: &Kind, revision: u64) {
                $(if *kind == $kind {
                    self.$field.wait_for_revision(revision).await;
                    return;
                })*
            }

            /// The headers of everything that is known.
            pub fn for_each(&self, mut each: impl FnMut(&'static Kind, &ObjectMeta)) {
                $(self.$field.list().iter().for_each(|object| each(&$kind, object.meta()));)*
                for (kind, informer) in &self.headers {
                    informer.list().iter().for_each(|object| each(kind, object.meta()));
                }
            }

            /// Everything that is followed, as headers: for the garbage collector.
            pub fn follow_all(&self, feeds: &mut Feeds, each: impl HeaderSink) {
                $(feeds.headers(&self.$field, &$kind, each.clone());)*
                for (kind, informer) in &self.headers {
                    feeds.headers(informer, kind, each.clone());
                }
            }
        }
    };
}

informers! {
    pods: Pod = kinds::POD;
    nodes: Node = kinds::NODE;
    namespaces: Namespace = kinds::NAMESPACE;
    service_accounts: ServiceAccount = kinds::SERVICE_ACCOUNT;
    config_maps: ConfigMap = kinds::CONFIG_MAP;
    services: Service = kinds::SERVICE;
    endpoints: Endpoints = kinds::ENDPOINTS;
    endpoint_slices: EndpointSlice = kinds::ENDPOINT_SLICE;
    deployments: Deployment = kinds::DEPLOYMENT;
    replica_sets: ReplicaSet = kinds::REPLICA_SET;
    daemon_sets: DaemonSet = kinds::DAEMON_SET;
    controller_revisions: ControllerRevision = kinds::CONTROLLER_REVISION;
    jobs: Job = kinds::JOB;
    leases: Lease = kinds::LEASE;
    api_services: ApiService = kinds::API_SERVICE;
    budgets: PodDisruptionBudget = kinds::POD_DISRUPTION_BUDGET;
    claims: PersistentVolumeClaim = kinds::PERSISTENT_VOLUME_CLAIM;
    policies: ValidatingAdmissionPolicy = kinds::VALIDATING_ADMISSION_POLICY;
    volumes: PersistentVolume = kinds::PERSISTENT_VOLUME;
    definitions: CustomResourceDefinition = kinds::CUSTOM_RESOURCE_DEFINITION;
}

/// Takes in what happens to any object.
pub trait HeaderSink: Fn(&'static Kind, Seen<'_>) + Clone + Send + Sync + 'static {}
impl<F: Fn(&'static Kind, Seen<'_>) + Clone + Send + Sync + 'static> HeaderSink for F {}

/// Under which owner an object is found.
pub fn owner_index<T: Object>(object: &T) -> Vec<String> {
    let meta = object.meta();
    vec![meta.controller().map_or_else(|| orphans(&meta.namespace), |o| o.uid.to_string())]
}

/// The index value of a namespace's objects that nobody owns.
pub fn orphans(namespace: &str) -> String {
    format!("orphan/{namespace}")
}

impl Informers {
    /// Adds the indexes that the controllers look up.
    pub fn index(&self) {
        self.pods.add_index(OWNER, owner_index);
        self.replica_sets.add_index(OWNER, owner_index);
        self.controller_revisions.add_index(OWNER, owner_index);
        self.endpoint_slices.add_index(SERVICE, |slice: &EndpointSlice| {
            let service = slice.metadata.labels.get("kubernetes.io/service-name");
            service.map(|name| format!("{}/{name}", slice.metadata.namespace)).into_iter().collect()
        });
        self.pods.add_index(NODE, |pod: &Pod| pod.node().map(str::to_owned).into_iter().collect());
        self.pods.add_index(HELD_BY_NOBODY, |pod: &Pod| {
            let nobodys = job::held_for(pod).is_some_and(str::is_empty);
            nobodys.then(|| pod.metadata.namespace.clone()).into_iter().collect()
        });
    }

    /// The objects that an owner controls, and those of its namespace that it might adopt.
    pub fn candidates<T: Object + Send + Sync + serde::de::DeserializeOwned + 'static>(
        informer: &Informer<T>,
        uid: &Uid,
        namespace: &str,
    ) -> Vec<std::sync::Arc<T>> {
        let mut found = informer.by_index(OWNER, uid.as_str());
        found.extend(informer.by_index(OWNER, &orphans(namespace)));
        found
    }
}

/// The index of endpoint slices by `namespace/service`.
pub const SERVICE: &str = "service";
/// The index of pods that a job's accounting holds although nobody owns them, by namespace.
pub const HELD_BY_NOBODY: &str = "held-by-nobody";
/// The index of pods by machine.
pub const NODE: &str = "node";
