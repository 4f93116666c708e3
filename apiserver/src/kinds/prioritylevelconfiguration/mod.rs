//! What a PriorityLevelConfiguration means to the API: shares, queues and hands that fit together. Who waits and who runs is
//! decided by `fairness`.

use super::flowschema::{check_conditions, none_if_zero};
use super::value::{at, child, default, i64_at, remove, str_at};
use super::{Column, Ctx, Strategy, columns};
use crate::fairness::defaults::{mandatory, same};
use gantry_apimachinery::kinds::PRIORITY_LEVEL_CONFIGURATION;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const EXEMPT: &str = "exempt";
/// Hands are dealt from one 64-bit hash; Kubernetes leaves four bits.
const MAX_ENTROPY_BITS: f64 = 60.0;
const MAX_QUEUES: i64 = 10_000_000;

pub struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        let is_there = |object: &Value, path: &str| at(object, path).is_some_and(Value::is_object);
        if is_there(spec, "limited") {
            let limited = child(spec, "limited");
            default(limited, "nominalConcurrencyShares", 30);
            default(limited, "lendablePercent", 0);
            if is_there(limited, "limitResponse.queuing") {
                let queuing = child(child(limited, "limitResponse"), "queuing");
                for (field, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                    none_if_zero(queuing, field);
                    default(queuing, field, value);
                }
            }
        }
        if is_there(spec, "exempt") {
            let exempt = child(spec, "exempt");
            default(exempt, "nominalConcurrencyShares", 0);
            default(exempt, "lendablePercent", 0);
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return check_conditions(new, errors);
        }
        let spec = &new["spec"];
        let (kind, name) = (str_at(spec, "type"), str_at(new, "metadata.name"));
        if (kind == "Exempt") != (name == EXEMPT) {
            errors.invalid("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'");
        }
        let is_there = |field: &str| spec[field].is_object();
        match kind {
            "Exempt" => {
                if is_there("limited") {
                    errors.forbidden("spec.limited", "must be nil if the type is not Limited");
                }
                check_shares(&spec["exempt"], "spec.exempt", errors);
            }
            "Limited" => {
                if is_there("exempt") {
                    errors.forbidden("spec.exempt", "must be nil if the type is Limited");
                }
                if is_there("limited") {
                    check_shares(&spec["limited"], "spec.limited", errors);
                    check_response(&spec["limited"], errors);
                } else {
                    errors.required_because("spec.limited", "must not be empty when type is Limited");
                }
            }
            other => errors.not_supported("spec.type", other, TYPES),
        }
        check_mandatory(name, spec, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Type", "Whether it is limited."),
            Column::text("NominalConcurrencyShares", "Its part of the seats."),
            Column::text("Queues", "How many queues it has."),
            Column::text("HandSize", "How many queues a flow may use."),
            Column::text("QueueLengthLimit", "How many requests may wait in one queue."),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let limited = &object["spec"]["limited"];
        let shown = |path: &str| at(limited, path).cloned().unwrap_or_else(|| "<none>".into());
        vec![
            columns::name(object),
            str_at(object, "spec.type").into(),
            shown("nominalConcurrencyShares"),
            shown("limitResponse.queuing.queues"),
            shown("limitResponse.queuing.handSize"),
            shown("limitResponse.queuing.queueLengthLimit"),
            columns::age(object, now),
        ]
    }
}

/// The shares of the exempt level may change, nothing else of what is mandatory.
fn check_mandatory(name: &str, spec: &Value, errors: &mut FieldErrors) {
    let Some(fixed) = mandatory(&PRIORITY_LEVEL_CONFIGURATION, name) else { return };
    let (mut rest, mut fixed, mut except) = (spec.clone(), fixed.clone(), "");
    if name == EXEMPT {
        remove(&mut rest, "exempt");
        remove(&mut fixed, "exempt");
        except = " except the 'spec.exempt' field";
    }
    if !same(&rest, &fixed) {
        errors.invalid("spec", spec.clone(), format!("spec of '{name}'{except} must equal the fixed value"));
    }
}

