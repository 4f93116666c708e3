//! Decides what a policy's author is told of its expressions: which of them name what the kinds that they are about do not have. Each
//! generation is looked at once; nothing is refused for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::cel::{self, Decl, FieldDecl, ObjectType};
use gantry_apimachinery::kinds;

use super::types::{ExpressionWarning, Observed, PolicySpec, PolicyStatus, TypeChecking};
use crate::plan::Plan;
use crate::status;

pub fn reconcile(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let policy = &observed.policy;
    let meta = &policy.metadata;
    if meta.deletion_timestamp.is_some()
        || (policy.status.observed_generation == meta.generation && policy.status.type_checking.is_some())
    {
        return plan;
    }
    let checked = TypeChecking { expression_warnings: warnings(observed) };
    let new = PolicyStatus { observed_generation: meta.generation, type_checking: Some(checked) };
    plan.status = Some(status::write_locked(&kinds::VALIDATING_ADMISSION_POLICY, meta, &policy.status, &new));
    plan
}

fn warnings(observed: &Observed) -> Vec<ExpressionWarning> {
    let spec = &observed.policy.spec;
    let declared: Vec<(&str, Vec<(&str, Decl)>)> =
        observed.kinds.iter().map(|(name, object)| (name.as_str(), declared(spec, object, &observed.params))).collect();
    let mut all = Vec::new();
    let mut check = |expression: &str, field_ref: String| {
        let found: Vec<String> = declared
            .iter()
            .filter_map(|(kind, names)| Some(format!("{kind}: {}\n", fault(expression, names)?)))
            .collect();
        if !found.is_empty() {
            all.push(ExpressionWarning { field_ref, warning: found.join("\n") });
        }
    };
    for (position, validation) in spec.validations.iter().enumerate() {
        check(&validation.expression, format!("spec.validations[{position}].expression"));
        if !validation.message_expression.is_empty() {
            check(&validation.message_expression, format!("spec.validations[{position}].messageExpression"));
        }
    }
    all
}

/// What the authoriser is asked is known where expressions run.
fn fault(expression: &str, names: &[(&str, Decl)]) -> Option<String> {
    if expression.contains("authorizer") {
        return None;
    }
    cel::compile(expression, names).err().map(|error| error.to_string())
}

/// What the expressions of a policy may refer to, for objects of one kind.
fn declared(spec: &PolicySpec, object: &Decl, params: &Decl) -> Vec<(&'static str, Decl)> {
    let dynamic = || Decl::dynamic().clone();
    let mut names = vec![
        ("object", object.clone()),
        ("oldObject", object.clone()),
        ("request", dynamic()),
        ("namespaceObject", dynamic()),
        ("params", params.clone()),
    ];
    // A variable may use those before it.
    let mut fields = BTreeMap::new();
    for variable in &spec.variables {
        let mut known = names.clone();
        known.push(("variables", variables(&fields)));
        let ty = cel::compile(&variable.expression, &known).map_or(cel::Type::Dyn, |program| program.result().clone());
        fields.insert(variable.name.clone(), ty);
    }
    names.push(("variables", variables(&fields)));
    names
}

fn variables(types: &BTreeMap<String, cel::Type>) -> Decl {
    let field = |(name, ty): (&String, &cel::Type)| {
        (name.clone(), FieldDecl { json: name.clone(), decl: Decl::of(ty.clone()) })
    };
    let object = ObjectType { name: "kubernetes.variables".to_owned(), fields: types.iter().map(field).collect() };
    Decl::of(cel::Type::Object(Arc::new(object)))
}
