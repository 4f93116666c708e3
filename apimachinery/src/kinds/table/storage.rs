//! The rows of volumes, of what makes and attaches them, and of what runs containers.

use super::{CLUSTER_WIDE, NAMESPACED, STATUS, sub};
use crate::kinds::Kind;

pub static PERSISTENT_VOLUME: Kind = Kind {
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    singular: "persistentvolume",
    short_names: &["pv"],
    subresources: &[sub("status", STATUS, "", "v1", "PersistentVolume")],
    ..CLUSTER_WIDE
};

pub static PERSISTENT_VOLUME_CLAIM: Kind = Kind {
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    short_names: &["pvc"],
    subresources: &[sub("status", STATUS, "", "v1", "PersistentVolumeClaim")],
    ..NAMESPACED
};

pub static STORAGE_CLASS: Kind = Kind {
    group: "storage.k8s.io",
    kind: "StorageClass",
    plural: "storageclasses",
    singular: "storageclass",
    short_names: &["sc"],
    ..CLUSTER_WIDE
};

pub static VOLUME_ATTACHMENT: Kind = Kind {
    group: "storage.k8s.io",
    kind: "VolumeAttachment",
    plural: "volumeattachments",
    singular: "volumeattachment",
    subresources: &[sub("status", STATUS, "storage.k8s.io", "v1", "VolumeAttachment")],
    ..CLUSTER_WIDE
};

pub static CSI_DRIVER: Kind =
    Kind { group: "storage.k8s.io", kind: "CSIDriver", plural: "csidrivers", singular: "csidriver", ..CLUSTER_WIDE };

pub static CSI_NODE: Kind =
    Kind { group: "storage.k8s.io", kind: "CSINode", plural: "csinodes", singular: "csinode", ..CLUSTER_WIDE };

pub static CSI_STORAGE_CAPACITY: Kind = Kind {
    group: "storage.k8s.io",
    kind: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    singular: "csistoragecapacity",
    ..NAMESPACED
};

pub static VOLUME_ATTRIBUTES_CLASS: Kind = Kind {
    group: "storage.k8s.io",
    kind: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    singular: "volumeattributesclass",
    short_names: &["vac"],
    ..CLUSTER_WIDE
};

pub static RUNTIME_CLASS: Kind = Kind {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    plural: "runtimeclasses",
    singular: "runtimeclass",
    ..CLUSTER_WIDE
};
