//! Slim projections of the kinds that several controllers read: only the fields that some controller decides on.
//! They are read from the API and never written back; writes are patches.

mod api_service;
mod condition;
mod definition;
mod node;
mod pod;
mod replica_set;
mod service;
mod small;
mod template;

pub use api_service::ApiService;
pub use condition::{Condition, replace_condition, set_condition};
pub use definition::CustomResourceDefinition;
pub use node::{Node, Taint};
pub use pod::{Pod, Toleration, tolerates};
pub use replica_set::{ReplicaSet, ReplicaSetStatus};
pub use service::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Service, ServicePort, TargetRef};
pub use small::{ConfigMap, Lease, Namespace, ServiceAccount, compile};
pub use template::{HASH_LABEL, Template};
