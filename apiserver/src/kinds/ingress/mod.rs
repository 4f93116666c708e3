//! What an Ingress means to the API: its rules, and what `kubectl get` shows. Who routes by it is its controller's.

mod validate;

use super::columns::{self, Column};
use super::value::{at, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct Ingress;

/// How older clients name the class.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Hosts that a row has room for.
const SHOWN_HOSTS: usize = 3;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Class", "The name of the IngressClass resource that should be used for additional configuration"),
    Column::text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
    Column::text("Address", "Address is a list containing ingress points for the load-balancer"),
    Column::text("Ports", "Ports of TLS configurations that open"),
    Column::AGE,
];

impl Strategy for Ingress {
    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"loadBalancer": {}});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return validate::status(new, errors);
        }
        let annotated = new["metadata"]["annotations"].get(CLASS_ANNOTATION).and_then(Value::as_str);
        if let (Some(class), true, None) = (annotated, at(new, "spec.ingressClassName").is_some(), old) {
            let why = "can not be set when the class field is also set";
            errors.invalid(format!("annotations.{CLASS_ANNOTATION}"), class, why);
        }
        validate::spec(&new["spec"], errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = |object: &Value| object["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some();
        if annotated(new) && !old.is_some_and(annotated) {
            let why = "is deprecated, please use 'spec.ingressClassName' instead";
            return vec![format!("annotation {CLASS_ANNOTATION:?} {why}")];
        }
        Vec::new()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let address = |ingress: &Value| match str_at(ingress, "ip") {
            "" => str_at(ingress, "hostname").to_owned(),
            ip => ip.to_owned(),
        };
        let addresses: BTreeSet<String> = items(object, "status.loadBalancer.ingress").iter().map(address).collect();
        let secure = !items(object, "spec.tls").is_empty();
        vec![
            columns::name(object),
            at(object, "spec.ingressClassName").cloned().unwrap_or_else(|| "<none>".into()),
            hosts(items(object, "spec.rules")).into(),
            addresses.into_iter().filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",").into(),
            if secure { "80, 443" } else { "80" }.into(),
            columns::age(object, now),
        ]
    }
}

fn hosts(rules: &[Value]) -> String {
    let named = rules.iter().take(SHOWN_HOSTS).map(|rule| str_at(rule, "host")).filter(|host| !host.is_empty());
    let shown = named.collect::<Vec<_>>().join(",");
    match rules.len() {
        _ if shown.is_empty() => "*".to_owned(),
        all if all > SHOWN_HOSTS => format!("{shown} + {} more...", all - SHOWN_HOSTS),
        _ => shown,
    }
}

#[cfg(test)]
mod tests;
