//! Hosts, paths and backends, the older class, and the row.

use super::{Ingress, Strategy};
use crate::kinds::testing::{created, errors, errors_of, row};
use serde_json::{Value, json};

fn ingress(change: impl FnOnce(&mut Value)) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let mut object = json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [
        {"path": "/", "pathType": "Prefix", "backend": backend}]}}]}});
    change(&mut object["spec"]);
    created(&Ingress, &object)
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        let text = errors(&Ingress, &ingress(change), None);
        assert!(text.starts_with(expect), "{text}");
    };
    let path = |field: &'static str, value: Value| move |spec: &mut Value| spec["rules"][0]["http"]["paths"][0][field] = value.clone();
    check(&|_| {}, "[]");
    check(&|spec| *spec = json!({}), "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified");
    check(&|spec| spec["rules"][0]["host"] = json!("*.example.com"), "[]");
    check(
        &|spec| spec["rules"][0]["host"] = json!("a.*.com"),
        "spec.rules[0].host: Invalid value: \"a.*.com\": a wildcard DNS-1123 subdomain must start with '*.'",
    );
    check(
        &|spec| spec["rules"][0]["host"] = json!("10.0.0.1"),
        "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
    );
    check(&|spec| spec["rules"][0]["http"]["paths"] = json!([]), "spec.rules[0].http.paths: Required value");
    let first = "spec.rules[0].http.paths[0]";
    check(&path("pathType", json!("")), &format!("{first}.pathType: Required value: pathType must be specified"));
    check(
        &path("pathType", json!("Regex")),
        &format!("{first}.pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""),
    );
    check(&path("path", json!("x")), &format!("{first}.path: Invalid value: \"x\": must be an absolute path"));
    check(&path("path", json!("/a//b")), &format!("{first}.path: Invalid value: \"/a//b\": must not contain '//'"));
    check(&path("path", json!("/a/..")), &format!("{first}.path: Invalid value: \"/a/..\": cannot end with '/..'"));
    check(&path("backend", json!({})), &format!("{first}.backend: Required value: resource or service backend is required"));
    check(
        &path("backend", json!({"service": {"name": "web"}})),
        &format!("{first}.backend: Required value: port name or number is required"),
    );
    check(
        &path("backend", json!({"service": {"name": "web", "port": {"number": 1, "name": "x"}}})),
        &format!("{first}.backend: Invalid value: \"\": cannot set both port name & port number"),
    );
    check(
        &path("backend", json!({"service": {"name": "web", "port": {"number": 1}}, "resource": {"kind": "K", "name": "n"}})),
        &format!("{first}.backend: Invalid value: \"\": cannot set both resource and service backends"),
    );
    check(&|spec| spec["tls"] = json!([{"hosts": ["a_b"]}]), "spec.tls[0].hosts: Invalid value: \"a_b\"");
}

#[test]
fn a_class_is_named_once() {
    let mut object = ingress(|spec| spec["ingressClassName"] = json!("lb"));
    object["metadata"] = json!({"annotations": {"kubernetes.io/ingress.class": "lb"}});
    let expect = "annotations.kubernetes.io/ingress.class: Invalid value: \"lb\": can not be set when the class field is also set";
    assert_eq!(errors(&Ingress, &object, None), expect);
    assert_eq!(errors(&Ingress, &object, Some(&object)), "[]");
    let expect = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
    assert_eq!(Ingress.warnings(&object, None), [expect]);
    assert!(Ingress.warnings(&object, Some(&object)).is_empty());
}

#[test]
fn an_address_is_one() {
    let mut object = ingress(|_| {});
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "x"}, {"hostname": "10.0.0.1"}]}});
    let expect = "[status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff), \
         status.loadBalancer.ingress[1].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address]";
    assert_eq!(errors_of(&Ingress, &object, Some(&object), Some("status")), expect);
}

#[test]
fn the_row_is_kubectls() {
    let mut object = ingress(|_| {});
    assert_eq!(row(&Ingress, &object), json!(["x", "<none>", "a.example.com", "", "80", "5s"]));
    object["spec"]["tls"] = json!([{}]);
    object["spec"]["rules"] = json!([{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]);
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.2"}, {"hostname": "lb"}]}});
    assert_eq!(row(&Ingress, &object), json!(["x", "<none>", "a,b,c + 1 more...", "10.0.0.2,lb", "80, 443", "5s"]));
    object["spec"] = json!({"rules": [{}], "ingressClassName": "lb"});
    assert_eq!(row(&Ingress, &object)[1], "lb");
    assert_eq!(row(&Ingress, &object)[2], "*");
}
