//! What the decoder accepts and says.

use super::*;
use crate::schema::Schema;
use serde_json::json;

fn ty(group: &str, kind: &str) -> Type<'static> {
    Schema::builtin().kind(group, "v1", kind).expect("a built-in kind")
}

fn deployment(body: &str) -> Result<Decoded, DecodeError> {
    from_json(body.as_bytes(), ty("apps", "Deployment"))
}

#[test]
fn wrong_types_name_the_path() {
    let check = |body: &str, expect: &str| {
        let error = deployment(body).expect_err(body);
        assert_eq!(error.to_string(), expect);
    };
    check(
        r#"{"spec":{"replicas":"x"}}"#,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        r#"{"spec":{"replicas":3000000000}}"#,
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"a"},{"image":7}]}}}}"#,
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers[1].image of type string",
    );
    check(
        r#"{"metadata":{"labels":{"a":true}}}"#,
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels.a of type string",
    );
    check("[]", "json: cannot unmarshal array into Go value of type v1.Deployment");
    check(
        r#"{"spec":[1]}"#,
        "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
    );
}

#[test]
fn malformed_leaves_name_the_path() {
    let secret = from_json(br#"{"data":{"a":"!"}}"#, ty("", "Secret")).expect_err("not base64");
    assert!(secret.to_string().starts_with("data.a: illegal base64 data"), "{secret}");
    let pod = from_json(br#"{"metadata":{"creationTimestamp":"yesterday"}}"#, ty("", "Pod")).expect_err("no time");
    assert!(pod.to_string().starts_with("metadata.creationTimestamp: parsing time"), "{pod}");
}

#[test]
fn syntax_errors_carry_a_position_and_win_over_type_errors() {
    let error = deployment("{\"spec\":{\"replicas\":\"x\"},\n \"kind\" 3}").expect_err("no colon");
    assert_eq!(error, DecodeError::Syntax { line: 2, column: 9, message: "expected `:`".into() });
    let error = from_yaml(b"a: b\n c: [", ty("", "ConfigMap")).expect_err("bad yaml");
    assert!(matches!(error, DecodeError::Syntax { line: 2, .. }), "{error:?}");
}

#[test]
fn unknown_and_duplicate_fields_are_named_and_pruned() {
    let body = r#"{"spec":{"foo":1,"replicas":1,"replicas":2,"template":{"spec":{"containers":[{"imag":"x"}]}}},"Kind":1,
        "metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let decoded = deployment(body).expect("forgivable");
    assert_eq!(decoded.unknown, ["spec.foo", "spec.template.spec.containers[0].imag", "Kind"]);
    assert_eq!(decoded.duplicate, ["spec.replicas", "metadata.labels.a"]);
    let expect = json!({"metadata": {"labels": {"a": "2"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{}]}}}});
    assert_eq!(decoded.object, expect);
    assert_eq!(
        decoded.strict_error().expect("strict"),
        "strict decoding error: unknown field \"spec.foo\", unknown field \"spec.template.spec.containers[0].imag\", \
         unknown field \"Kind\", duplicate field \"spec.replicas\", duplicate field \"metadata.labels.a\""
    );
}

#[test]
fn nulls_and_empty_collections_say_nothing() {
    let body = r#"{"metadata":{"creationTimestamp":null,"labels":{},"annotations":{"a":null}},
        "spec":{"replicas":null,"strategy":{},"template":{"spec":{"containers":[],"nodeSelector":{},"volumes":[]}}}}"#;
    let expect = json!({"metadata": {"annotations": {"a": ""}},
        "spec": {"strategy": {}, "template": {"spec": {"containers": []}}}});
    assert_eq!(deployment(body).expect("valid").object, expect);
}

#[test]
fn special_leaves_are_normalised() {
    let check = |field: &str, given: Value, expect: Value| {
        let body = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": given}}}]}});
        let decoded = from_json(body.to_string().as_bytes(), ty("", "Pod")).expect(field);
        assert_eq!(decoded.object["spec"]["containers"][0]["resources"]["limits"]["cpu"], expect);
    };
    check("a number", json!(2), json!("2"));
    check("a fraction", json!(0.5), json!("500m"));
    check("a text", json!("1024Mi"), json!("1Gi"));
    let body = br#"{"metadata":{"creationTimestamp":"2026-01-02T03:04:05.678+01:00"},"spec":{"ports":[{"targetPort":"http"},{"targetPort":8080}]}}"#;
    let service = from_json(body, ty("", "Service")).expect("valid").object;
    assert_eq!(service["metadata"]["creationTimestamp"], "2026-01-02T02:04:05Z");
    assert_eq!(service["spec"]["ports"], json!([{"targetPort": "http"}, {"targetPort": 8080}]));
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let body =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  quoted: \"yes\"\n  text: |\n    a\n    b\n";
    let map = from_yaml(body.as_bytes(), ty("", "ConfigMap")).expect("valid").object;
    assert_eq!(map["data"], json!({"quoted": "yes", "text": "a\nb\n"}));
    let error = from_yaml(b"data:\n  bare: yes\n", ty("", "ConfigMap")).expect_err("YAML 1.1 says true");
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal bool into Go struct field ConfigMap.data.bare of type string"
    );
    let body = "spec:\n  volumes:\n  - name: a\n    secret: {defaultMode: 0644, optional: on}\n";
    let pod = from_yaml(body.as_bytes(), ty("", "Pod")).expect("valid").object;
    assert_eq!(pod["spec"]["volumes"][0]["secret"], json!({"defaultMode": 420, "optional": true}));
    let twice = from_yaml(b"spec: {replicas: 1, replicas: 2, x: 1}", ty("apps", "Deployment")).expect("forgivable");
    assert_eq!((twice.unknown, twice.duplicate), (vec!["spec.x".to_string()], vec!["spec.replicas".to_string()]));
}

#[test]
fn arbitrary_json_is_kept() {
    let body = br#"{"revision":1,"data":{"a":null,"b":[null,1.5],"c":{}}}"#;
    let revision = from_json(body, ty("apps", "ControllerRevision")).expect("valid").object;
    assert_eq!(revision["data"], json!({"a": null, "b": [null, 1.5], "c": {}}));
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(from_json(deep.as_bytes(), Type::any()), Err(DecodeError::Syntax { .. })));
    assert!(matches!(from_yaml(deep.as_bytes(), Type::any()), Err(DecodeError::Syntax { .. })));
}
