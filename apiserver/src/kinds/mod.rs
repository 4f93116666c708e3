//! The strategy of a kind: what its schema cannot say. Decides nothing itself; holds the trait and the table of all strategies.
//!
//! The machinery around a strategy does everything that is the same for every kind: names and `generateName`, uid, timestamps,
//! generation, resource versions, labels and annotations, finalizers, managed fields, schema types and pruning. A kind whose
//! meaning is fully in its schema therefore has no row here, only one in `apimachinery::kinds`.
//!
//! Adding a strategy is one folder `kinds/<kind>/mod.rs` with `pub struct <Kind>; impl Strategy for <Kind>` and one row in the table below.

pub mod columns;
mod conditions;
mod devices;
mod matching;
pub mod network;
#[cfg(test)]
mod properties;
mod quantities;
pub mod rbac;
mod selectors;
#[cfg(test)]
pub(crate) mod testing;
pub mod unattended;
pub mod value;
mod webhooks;

use crate::auth::UserInfo;
use gantry_apimachinery::{status::FieldErrors, time::Timestamp};
use serde_json::Value;
use std::borrow::Cow;

pub use columns::{Column, NAME_AGE};

/// What a strategy may know of the request. There is no clock, store or randomness behind it.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    pub now: Timestamp,
    pub user: &'a UserInfo,
    /// `Some("status")`, `Some("scale")`, … when the write goes to a subresource.
    pub subresource: Option<&'a str>,
    /// Fresh random bits for this request.
    pub entropy: u64,
    pub dry_run: bool,
}

impl Ctx<'_> {
    /// Whether this write may change only `status` (and metadata that status writers own).
    pub fn is_status(&self) -> bool {
        self.subresource == Some("status")
    }
}

/// A field that `fieldSelector` may name. It is read from the stored bytes, so it must be a plain path through objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// What the client writes: `spec.nodeName`.
    pub label: Cow<'static, str>,
    /// Where it stands in the object, dotted.
    pub path: Cow<'static, str>,
    /// Its value when the object does not have it. Booleans are `"false"`.
    pub default: &'static str,
}

impl Selectable {
    pub const fn path(path: &'static str) -> Self {
        Self { label: Cow::Borrowed(path), path: Cow::Borrowed(path), default: "" }
    }
    pub const fn or(path: &'static str, default: &'static str) -> Self {
        Self { label: Cow::Borrowed(path), path: Cow::Borrowed(path), default }
    }
    pub const fn alias_or(label: &'static str, path: &'static str, default: &'static str) -> Self {
        Self { label: Cow::Borrowed(label), path: Cow::Borrowed(path), default }
    }
    /// A label that differs from the path (`source` of an Event is `source.component`).
    pub const fn alias(label: &'static str, path: &'static str) -> Self {
        Self { label: Cow::Borrowed(label), path: Cow::Borrowed(path), default: "" }
    }
}

/// The per-kind part of the write path. Every method is pure; objects are decoded JSON that already passed the schema's type check.
pub trait Strategy: Send + Sync {
    /// Fills in what the API promises when a field is absent. Idempotent.
    fn defaults(&self, _object: &mut Value) {}

    /// Last changes before a create: drop what clients may not set. `status` is already gone when the kind has a `/status` subresource.
    fn prepare_create(&self, _object: &mut Value, _ctx: &Ctx) {}

    /// Last changes before an update. The machinery has already kept the old `status` (spec writes) or the old everything-else (status writes).
    fn prepare_update(&self, _new: &mut Value, _old: &Value, _ctx: &Ctx) {}

    /// Adds one error per wrong field. `old` is `None` on create.
    fn validate(&self, _new: &Value, _old: Option<&Value>, _ctx: &Ctx, _errors: &mut FieldErrors) {}

    /// Texts for the `Warning` header.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What `kubectl get` prints. Priority 1 is printed by `-o wide` only.
    fn columns(&self) -> &'static [Column] {
        NAME_AGE
    }

    /// One cell per column, in order.
    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), columns::age(object, now)]
    }

    /// Field selectors beyond `metadata.name` and `metadata.namespace`, which every kind has.
    fn selectable(&self) -> &'static [Selectable] {
        &[]
    }

    /// `Some(seconds)` makes the deletion graceful: the object stays with a deletion timestamp until its agent deletes it with grace 0.
    /// `None` (every kind but Pod) or `Some(0)` deletes at once.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// A finalizer that holds every object from its deletion on, until whoever cleans up after it is done.
    fn held_by(&self) -> Option<&'static str> {
        None
    }

    /// Whether a change from `old` to `new` bumps `metadata.generation`. The default: anything outside metadata and status changed.
    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        value::differs_outside(new, old, &["metadata", "status"])
    }
}

/// The strategy of kinds that have none of their own.
pub struct Generic;

impl Strategy for Generic {}

macro_rules! strategies {
    ($($module:ident :: $strategy:ident => $group:literal $resource:literal;)*) => {
        $(pub mod $module;)*
        static STRATEGIES: &[(&str, &str, &dyn Strategy)] = &[
            $(($group, $resource, &$module::$strategy),)*
        ];
    };
}

