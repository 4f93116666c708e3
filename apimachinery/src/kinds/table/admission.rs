//! The rows of what has a say in other writes.

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