fn check_shares(level: &Value, path: &str, errors: &mut FieldErrors) {
    let shares = i64_at(level, "nominalConcurrencyShares").unwrap_or(0);
    if shares < 0 {
        errors.invalid(format!("{path}.nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
    let lendable = i64_at(level, "lendablePercent").unwrap_or(0);
    if !(0..=100).contains(&lendable) {
        errors.invalid(format!("{path}.lendablePercent"), lendable, "must be between 0 and 100, inclusive");
    }
    if let Some(percent) = i64_at(level, "borrowingLimitPercent").filter(|p| *p < 0) {
        errors.invalid(format!("{path}.borrowingLimitPercent"), percent, "if specified, must be a non-negative integer");
    }
}

fn check_response(limited: &Value, errors: &mut FieldErrors) {
    let path = "spec.limited.limitResponse";
    let queuing = at(limited, "limitResponse.queuing");
    match (str_at(limited, "limitResponse.type"), queuing) {
        ("Reject", Some(_)) => errors.forbidden(format!("{path}.queuing"), "must be nil if limited.limitResponse.type is not Limited"),
        ("Reject", None) => {}
        ("Queue", None) => {
            errors.required_because(format!("{path}.queuing"), "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => check_queues(queuing, &format!("{path}.queuing"), errors),
        (other, _) => errors.not_supported(format!("{path}.type"), other, RESPONSES),
    }
}

fn check_queues(queuing: &Value, path: &str, errors: &mut FieldErrors) {
    let number = |field: &str| i64_at(queuing, field).unwrap_or(0);
    for field in ["queueLengthLimit", "queues", "handSize"] {
        if number(field) <= 0 {
            errors.invalid(format!("{path}.{field}"), number(field), "must be positive");
        } else if field == "queues" && number(field) > MAX_QUEUES {
            errors.invalid(format!("{path}.{field}"), number(field), format!("must not be greater than {MAX_QUEUES}"));
        }
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if hand <= 0 {
        return;
    }
    if hand > queues {
        errors.invalid(format!("{path}.handSize"), hand, format!("should not be greater than queues ({queues})"));
        return;
    }
    let bits: f64 = (0..hand.max(0)).map(|dealt| ((queues - dealt) as f64).log2()).sum();
    if bits > MAX_ENTROPY_BITS {
        let why = format!("required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_ENTROPY_BITS}");
        errors.invalid(format!("{path}.handSize"), hand, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn level(name: &str, spec: Value) -> Value {
        defaulted(&PriorityLevelConfiguration, &json!({"metadata": {"name": name}, "spec": spec}))
    }

    #[test]
    fn queues_default_and_fit() {
        let queued = |queuing: Value| {
            level("a", json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}))
        };
        let check = |queuing: Value, expect: &str| {
            assert_eq!(errors(&PriorityLevelConfiguration, &queued(queuing), None), expect);
        };
        check(json!({}), "[]");
        let at = "spec.limited.limitResponse.queuing";
        check(json!({"queues": 4}), &format!("{at}.handSize: Invalid value: 8: should not be greater than queues (4)"));
        check(json!({"queueLengthLimit": 0}), "[]");
        check(json!({"queueLengthLimit": -1}), &format!("{at}.queueLengthLimit: Invalid value: -1: must be positive"));
        check(json!({"queues": 10_000_000, "handSize": 2}), "[]");
        check(
            json!({"queues": 10_000_001, "handSize": 2}),
            &format!("{at}.queues: Invalid value: 10000001: must not be greater than 10000000"),
        );
        check(Value::Null, &format!("{at}: Required value: must not be empty if limited.limitResponse.type is Limited"));
        check(
            json!({"queues": 1000, "handSize": 10}),
            &format!("{at}.handSize: Invalid value: 10: required entropy bits of deckSize 1000 and handSize 10 should not be greater than 60"),
        );
        assert_eq!(row(&PriorityLevelConfiguration, &queued(json!({}))), json!(["x", "Limited", 30, 64, 8, 50, "5s"]));
    }

    #[test]
    fn types_keep_apart() {
        let check = |name: &str, spec: Value, expect: &str| {
            assert_eq!(errors(&PriorityLevelConfiguration, &level(name, spec), None), expect);
        };
        check("exempt", json!({"type": "Exempt"}), "[]");
        check("a", json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}), "[]");
        check("a", json!({"type": "Exempt"}), "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'");
        check("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 7, "lendablePercent": 9}}), "[]");
        let limited = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
        let text = errors(&PriorityLevelConfiguration, &level("exempt", limited), None);
        assert!(text.contains("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"), "{text}");
        check("a", json!({"type": "Other"}), "spec.type: Unsupported value: \"Other\": supported values: \"Exempt\", \"Limited\"");
        check(
            "a",
            json!({"type": "Limited", "exempt": {}, "limited": {"limitResponse": {"type": "Reject"}}}),
            "spec.exempt: Forbidden: must be nil if the type is Limited",
        );
        let reject = |shares: u32| json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}});
        check("catch-all", reject(5), "[]");
        let text = errors(&PriorityLevelConfiguration, &level("catch-all", reject(6)), None);
        assert!(text.contains("spec of 'catch-all' must equal the fixed value"), "{text}");
        check("a", json!({"type": "Limited"}), "spec.limited: Required value: must not be empty when type is Limited");
        check("a", json!({"type": "Limited", "limited": {}}), "spec.limited.limitResponse.type: Unsupported value: \"\": supported values: \"Queue\", \"Reject\"");
    }
}
