//! Bad input: each mistake gets its own status, always as a `Status` object, and changes nothing.

use crate::clients::{block_on, client};
use crate::kubectl_writes::with_namespace;
use anyhow::{Context, ensure};
use gantry_conformance::Cluster;
use serde_json::Value;

struct Mistake {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    content_type: &'static str,
    body: String,
    code: u16,
    reason: &'static str,
    /// Words of the message.
    words: &'static [&'static str],
}

const MAPS: &str = "/api/v1/namespaces/mistakes/configmaps";
const JSON: &str = "application/json";

fn post(
    what: &'static str,
    path: &'static str,
    body: &str,
    code: u16,
    reason: &'static str,
    words: &'static [&'static str],
) -> Mistake {
    Mistake { what, method: "POST", path, content_type: JSON, body: body.to_owned(), code, reason, words }
}

/// Bodies that cannot be read, or mean nothing.
fn unreadable() -> Vec<Mistake> {
    let strict = "/api/v1/namespaces/mistakes/configmaps?fieldValidation=Strict";
    vec![
        post("malformed JSON", MAPS, r#"{"metadata": {"name": "a",, }}"#, 400, "BadRequest", &["line 1", "column"]),
        Mistake {
            content_type: "application/yaml",
            ..post("malformed YAML", MAPS, "metadata:\n  name: [a\n", 400, "BadRequest", &["line"])
        },
        post(
            "a wrong type",
            "/apis/apps/v1/namespaces/mistakes/deployments",
            r#"{"metadata":{"name":"a"},"spec":{"replicas":"three"}}"#,
            400,
            "BadRequest",
            &["spec.replicas"],
        ),
        post(
            "an unknown field under Strict",
            strict,
            r#"{"metadata":{"name":"a"},"dta":{}}"#,
            400,
            "BadRequest",
            &["unknown field \"dta\""],
        ),
        post(
            "a duplicate field under Strict",
            strict,
            r#"{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#,
            400,
            "BadRequest",
            &["duplicate field \"data.k\""],
        ),
        post("a bad name", MAPS, r#"{"metadata":{"name":"No_Good"}}"#, 422, "Invalid", &["metadata.name", "RFC 1123"]),
        post("no name", MAPS, r#"{"data":{}}"#, 422, "Invalid", &["name or generateName is required"]),
    ]
}

/// Valid but for its size: a ConfigMap would meet its own limit of 1 MiB first.
fn large_deployment() -> String {
    let value = "x".repeat(1_700_000);
    format!(
        r#"{{"metadata":{{"name":"d"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{{"name":"V","value":"{value}"}}]}}]}}}}}}}}"#
    )
}

/// Requests that could be read, but cannot be done.
fn refused() -> Vec<Mistake> {
    let big = |size: usize| format!(r#"{{"metadata":{{"name":"big"}},"data":{{"k":"{}"}}}}"#, "x".repeat(size));
    vec![
        post(
            "an unknown kind",
            "/api/v1/namespaces/mistakes/wonders",
            "{}",
            404,
            "NotFound",
            &["could not find the requested resource"],
        ),
        post(
            "another kind in the body",
            MAPS,
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#,
            400,
            "BadRequest",
            &["Secret"],
        ),
        post(
            "another namespace in the body",
            MAPS,
            r#"{"metadata":{"name":"a","namespace":"other"}}"#,
            400,
            "BadRequest",
            &["namespace"],
        ),
        Mistake {
            content_type: "text/plain",
            ..post(
                "a content type that nobody speaks",
                MAPS,
                "hello",
                415,
                "UnsupportedMediaType",
                &["accepted media types"],
            )
        },
        post(
            "an object above 1.5 MiB",
            "/apis/apps/v1/namespaces/mistakes/deployments",
            &large_deployment(),
            413,
            "RequestEntityTooLarge",
            &[],
        ),
        post("a body above 3 MiB", MAPS, &big(3_300_000), 413, "RequestEntityTooLarge", &[]),
    ]
}

/// Requests that the stored objects do not allow.
fn untimely() -> Vec<Mistake> {
    vec![
        Mistake {
            method: "PUT",
            path: "/api/v1/namespaces/mistakes/configmaps/kept",
            ..post(
                "a stale version",
                "",
                r#"{"metadata":{"name":"kept","resourceVersion":"1"},"data":{"k":"new"}}"#,
                409,
                "Conflict",
                &["the object has been modified"],
            )
        },
        Mistake {
            method: "PATCH",
            path: "/api/v1/namespaces/mistakes/configmaps/kept",
            content_type: "application/json-patch+json",
            ..post(
                "a JSON patch that does not apply",
                "",
                r#"[{"op":"remove","path":"/data/absent"}]"#,
                422,
                "Invalid",
                &["/data/absent"],
            )
        },
        Mistake {
            method: "DELETE",
            path: "/api/v1/namespaces/mistakes/configmaps/absent",
            ..post("deleting nothing", "", "", 404, "NotFound", &["\"absent\" not found"])
        },
        Mistake {
            method: "PUT",
            path: MAPS,
            ..post("a method that does not fit", "", "{}", 405, "MethodNotAllowed", &[])
        },
    ]
}

pub fn every_mistake_gets_its_status(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "mistakes", |kubectl| {
        kubectl.ok(&["create", "configmap", "kept", "--from-literal=k=old"])?;
        let before = kubectl.ok(&["get", "configmaps,secrets,deployments", "-o", "yaml"])?;
        let kubeconfig = cluster.data_dir().join("kubeconfig");
        block_on(async {
            let client = client(&kubeconfig).await?;
            for mistake in unreadable().into_iter().chain(refused()).chain(untimely()) {
                check(&client, &mistake).await.context(mistake.what)?;
            }
            semantic_errors(&client).await?;
            unknown_field_warns(&client).await
        })?;
        kubectl.ok(&["delete", "configmap", "warned"])?;
        let after = kubectl.ok(&["get", "configmaps,secrets,deployments", "-o", "yaml"])?;
        ensure!(before == after, "a failed request changes nothing:\n{before}\n{after}");
        Ok(())
    })
}

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &str,
) -> anyhow::Result<(u16, Vec<String>, Value)> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = client.send(request.body(body.to_owned().into_bytes().into())?).await?;
    let code = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    let bytes = response.into_body().collect_bytes().await?;
    let value =
        serde_json::from_slice(&bytes).with_context(|| format!("{code}: {}", String::from_utf8_lossy(&bytes)))?;
    Ok((code, warnings, value))
}

async fn check(client: &kube::Client, mistake: &Mistake) -> anyhow::Result<()> {
    let (code, _, status) = send(client, mistake.method, mistake.path, mistake.content_type, &mistake.body).await?;
    ensure!(code == mistake.code, "{code}, not {}: {status}", mistake.code);
    ensure!(status["kind"] == "Status" && status["status"] == "Failure" && status["code"] == code, "{status}");
    ensure!(status["reason"] == mistake.reason, "the reason of {status}");
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(mistake.words.iter().all(|word| message.contains(word)), "{:?} in {message:?}", mistake.words);
    Ok(())
}

async fn semantic_errors(client: &kube::Client) -> anyhow::Result<()> {
    let body = r#"{"metadata":{"name":"d"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"Bad_Name","image":""}]}}}}"#;
    let (code, _, status) = send(client, "POST", "/apis/apps/v1/namespaces/mistakes/deployments", JSON, body).await?;
    ensure!(code == 422, "{status}");
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    for field in [
        "spec.replicas",
        "spec.template.metadata.labels",
        "spec.template.spec.containers[0].name",
        "spec.template.spec.containers[0].image",
    ] {
        ensure!(fields.iter().filter(|found| **found == field).count() == 1, "one cause for {field}: {fields:?}");
    }
    Ok(())
}

async fn unknown_field_warns(client: &kube::Client) -> anyhow::Result<()> {
    let (code, warnings, value) =
        send(client, "POST", MAPS, JSON, r#"{"metadata":{"name":"warned"},"dta":{},"data":{"k":"1","k":"2"}}"#).await?;
    ensure!(code == 201 && value["data"]["k"] == "2" && value.get("dta").is_none(), "{value}");
    let all = warnings.join(" ");
    ensure!(all.contains(r#"unknown field \"dta\""#) && all.contains(r#"duplicate field \"data.k\""#), "{warnings:?}");
    Ok(())
}

pub fn nobody_anonymous_gets_in(cluster: &Cluster) -> anyhow::Result<()> {
    let server = cluster.kubectl.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    block_on(async {
        let mut config = kube::Config::new(server.parse()?);
        config.accept_invalid_certs = true;
        let anonymous = kube::Client::try_from(config.clone())?;
        for path in ["/healthz", "/livez", "/readyz"] {
            let request = http::Request::get(path).body(Vec::new())?;
            let said = anonymous.request_text(request).await.with_context(|| format!("{path} is open"))?;
            ensure!(said == "ok", "{path} says {said:?}");
        }
        for path in ["/api", "/api/v1/namespaces", "/metrics", "/openapi/v3"] {
            let (code, _, status) = send(&anonymous, "GET", path, JSON, "").await?;
            ensure!(code == 403 && status["reason"] == "Forbidden", "{path} without a word who asks: {status}");
        }
        config.auth_info.token = Some("not.a.token".to_owned().into());
        let (code, _, status) = send(&kube::Client::try_from(config)?, "GET", "/api/v1/pods", JSON, "").await?;
        ensure!(code == 401, "a token that nobody signed: {status}");
        Ok(())
    })?;
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(cluster.data_dir().join("kubeconfig"))?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "the kubeconfig's mode is {mode:o}");
    Ok(())
}
