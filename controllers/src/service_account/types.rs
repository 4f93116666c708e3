//! What the service-account controller looks at. Decides nothing.

use std::sync::Arc;

use crate::objects::{Namespace, ServiceAccount};

/// A namespace and its account, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    pub account: Option<Arc<ServiceAccount>>,
}

/// The account that pods use which name none.
pub const DEFAULT: &str = "default";
