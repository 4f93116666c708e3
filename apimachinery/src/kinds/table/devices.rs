//! The rows of devices and of claims for them.

use super::{CLUSTER_WIDE, NAMESPACED, STATUS, sub};
use crate::kinds::Kind;

pub static DEVICE_CLASS: Kind = Kind {
    group: "resource.k8s.io",
    kind: "DeviceClass",
    plural: "deviceclasses",
    singular: "deviceclass",
    ..CLUSTER_WIDE
};

pub static RESOURCE_CLAIM: Kind = Kind {
    group: "resource.k8s.io",
    kind: "ResourceClaim",
    plural: "resourceclaims",
    singular: "resourceclaim",
    subresources: &[sub("status", STATUS, "resource.k8s.io", "v1", "ResourceClaim")],
    ..NAMESPACED
};

pub static RESOURCE_CLAIM_TEMPLATE: Kind = Kind {
    group: "resource.k8s.io",
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    ..NAMESPACED
};

pub static RESOURCE_SLICE: Kind = Kind {
    group: "resource.k8s.io",
    kind: "ResourceSlice",
    plural: "resourceslices",
    singular: "resourceslice",
    ..CLUSTER_WIDE
};
