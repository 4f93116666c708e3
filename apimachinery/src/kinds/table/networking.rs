//! The rows of what routes, bounds and numbers traffic.

use super::{CLUSTER_WIDE, NAMESPACED, STATUS, sub};
use crate::kinds::Kind;

pub static INGRESS: Kind = Kind {
    group: "networking.k8s.io",
    kind: "Ingress",
    plural: "ingresses",
    singular: "ingress",
    short_names: &["ing"],
    subresources: &[sub("status", STATUS, "networking.k8s.io", "v1", "Ingress")],
    ..NAMESPACED
};

pub static INGRESS_CLASS: Kind = Kind {
    group: "networking.k8s.io",
    kind: "IngressClass",
    plural: "ingressclasses",
    singular: "ingressclass",
    ..CLUSTER_WIDE
};

pub static NETWORK_POLICY: Kind = Kind {
    group: "networking.k8s.io",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    singular: "networkpolicy",
    short_names: &["netpol"],
    ..NAMESPACED
};

pub static SERVICE_CIDR: Kind = Kind {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    singular: "servicecidr",
    subresources: &[sub("status", STATUS, "networking.k8s.io", "v1", "ServiceCIDR")],
    ..CLUSTER_WIDE
};

pub static IP_ADDRESS: Kind = Kind {
    group: "networking.k8s.io",
    kind: "IPAddress",
    plural: "ipaddresses",
    singular: "ipaddress",
    short_names: &["ip"],
    ..CLUSTER_WIDE
};
