//! What a policy's author is told, once for each generation.

use gantry_apimachinery::cel::Decl;
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::schema::declare;
use serde_json::{Value, json};

use super::core::reconcile;
use super::named;
use super::types::{Observed, Rule};
use crate::plan::Plan;
use crate::sim::World;

const KIND: &Kind = &kinds::VALIDATING_ADMISSION_POLICY;

fn look(world: &World) -> Plan {
    let policy: std::sync::Arc<super::ValidatingAdmissionPolicy> = world.get(KIND, "", "p").unwrap();
    let kinds = named(&policy.spec.match_constraints.resource_rules);
    let params = policy.spec.param_kind.as_ref().and_then(|kind| declare::of_kind("", "v1", &kind.kind));
    reconcile(&Observed { policy, kinds, params: params.unwrap_or_else(|| Decl::dynamic().clone()) })
}

fn policy(mut spec: Value) -> World {
    let mut world = World::new();
    spec["matchConstraints"] = json!({"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "statefulsets", "deployments/scale", "*"]}]});
    world.create(KIND, json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    world
}

/// `fieldRef: warning` of each.
fn told(world: &mut World) -> Vec<String> {
    let plan = look(world);
    world.apply(&plan).unwrap();
    assert!(look(world).is_settled(), "{:?}", look(world));
    let status = &world.raw(KIND, "", "p").unwrap()["status"];
    assert_eq!(status["observedGeneration"], world.raw(KIND, "", "p").unwrap()["metadata"]["generation"]);
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().cloned().unwrap_or_default();
    let text = |warning: &Value, field: &str| warning[field].as_str().unwrap().to_owned();
    warnings.iter().map(|warning| format!("{}: {}", text(warning, "fieldRef"), text(warning, "warning"))).collect()
}

#[test]
fn an_expression_that_names_nothing_is_told() {
    let check = |spec: Value, expect: &[&str]| {
        let told = told(&mut policy(spec.clone()));
        let starts = told.len() == expect.len() && told.iter().zip(expect).all(|(text, start)| text.starts_with(start));
        assert!(starts, "{spec}: {told:?}");
    };
    check(json!({"validations": [{"expression": "object.spec.replicas > 1"}]}), &[]);
    check(
        json!({"validations": [{"expression": "object.spec.nothing > 1"}]}),
        &["spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'nothing'"],
    );
    check(
        json!({"validations": [{"expression": "true"}, {"expression": "true", "messageExpression": "object.a"}]}),
        &["spec.validations[1].messageExpression: apps/v1, Kind=Deployment: ERROR"],
    );
    // What only one of the kinds has is told for the other.
    check(
        json!({"validations": [{"expression": "object.spec.serviceName == 'a'"}]}),
        &["spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR"],
    );
    check(
        json!({"variables": [{"name": "a", "expression": "object.spec.replicas"}, {"name": "b", "expression": "variables.a + 1"}],
            "validations": [{"expression": "variables.b > 1"}, {"expression": "variables.b == 'x'"}, {"expression": "variables.c"}]}),
        &["spec.validations[1].expression: ", "spec.validations[2].expression: "],
    );
    check(
        json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "params.data.a == 'x'"}, {"expression": "params.dat.a == 'x'"}]}),
        &["spec.validations[1].expression: "],
    );
    check(json!({"validations": [{"expression": "authorizer.nothing"}]}), &[]);
}

#[test]
fn a_changed_policy_is_looked_at_again() {
    let mut world = policy(json!({"validations": [{"expression": "object.nothing"}]}));
    assert_eq!(told(&mut world).len(), 1);
    world.edit(KIND, "", "p", |policy| policy["spec"]["validations"] = json!([{"expression": "true"}]));
    assert!(told(&mut world).is_empty());
}

#[test]
fn a_policy_is_about_no_more_kinds_than_it_names() {
    let rule = |plural: &str| Rule {
        api_groups: vec!["".into(), "*".into()],
        api_versions: vec!["v1".into()],
        resources: vec![plural.into(), "pods/status".into()],
    };
    let names: Vec<String> = named(&[rule("pods"), rule("widgets")]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["v1, Kind=Pod"]);
}
