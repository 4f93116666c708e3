//! Admission: what the cluster adds to a request or refuses, between decoding and the kind's own rules. Decides the order of the
//! plugins; each plugin's file says what it decides.

mod certificates;
mod default_class;
mod limit_ranger;
mod matching;
mod namespace;
mod node_restriction;
mod node_taint;
mod pod_security;
mod policies;
mod priority;
mod runtime_class;
mod service_account;
mod storage_in_use;
mod tolerations;
mod webhooks;

use crate::core::Core;
use crate::http::Outcome;
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{
    MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_ADMISSION_POLICY_BINDING, VALIDATING_WEBHOOK_CONFIGURATION,
};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What a plugin may look at beside the object.
pub struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    pub name: &'a str,
    pub old: Option<&'a Value>,
}

impl Attributes<'_> {
    /// A new pod itself, not one of its subresources.
    fn creates_pod(&self) -> bool {
        self.operation == Operation::Create && self.writes_pod()
    }

    /// A pod itself, new or changed, not one of its subresources.
    fn writes_pod(&self) -> bool {
        self.operation != Operation::Delete
            && self.call.subresource.is_none()
            && self.call.kind().group.is_empty()
            && self.call.kind().plural == "pods"
    }
}

/// One plugin. `mutate` runs before defaulting, `validate` after the kind's own validation.
pub trait Admission: Send + Sync {
    fn mutate(&self, _attributes: &Attributes<'_>, _object: &mut Value) -> Outcome<()> {
        Ok(())
    }
    fn validate(&self, _attributes: &Attributes<'_>, _object: &Value) -> Outcome<()> {
        Ok(())
    }
}

/// Whether webhooks or policies may have a say about any request at all.
pub fn has_outsiders(core: &Core) -> bool {
    [&MUTATING_WEBHOOK_CONFIGURATION, &VALIDATING_WEBHOOK_CONFIGURATION, &VALIDATING_ADMISSION_POLICY_BINDING]
        .into_iter()
        .any(|kind| !core.stored_kind(kind).resource.is_empty())
}

/// What extends the API has its say after the built-in plugins. Answers whether the object changed, and so must be defaulted again.
pub async fn mutate_outside(attributes: &Attributes<'_>, object: &mut Value) -> Outcome<bool> {
    webhooks::mutate(attributes, object).await
}

/// As [`mutate_outside`], of those who may only refuse. `object` is `None` for a delete.
pub async fn validate_outside(attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<()> {
    policies::validate(attributes, object)?;
    webhooks::validate(attributes, object).await
}

/// In the order in which they run.
pub fn built_in() -> Vec<Box<dyn Admission>> {
    vec![
        Box::new(namespace::NamespaceLifecycle),
        Box::new(node_restriction::NodeRestriction),
        Box::new(node_taint::NodeTaint),
        Box::new(service_account::ServiceAccount),
        Box::new(priority::Priority),
        Box::new(tolerations::DefaultTolerationSeconds),
        Box::new(runtime_class::RuntimeClass),
        Box::new(default_class::DefaultClass),
        Box::new(storage_in_use::StorageObjectInUse),
        Box::new(limit_ranger::LimitRanger),
        Box::new(pod_security::PodSecurity),
        Box::new(certificates::Certificates),
    ]
}
