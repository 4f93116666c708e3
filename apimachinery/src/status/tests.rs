//! Tests of the words and codes of statuses.

use super::*;
use serde_json::json;

#[test]
fn messages_are_those_that_users_know() {
    let check = |s: Status, code: u16, message: &str| {
        assert_eq!((s.code(), s.message.as_str()), (code, message));
    };
    check(Status::not_found("pods", "a"), 404, "pods \"a\" not found");
    check(Status::already_exists("deployments.apps", "a"), 409, "deployments.apps \"a\" already exists");
    check(
        Status::conflict("pods", "a"),
        409,
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
    check(
        Status::forbidden(
            "pods",
            "",
            "User \"u\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
        ),
        403,
        "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
    );
    check(Status::unauthorized(), 401, "Unauthorized");
    check(Status::internal("boom"), 500, "Internal error occurred: boom");
    check(Status::request_too_large(3145728), 413, "Request entity too large: limit is 3145728");
}

#[test]
fn invalid_lists_one_cause_per_field() {
    let mut e = FieldErrors::new();
    e.required("spec.containers");
    e.invalid("spec.replicas", -1, "must be greater than or equal to 0");
    e.not_supported("spec.type", "X", &["ClusterIP", "NodePort"]);
    let s = Status::invalid("Deployment.apps", "web", &e);
    assert_eq!(
        s.message,
        "Deployment.apps \"web\" is invalid: [spec.containers: Required value, spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"NodePort\"]"
    );
    let details = s.details.unwrap();
    assert_eq!((details.kind.as_str(), details.group.as_str(), details.causes.len()), ("Deployment", "apps", 3));
    assert_eq!(
        details.causes[1],
        Cause {
            reason: "FieldValueInvalid".into(),
            message: "Invalid value: -1: must be greater than or equal to 0".into(),
            field: "spec.replicas".into()
        }
    );
}

#[test]
fn one_error_has_no_brackets() {
    let mut e = FieldErrors::new();
    e.forbidden("data", "field is immutable when `immutable` is set");
    let s = Status::invalid("ConfigMap", "c", &e);
    assert_eq!(s.message, "ConfigMap \"c\" is invalid: data: Forbidden: field is immutable when `immutable` is set");
}

#[test]
fn a_status_survives_json() {
    let s = Status::too_many_requests(3);
    let text = serde_json::to_value(&s).unwrap();
    assert_eq!(text["details"], json!({"retryAfterSeconds": 3}));
    assert_eq!(text["reason"], "TooManyRequests");
    assert_eq!(serde_json::from_value::<Status>(text).unwrap(), s);
}
