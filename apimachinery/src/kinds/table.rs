//! The rows of the kind table.
//!
//! It decides names, verbs, subresources and store groups as Kubernetes 1.35 has them; it holds no behaviour.

mod admission;
mod devices;
mod gantry;
mod networking;
mod storage;
mod workloads;

use super::{Kind, StoreGroup, Subresource};
pub use admission::*;
pub use devices::*;
pub use gantry::*;
pub use networking::*;
pub use storage::*;
pub use workloads::*;

type Verbs = &'static [&'static str];

const ALL: Verbs = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION_DELETE: Verbs = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// Written by the API server alone.
const READ: Verbs = &["get", "list", "watch"];
/// Made up when it is asked for.
const MADE_UP: Verbs = &["get", "list"];
/// Virtual, or a subresource that is only posted to.
const CREATE: Verbs = &["create"];
const STATUS: Verbs = &["get", "patch", "update"];
const CONNECT: Verbs = &["create", "get"];
const GET: Verbs = &["get"];
/// Whatever the method, as authorisation names it.
const PROXY: Verbs = &["create", "delete", "get", "patch", "update"];
const UPDATE: Verbs = &["update"];

const fn sub(
    name: &'static str,
    verbs: Verbs,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
) -> Subresource {
    Subresource { name, group, version, kind, verbs }
}

/// What most namespaced kinds have in common; a row says the rest.
const NAMESPACED: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};
const CLUSTER_WIDE: Kind = Kind { namespaced: false, ..NAMESPACED };

/// Every kind that is served, stored or virtual, in the order of discovery.
pub static KINDS: &[&Kind] = &[
    &POD,
    &SERVICE,
    &ENDPOINTS,
    &CONFIG_MAP,
    &SECRET,
    &NAMESPACE,
    &NODE,
    &EVENT,
    &SERVICE_ACCOUNT,
    &BINDING,
    &COMPONENT_STATUS,
    &POD_TEMPLATE,
    &REPLICATION_CONTROLLER,
    &RESOURCE_QUOTA,
    &LIMIT_RANGE,
    &PERSISTENT_VOLUME,
    &PERSISTENT_VOLUME_CLAIM,
    &DEPLOYMENT,
    &REPLICA_SET,
    &DAEMON_SET,
    &STATEFUL_SET,
    &CONTROLLER_REVISION,
    &JOB,
    &CRON_JOB,
    &HORIZONTAL_POD_AUTOSCALER,
    &HORIZONTAL_POD_AUTOSCALER_V1,
    &EVENT_V1,
    &POD_DISRUPTION_BUDGET,
    &ENDPOINT_SLICE,
    &INGRESS,
    &INGRESS_CLASS,
    &NETWORK_POLICY,
    &SERVICE_CIDR,
    &IP_ADDRESS,
    &LEASE,
    &RUNTIME_CLASS,
    &PRIORITY_CLASS,
    &STORAGE_CLASS,
    &VOLUME_ATTACHMENT,
    &CSI_DRIVER,
    &CSI_NODE,
    &CSI_STORAGE_CAPACITY,
    &VOLUME_ATTRIBUTES_CLASS,
    &DEVICE_CLASS,
    &RESOURCE_CLAIM,
    &RESOURCE_CLAIM_TEMPLATE,
    &RESOURCE_SLICE,
    &MUTATING_WEBHOOK_CONFIGURATION,
    &VALIDATING_WEBHOOK_CONFIGURATION,
    &VALIDATING_ADMISSION_POLICY,
    &VALIDATING_ADMISSION_POLICY_BINDING,
    &FLOW_SCHEMA,
    &PRIORITY_LEVEL_CONFIGURATION,
    &CUSTOM_RESOURCE_DEFINITION,
    &API_SERVICE,
    &CLUSTER_ROLE_BINDING,
    &CLUSTER_ROLE,
    &ROLE_BINDING,
    &ROLE,
    &CERTIFICATE_SIGNING_REQUEST,
    &NODE_ALLOCATION,
    &AT_MOST_ONE_CLAIM,
    &POD_GROUP,
    &BATCH_CAPACITY,
    &PLACEMENT_REVIEW,
    &BINDING_BATCH,
    &EVENT_BATCH,
    &TOKEN_REVIEW,
    &SELF_SUBJECT_REVIEW,
    &SUBJECT_ACCESS_REVIEW,
    &LOCAL_SUBJECT_ACCESS_REVIEW,
    &SELF_SUBJECT_ACCESS_REVIEW,
    &SELF_SUBJECT_RULES_REVIEW,
];

/// Kinds that are another face of a stored kind: (served, stored). The API server converts between them.
pub static CONVERTED: &[(&Kind, &Kind)] =
    &[(&EVENT_V1, &EVENT), (&HORIZONTAL_POD_AUTOSCALER_V1, &HORIZONTAL_POD_AUTOSCALER)];

pub static CUSTOM_RESOURCE_DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    verbs: ALL,
    subresources: &[sub("status", STATUS, "apiextensions.k8s.io", "v1", "CustomResourceDefinition")],
    store: StoreGroup::State,
};

pub static POD: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[
        sub("attach", CONNECT, "", "v1", "PodAttachOptions"),
        sub("binding", CREATE, "", "v1", "Binding"),
        sub("ephemeralcontainers", STATUS, "", "v1", "Pod"),
        sub("eviction", CREATE, "policy", "v1", "Eviction"),
        sub("exec", CONNECT, "", "v1", "PodExecOptions"),
        sub("log", GET, "", "v1", "Pod"),
        sub("portforward", CONNECT, "", "v1", "PodPortForwardOptions"),
        sub("proxy", PROXY, "", "v1", "PodProxyOptions"),
        sub("resize", STATUS, "", "v1", "Pod"),
        sub("status", STATUS, "", "v1", "Pod"),
    ],
    store: StoreGroup::State,
};

