//! Claims and volumes as their protection reads them. Decides nothing.

use std::sync::Arc;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    pub status: VolumeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    pub phase: Option<String>,
}

/// One claim or volume, and whether it is used.
#[derive(Clone, Debug)]
pub enum Observed {
    /// Used by a pod on a machine.
    Claim(Arc<PersistentVolumeClaim>, bool),
    Volume(Arc<PersistentVolume>),
}

impl Object for PersistentVolumeClaim {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Object for PersistentVolume {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
