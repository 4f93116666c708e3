//! What the mirroring controller looks at. Decides nothing.

use std::sync::Arc;

use crate::endpoints::Endpoints;
use crate::objects::{EndpointSlice, Service};

/// One Endpoints object, the service of its name, and the slices that mirror it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub endpoints: Option<Arc<Endpoints>>,
    pub service: Option<Arc<Service>>,
    /// The slices of the service that this controller manages.
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// Whose slices these are.
pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// `true` on an Endpoints object: it is not mirrored.
pub const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// On an Endpoints object that is only somebody's lock.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