// One row per kind that has a strategy, in alphabetical order:
//   folder::Struct => "group" "resource";
strategies! {
    apiservice::ApiService => "apiregistration.k8s.io" "apiservices";
    atmostoneclaim::AtMostOneClaim => "gantry.dev" "atmostoneclaims";
    batchcapacity::BatchCapacity => "gantry.dev" "batchcapacities";
    certificatesigningrequest::CertificateSigningRequest => "certificates.k8s.io" "certificatesigningrequests";
    clusterrole::ClusterRole => "rbac.authorization.k8s.io" "clusterroles";
    clusterrolebinding::ClusterRoleBinding => "rbac.authorization.k8s.io" "clusterrolebindings";
    componentstatus::ComponentStatus => "" "componentstatuses";
    configmap::ConfigMap => "" "configmaps";
    customresourcedefinition::CustomResourceDefinition => "apiextensions.k8s.io" "customresourcedefinitions";
    controllerrevision::ControllerRevision => "apps" "controllerrevisions";
    cronjob::CronJob => "batch" "cronjobs";
    csidriver::CsiDriver => "storage.k8s.io" "csidrivers";
    csinode::CsiNode => "storage.k8s.io" "csinodes";
    csistoragecapacity::CsiStorageCapacity => "storage.k8s.io" "csistoragecapacities";
    daemonset::DaemonSet => "apps" "daemonsets";
    deployment::Deployment => "apps" "deployments";
    deviceclass::DeviceClass => "resource.k8s.io" "deviceclasses";
    endpoints::Endpoints => "" "endpoints";
    endpointslice::EndpointSlice => "discovery.k8s.io" "endpointslices";
    event::Event => "" "events";
    flowschema::FlowSchema => "flowcontrol.apiserver.k8s.io" "flowschemas";
    horizontalpodautoscaler::HorizontalPodAutoscaler => "autoscaling" "horizontalpodautoscalers";
    ingress::Ingress => "networking.k8s.io" "ingresses";
    ingressclass::IngressClass => "networking.k8s.io" "ingressclasses";
    ipaddress::IpAddress => "networking.k8s.io" "ipaddresses";
    job::Job => "batch" "jobs";
    lease::Lease => "coordination.k8s.io" "leases";
    limitrange::LimitRange => "" "limitranges";
    mutatingwebhookconfiguration::MutatingWebhookConfiguration => "admissionregistration.k8s.io" "mutatingwebhookconfigurations";
    namespace::Namespace => "" "namespaces";
    networkpolicy::NetworkPolicy => "networking.k8s.io" "networkpolicies";
    node::Node => "" "nodes";
    nodeallocation::NodeAllocation => "gantry.dev" "nodeallocations";
    persistentvolume::PersistentVolume => "" "persistentvolumes";
    persistentvolumeclaim::PersistentVolumeClaim => "" "persistentvolumeclaims";
    placementreview::PlacementReview => "gantry.dev" "placementreviews";
    pod::Pod => "" "pods";
    poddisruptionbudget::PodDisruptionBudget => "policy" "poddisruptionbudgets";
    podgroup::PodGroup => "gantry.dev" "podgroups";
    podtemplate::PodTemplate => "" "podtemplates";
    priorityclass::PriorityClass => "scheduling.k8s.io" "priorityclasses";
    prioritylevelconfiguration::PriorityLevelConfiguration => "flowcontrol.apiserver.k8s.io" "prioritylevelconfigurations";
    replicaset::ReplicaSet => "apps" "replicasets";
    replicationcontroller::ReplicationController => "" "replicationcontrollers";
    resourceclaim::ResourceClaim => "resource.k8s.io" "resourceclaims";
    resourceclaimtemplate::ResourceClaimTemplate => "resource.k8s.io" "resourceclaimtemplates";
    resourcequota::ResourceQuota => "" "resourcequotas";
    resourceslice::ResourceSlice => "resource.k8s.io" "resourceslices";
    role::Role => "rbac.authorization.k8s.io" "roles";
    rolebinding::RoleBinding => "rbac.authorization.k8s.io" "rolebindings";
    runtimeclass::RuntimeClass => "node.k8s.io" "runtimeclasses";
    secret::Secret => "" "secrets";
    service::Service => "" "services";
    serviceaccount::ServiceAccount => "" "serviceaccounts";
    servicecidr::ServiceCidr => "networking.k8s.io" "servicecidrs";
    statefulset::StatefulSet => "apps" "statefulsets";
    storageclass::StorageClass => "storage.k8s.io" "storageclasses";
    validatingadmissionpolicy::ValidatingAdmissionPolicy => "admissionregistration.k8s.io" "validatingadmissionpolicies";
    validatingadmissionpolicybinding::ValidatingAdmissionPolicyBinding => "admissionregistration.k8s.io" "validatingadmissionpolicybindings";
    validatingwebhookconfiguration::ValidatingWebhookConfiguration => "admissionregistration.k8s.io" "validatingwebhookconfigurations";
    volumeattachment::VolumeAttachment => "storage.k8s.io" "volumeattachments";
    volumeattributesclass::VolumeAttributesClass => "storage.k8s.io" "volumeattributesclasses";
}

/// The strategy for a resource (`""` is the core group).
pub fn strategy(group: &str, resource: &str) -> &'static dyn Strategy {
    STRATEGIES.iter().find(|(g, r, _)| *g == group && *r == resource).map_or(&Generic, |(_, _, strategy)| *strategy)
}
