//! What a PriorityLevelConfiguration means to the API: shares, queues and hands that fit together. Who waits and who runs is
//! decided by `fairness`.

use super::value::{at, child, default, i64_at, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const EXEMPT: &str = "exempt";
/// Hands are dealt from one 64-bit hash; Kubernetes leaves four bits.
const MAX_ENTROPY_BITS: f64 = 60.0;

pub struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        match str_at(spec, "type") {
            "Limited" => {
                let limited = child(spec, "limited");
                default(limited, "nominalConcurrencyShares", 30);
                default(limited, "lendablePercent", 0);
                if str_at(limited, "limitResponse.type") == "Queue" {
                    let queuing = child(child(limited, "limitResponse"), "queuing");
                    default(queuing, "queues", 64);
                    default(queuing, "handSize", 8);
                    default(queuing, "queueLengthLimit", 50);
                }
            }
            "Exempt" => {
                let exempt = child(spec, "exempt");
                default(exempt, "nominalConcurrencyShares", 0);
                default(exempt, "lendablePercent", 0);
            }
            _ => {}
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return;
        }
        let spec = &new["spec"];
        let kind = str_at(spec, "type");
        if (kind == "Exempt") != (str_at(new, "metadata.name") == EXEMPT) && TYPES.contains(&kind) {
            errors.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'");
        }
        match kind {
            "Exempt" => {
                if at(spec, "limited").is_some() {
                    errors.forbidden("spec.limited", "must be nil if the type is not Limited");
                }
                check_shares(&spec["exempt"], "spec.exempt", errors);
            }
            "Limited" => {
                if at(spec, "exempt").is_some() {
                    errors.forbidden("spec.exempt", "must be nil if the type is Limited");
                }
                check_shares(&spec["limited"], "spec.limited", errors);
                check_response(&spec["limited"], errors);
            }
            other => errors.not_supported("spec.type", other, TYPES),
        }
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
        }
    }
    let (queues, hand) = (number("queues"), number("handSize"));
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
        check(json!({"queueLengthLimit": 0}), &format!("{at}.queueLengthLimit: Invalid value: 0: must be positive"));
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
        check("a", json!({"type": "Exempt"}), "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'");
        check("a", json!({"type": "Other"}), "spec.type: Unsupported value: \"Other\": supported values: \"Exempt\", \"Limited\"");
        check(
            "a",
            json!({"type": "Limited", "exempt": {}, "limited": {"limitResponse": {"type": "Reject"}}}),
            "spec.exempt: Forbidden: must be nil if the type is Limited",
        );
        check("a", json!({"type": "Limited"}), "spec.limited.limitResponse.type: Unsupported value: \"\": supported values: \"Queue\", \"Reject\"");
    }
}
