//! `metav1.Condition`, which several kinds' statuses hold. Decides what is well formed; never what a condition means.

use super::pod::validate::{one_of, required};
use super::value::{at, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const REASON_WHY: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
    alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

pub fn validate(condition: &Value, path: &str, errors: &mut FieldErrors) {
    if required(condition, "type", path, errors)
        && let Err(why) = names::qualified_name(str_at(condition, "type"))
    {
        errors.invalid(format!("{path}.type"), str_at(condition, "type"), why);
    }
    one_of(condition, "status", path, STATUSES, errors);
    if at(condition, "lastTransitionTime").is_none() {
        errors.required(format!("{path}.lastTransitionTime"));
    }
    let reason = str_at(condition, "reason");
    if required(condition, "reason", path, errors) && !is_reason(reason) {
        errors.invalid(format!("{path}.reason"), reason, REASON_WHY);
    }
}

fn is_reason(text: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match text.as_bytes() {
        [] => false,
        [first, rest @ ..] => {
            first.is_ascii_alphabetic()
                && rest.iter().all(|byte| word(byte) || matches!(byte, b',' | b':'))
                && rest.last().is_none_or(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_part_is_checked() {
        let check = |condition: Value, expect: &str| {
            let mut errors = FieldErrors::new();
            validate(&condition, "c", &mut errors);
            assert!(errors.to_string().starts_with(expect), "{errors}");
        };
        let time = "2026-01-01T00:00:00Z";
        check(json!({"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": time}), "[]");
        check(
            json!({"type": "Ready", "status": "Yes", "reason": "Fine", "lastTransitionTime": time}),
            "c.status: Unsupported value",
        );
        check(
            json!({"type": "Ready", "status": "True", "reason": "not so", "lastTransitionTime": time}),
            "c.reason: Invalid value",
        );
        check(
            json!({}),
            "[c.type: Required value, c.status: Required value, c.lastTransitionTime: Required value, c.reason: Required value]",
        );
    }
}
