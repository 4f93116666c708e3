//! A ValidatingAdmissionPolicy as its type checks read it. Decides nothing.

use std::sync::Arc;

use gantry_apimachinery::cel::Decl;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ValidatingAdmissionPolicy {
    pub metadata: ObjectMeta,
    pub spec: PolicySpec,
    pub status: PolicyStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySpec {
    pub param_kind: Option<ParamKind>,
    pub match_constraints: MatchConstraints,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchConstraints {
    pub resource_rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    pub resources: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Variable {
    pub name: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Validation {
    pub expression: String,
    pub message_expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_checking: Option<TypeChecking>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeChecking {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expression_warnings: Vec<ExpressionWarning>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExpressionWarning {
    pub field_ref: String,
    pub warning: String,
}

/// One policy, and the kinds that its expressions are about.
#[derive(Clone, Debug)]
pub struct Observed {
    pub policy: Arc<ValidatingAdmissionPolicy>,
    /// As messages name them, and what expressions see of their objects.
    pub kinds: Vec<(String, Decl)>,
    pub params: Decl,
}

impl Object for ValidatingAdmissionPolicy {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
