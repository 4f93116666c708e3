//! The rows of workloads, of what bounds them, and of what scales them.

use super::{NAMESPACED, STATUS, sub};
use crate::kinds::Kind;

pub static POD_TEMPLATE: Kind =
    Kind { kind: "PodTemplate", plural: "podtemplates", singular: "podtemplate", ..NAMESPACED };

pub static REPLICATION_CONTROLLER: Kind = Kind {
    kind: "ReplicationController",
    plural: "replicationcontrollers",
    singular: "replicationcontroller",
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[
        sub("scale", STATUS, "autoscaling", "v1", "Scale"),
        sub("status", STATUS, "", "v1", "ReplicationController"),
    ],
    ..NAMESPACED
};

pub static RESOURCE_QUOTA: Kind = Kind {
    kind: "ResourceQuota",
    plural: "resourcequotas",
    singular: "resourcequota",
    short_names: &["quota"],
    subresources: &[sub("status", STATUS, "", "v1", "ResourceQuota")],
    ..NAMESPACED
};

pub static LIMIT_RANGE: Kind =
    Kind { kind: "LimitRange", plural: "limitranges", singular: "limitrange", short_names: &["limits"], ..NAMESPACED };

pub static STATEFUL_SET: Kind = Kind {
    group: "apps",
    kind: "StatefulSet",
    plural: "statefulsets",
    singular: "statefulset",
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[
        sub("scale", STATUS, "autoscaling", "v1", "Scale"),
        sub("status", STATUS, "apps", "v1", "StatefulSet"),
    ],
    ..NAMESPACED
};

pub static CRON_JOB: Kind = Kind {
    group: "batch",
    kind: "CronJob",
    plural: "cronjobs",
    singular: "cronjob",
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[sub("status", STATUS, "batch", "v1", "CronJob")],
    ..NAMESPACED
};

pub static HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[sub("status", STATUS, "autoscaling", "v2", "HorizontalPodAutoscaler")],
    ..NAMESPACED
};

/// As clients of the first version see the same autoscalers.
pub static HORIZONTAL_POD_AUTOSCALER_V1: Kind = Kind {
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[sub("status", STATUS, "autoscaling", "v1", "HorizontalPodAutoscaler")],
    ..NAMESPACED
};

pub static POD_DISRUPTION_BUDGET: Kind = Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    subresources: &[sub("status", STATUS, "policy", "v1", "PodDisruptionBudget")],
    ..NAMESPACED
};
