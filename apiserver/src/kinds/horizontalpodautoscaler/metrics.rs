//! Decides whether a metric that an autoscaler follows is valid, and how metrics read in `kubectl get`.

use super::{has, reference};
use crate::kinds::quantities::read;
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const UNKNOWN: &str = "<unknown>";

/// The member that holds a metric of this type.
fn member(kind: &str) -> &'static str {
    match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    }
}

pub fn validate(metric: &Value, path: &str, errors: &mut FieldErrors) {
    let kind = str_at(metric, "type");
    if kind.is_empty() {
        errors.required_because(format!("{path}.type"), "must specify a metric source type");
    } else if !TYPES.contains(&kind) {
        errors.not_supported(format!("{path}.type"), kind, TYPES);
    }
    let expected = member(kind);
    let present: Vec<&str> = TYPES.iter().map(|kind| member(kind)).filter(|member| has(metric, member)).collect();
    for member in &present {
        source(member, &metric[*member], &format!("{path}.{member}"), errors);
    }
    if !expected.is_empty() && !present.contains(&expected) {
        let why = "must populate information for the given metric source";
        errors.required_because(format!("{path}.{expected}"), why);
    }
    for other in present.iter().filter(|member| **member != expected) {
        errors.forbidden(format!("{path}.{other}"), "must populate the given metric source only");
    }
}

fn source(member: &str, source: &Value, path: &str, errors: &mut FieldErrors) {
    match member {
        "resource" | "containerResource" => {
            if str_at(source, "name").is_empty() {
                errors.required_because(format!("{path}.name"), "must specify a resource name");
            }
            if member == "containerResource" && str_at(source, "container").is_empty() {
                errors.required_because(format!("{path}.container"), "must specify a container");
            }
        }
        _ => {
            if member == "object" {
                reference(&source["describedObject"], &format!("{path}.describedObject"), errors);
            }
            identifier(&source["metric"], &format!("{path}.metric"), errors);
        }
    }
    let (target, path) = (&source["target"], format!("{path}.target"));
    self::target(target, &path, errors);
    let (value, average, utilization) =
        (has(target, "value"), has(target, "averageValue"), has(target, "averageUtilization"));
    match member {
        "resource" | "containerResource" if !utilization && !average => {
            let why = "must set either a target raw value or a target utilization";
            errors.required_because(format!("{path}.averageUtilization"), why);
        }
        "resource" | "containerResource" if utilization && average => {
            let why = "may not set both a target raw value and a target utilization";
            errors.forbidden(format!("{path}.averageValue"), why);
        }
        "pods" if !average => {
            errors.required_because(format!("{path}.averageValue"), "must specify a positive target averageValue");
        }
        "object" if !value && !average => {
            let why = "must set either a target value or averageValue";
            errors.required_because(format!("{path}.averageValue"), why);
        }
        "external" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            errors.required_because(format!("{path}.averageValue"), why);
        }
        "external" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(format!("{path}.value"), why);
        }
        _ => {}
    }
}

fn identifier(metric: &Value, path: &str, errors: &mut FieldErrors) {
    let name = str_at(metric, "name");
    if name.is_empty() {
        errors.required_because(format!("{path}.name"), "must specify a metric name");
    } else if let Err(why) = names::path_segment(name) {
        errors.invalid(format!("{path}.name"), name, why);
    }
}

fn target(target: &Value, path: &str, errors: &mut FieldErrors) {
    match str_at(target, "type") {
        "" => errors.required_because(format!("{path}.type"), "must specify a metric target type"),
        "Utilization" | "Value" | "AverageValue" => {}
        other => {
            let why = "must be either Utilization, Value, or AverageValue";
            errors.invalid(format!("{path}.type"), other, why);
        }
    }
    if let Some(percent) = i64_at(target, "averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid(format!("{path}.averageUtilization"), percent, "must be greater than 0");
    }
    for field in ["value", "averageValue"] {
        if read(&target[field]).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
            errors.invalid(format!("{path}.{field}"), target[field].clone(), "must be positive");
        }
    }
}

/// `cpu: 12%/80%`, at most two of them: the metrics as they are and as they should be.
pub fn targets(autoscaler: &Value) -> String {
    let wanted = items(autoscaler, "spec.metrics");
    if wanted.is_empty() {
        return "<none>".to_owned();
    }
    let now = items(autoscaler, "status.currentMetrics");
    let texts: Vec<String> = wanted.iter().zip(0..).map(|(metric, position)| one(metric, now.get(position))).collect();
    match texts.len() {
        0..=2 => texts.join(", "),
        all => format!("{} + {} more...", texts[..2].join(", "), all - 2),
    }
}

fn one(metric: &Value, now: Option<&Value>) -> String {
    let member = member(str_at(metric, "type"));
    if member.is_empty() {
        return "<unknown type>".to_owned();
    }
    let target = &metric[member]["target"];
    let current = now.map(|now| &now[member]["current"]);
    let amount = |holder: Option<&Value>, field: &str| {
        holder.and_then(|holder| at(holder, field)).map(|value| match value.as_i64() {
            Some(percent) => format!("{percent}%"),
            None => value.as_str().unwrap_or_default().to_owned(),
        })
    };
    let by_average = member == "pods" || has(target, "averageValue");
    let field = match member {
        "resource" | "containerResource" if !has(target, "averageValue") => "averageUtilization",
        _ if by_average => "averageValue",
        _ => "value",
    };
    let is = amount(current, field).unwrap_or_else(|| UNKNOWN.to_owned());
    let should = amount(Some(target), field).unwrap_or_else(|| "<auto>".to_owned());
    let average = if field == "averageValue" && matches!(member, "object" | "external") { " (avg)" } else { "" };
    match member {
        "resource" | "containerResource" => format!("{}: {is}/{should}", str_at(&metric[member], "name")),
        _ => format!("{is}/{should}{average}"),
    }
}
