//! What the endpoint-slice controller looks at. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{EndpointSlice, Pod, Service};

/// What it needs to know of a machine that runs endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub zone: Option<String>,
    /// Its agent is silent: its pods are not ready, whatever they last said.
    pub unreachable: bool,
}

/// One service, the pods that it selects, and its slices.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub service: Arc<Service>,
    pub pods: Vec<Arc<Pod>>,
    pub machines: BTreeMap<String, Machine>,
    /// The slices that this controller manages for the service.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Milliseconds since this service's slices were last written, when that is less than the pace allows.
    pub wrote_ago_ms: Option<u64>,
}

pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Whose slices these are.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// When the readiness that a slice now shows changed.
pub const CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";
