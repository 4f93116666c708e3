//! The rows of Gantry's own kinds.

use super::{CLUSTER_WIDE, CREATE, NAMESPACED, READ, STATUS, sub};
use crate::kinds::{Kind, StoreGroup};

const OWN: Kind = Kind { group: "gantry.dev", ..NAMESPACED };
const OWN_CLUSTER_WIDE: Kind = Kind { group: "gantry.dev", ..CLUSTER_WIDE };

pub static NODE_ALLOCATION: Kind = Kind {
    kind: "NodeAllocation",
    plural: "nodeallocations",
    singular: "nodeallocation",
    verbs: READ,
    ..OWN_CLUSTER_WIDE
};

pub static AT_MOST_ONE_CLAIM: Kind =
    Kind { kind: "AtMostOneClaim", plural: "atmostoneclaims", singular: "atmostoneclaim", verbs: READ, ..OWN };

/// Pods that start together.
pub static POD_GROUP: Kind = Kind {
    kind: "PodGroup",
    plural: "podgroups",
    singular: "podgroup",
    short_names: &["pg"],
    subresources: &[sub("status", STATUS, "gantry.dev", "v1", "PodGroup")],
    ..OWN
};

/// What a machine lends to batch beyond its allocatable; named as the machine.
pub static BATCH_CAPACITY: Kind =
    Kind { kind: "BatchCapacity", plural: "batchcapacities", singular: "batchcapacity", ..OWN_CLUSTER_WIDE };

/// A question to the scheduler. It lives as long as an Event.
pub static PLACEMENT_REVIEW: Kind = Kind {
    kind: "PlacementReview",
    plural: "placementreviews",
    singular: "placementreview",
    subresources: &[sub("status", STATUS, "gantry.dev", "v1", "PlacementReview")],
    store: StoreGroup::Events,
    ..OWN
};

pub static BINDING_BATCH: Kind =
    Kind { kind: "BindingBatch", plural: "bindings", singular: "bindingbatch", verbs: CREATE, ..OWN_CLUSTER_WIDE };

pub static EVENT_BATCH: Kind = Kind {
    kind: "EventBatch",
    plural: "events",
    singular: "eventbatch",
    verbs: CREATE,
    store: StoreGroup::Events,
    ..OWN_CLUSTER_WIDE
};
