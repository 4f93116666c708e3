//! NamespaceLifecycle's part that needs no transaction: the namespaces that the cluster cannot live without stay.
//! (Creates in a missing or ending namespace are refused by `effects::namespace`, inside the transaction.)

use super::{Admission, Attributes, Operation};
use crate::http::Outcome;
use gantry_apimachinery::status::Status;
use serde_json::Value;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub struct NamespaceLifecycle;

impl Admission for NamespaceLifecycle {
    fn validate(&self, attributes: &Attributes<'_>, _object: &Value) -> Outcome<()> {
        let kind = attributes.call.kind();
        let immortal = kind.group.is_empty() && kind.plural == "namespaces" && IMMORTAL.contains(&attributes.name);
        if attributes.operation == Operation::Delete && immortal {
            return Err(Status::forbidden("namespaces", attributes.name, "this namespace may not be deleted").into());
        }
        Ok(())
    }
}
