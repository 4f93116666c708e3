//! The rows of what has a say in other writes, and of what hands whole groups on to other servers.

use super::{CLUSTER_WIDE, STATUS, sub};
use crate::kinds::Kind;

pub static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    group: "admissionregistration.k8s.io",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    categories: &["api-extensions"],
    ..CLUSTER_WIDE
};

pub static VALIDATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    categories: &["api-extensions"],
    ..CLUSTER_WIDE
};

pub static VALIDATING_ADMISSION_POLICY: Kind = Kind {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    categories: &["api-extensions"],
    subresources: &[sub("status", STATUS, "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy")],
    ..CLUSTER_WIDE
};

pub static VALIDATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    categories: &["api-extensions"],
    ..CLUSTER_WIDE
};

pub static API_SERVICE: Kind = Kind {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    plural: "apiservices",
    singular: "apiservice",
    categories: &["api-extensions"],
    subresources: &[sub("status", STATUS, "apiregistration.k8s.io", "v1", "APIService")],
    ..CLUSTER_WIDE
};
