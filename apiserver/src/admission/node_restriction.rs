//! NodeRestriction: an agent makes only its own machine, and only mirror pods that run on it.

use super::{Admission, Attributes, Operation};
use crate::http::Outcome;
use crate::kinds::value::str_at;
use gantry_apimachinery::status::Status;
use serde_json::Value;

const MIRROR: &str = "kubernetes.io/config.mirror";

pub struct NodeRestriction;

impl Admission for NodeRestriction {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let Some(node) = attributes.call.user.node_name() else { return Ok(()) };
        if attributes.operation != Operation::Create || !attributes.call.kind().group.is_empty() {
            return Ok(());
        }
        let why = match attributes.call.kind().plural {
            "nodes" if attributes.name != node => {
                format!("node {node:?} is not allowed to create node {:?}", attributes.name)
            }
            "pods" if object["metadata"]["annotations"].get(MIRROR).is_none() => {
                format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods")
            }
            "pods" if str_at(object, "spec.nodeName") != node => {
                format!("node {node:?} can only create pods with spec.nodeName set to itself")
            }
            _ => return Ok(()),
        };
        Err(Status::forbidden(attributes.call.kind().plural, attributes.name, &why).into())
    }
}