pub static SERVICE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[sub("proxy", PROXY, "", "v1", "ServiceProxyOptions"), sub("status", STATUS, "", "v1", "Service")],
    store: StoreGroup::State,
};

pub static ENDPOINTS: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static CONFIG_MAP: Kind = Kind {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static SECRET: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static NAMESPACE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    categories: &[],
    namespaced: false,
    verbs: NO_COLLECTION_DELETE,
    subresources: &[sub("finalize", UPDATE, "", "v1", "Namespace"), sub("status", STATUS, "", "v1", "Namespace")],
    store: StoreGroup::State,
};

pub static NODE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[sub("proxy", PROXY, "", "v1", "NodeProxyOptions"), sub("status", STATUS, "", "v1", "Node")],
    store: StoreGroup::State,
};

pub static EVENT: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::Events,
};

/// The same events under their newer name.
pub static EVENT_V1: Kind = Kind {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    store: StoreGroup::Events,
    ..NAMESPACED
};

pub static SERVICE_ACCOUNT: Kind = Kind {
    group: "",
    version: "v1",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[sub("token", CREATE, "authentication.k8s.io", "v1", "TokenRequest")],
    store: StoreGroup::State,
};

pub static COMPONENT_STATUS: Kind = Kind {
    kind: "ComponentStatus",
    plural: "componentstatuses",
    singular: "componentstatus",
    short_names: &["cs"],
    verbs: MADE_UP,
    ..CLUSTER_WIDE
};

pub static BINDING: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Binding",
    plural: "bindings",
    singular: "binding",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static DEPLOYMENT: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[
        sub("scale", STATUS, "autoscaling", "v1", "Scale"),
        sub("status", STATUS, "apps", "v1", "Deployment"),
    ],
    store: StoreGroup::State,
};

pub static REPLICA_SET: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    plural: "replicasets",
    singular: "replicaset",
    short_names: &["rs"],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[
        sub("scale", STATUS, "autoscaling", "v1", "Scale"),
        sub("status", STATUS, "apps", "v1", "ReplicaSet"),
    ],
    store: StoreGroup::State,
};

pub static DAEMON_SET: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "DaemonSet",
    plural: "daemonsets",
    singular: "daemonset",
    short_names: &["ds"],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[sub("status", STATUS, "apps", "v1", "DaemonSet")],
    store: StoreGroup::State,
};

pub static CONTROLLER_REVISION: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    singular: "controllerrevision",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
    singular: "job",
    short_names: &[],
    categories: &["all"],
    namespaced: true,
    verbs: ALL,
    subresources: &[sub("status", STATUS, "batch", "v1", "Job")],
    store: StoreGroup::State,
};

pub static ENDPOINT_SLICE: Kind = Kind {
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::Leases,
};

pub static PRIORITY_CLASS: Kind = Kind {
    group: "scheduling.k8s.io",
    version: "v1",
    kind: "PriorityClass",
    plural: "priorityclasses",
    singular: "priorityclass",
    short_names: &["pc"],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static FLOW_SCHEMA: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    version: "v1",
    kind: "FlowSchema",
    plural: "flowschemas",
    singular: "flowschema",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[sub("status", STATUS, "flowcontrol.apiserver.k8s.io", "v1", "FlowSchema")],
    store: StoreGroup::State,
};

pub static PRIORITY_LEVEL_CONFIGURATION: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    version: "v1",
    kind: "PriorityLevelConfiguration",
    plural: "prioritylevelconfigurations",
    singular: "prioritylevelconfiguration",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[sub("status", STATUS, "flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration")],
    store: StoreGroup::State,
};

pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static CLUSTER_ROLE: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static ROLE_BINDING: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind: "RoleBinding",
    plural: "rolebindings",
    singular: "rolebinding",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static ROLE: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind: "Role",
    plural: "roles",
    singular: "role",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    store: StoreGroup::State,
};

pub static CERTIFICATE_SIGNING_REQUEST: Kind = Kind {
    group: "certificates.k8s.io",
    version: "v1",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short_names: &["csr"],
    categories: &[],
    namespaced: false,
    verbs: ALL,
    subresources: &[
        sub("approval", STATUS, "certificates.k8s.io", "v1", "CertificateSigningRequest"),
        sub("status", STATUS, "certificates.k8s.io", "v1", "CertificateSigningRequest"),
    ],
    store: StoreGroup::State,
};

pub static TOKEN_REVIEW: Kind = Kind {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenReview",
    plural: "tokenreviews",
    singular: "tokenreview",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static SELF_SUBJECT_REVIEW: Kind = Kind {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static SUBJECT_ACCESS_REVIEW: Kind = Kind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    singular: "subjectaccessreview",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static LOCAL_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "LocalSubjectAccessReview",
    plural: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static SELF_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SelfSubjectAccessReview",
    plural: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};

pub static SELF_SUBJECT_RULES_REVIEW: Kind = Kind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SelfSubjectRulesReview",
    plural: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    short_names: &[],
    categories: &[],
    namespaced: false,
    verbs: CREATE,
    subresources: &[],
    store: StoreGroup::State,
};
