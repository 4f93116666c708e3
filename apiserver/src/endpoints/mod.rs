//! Everything that is not a resource: version, health, metrics, discovery, OpenAPI and the token issuer's keys.

pub mod components;
pub mod discovery;
mod health;
mod prose;

use crate::aggregation::Table;
use crate::aggregation::documents::{self, V2};
use crate::core::Core;
use crate::fairness::dump::dump;
use crate::http::body::{JSON, respond, text};
use crate::http::negotiate::{self, Output};
use crate::http::{Outcome, Query, Response};
use crate::rest::output::respond_in;
use discovery::View;
use gantry_apimachinery::openapi::{self, v2_protobuf};
use gantry_apimachinery::status::Status;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use prose::Texts;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers a path outside the resources.
pub async fn serve(core: &Core, method: &Method, path: &str, query: &Query, headers: &HeaderMap) -> Outcome<Response> {
    if method != Method::GET && method != Method::HEAD {
        return Err(Status::method_not_allowed().into());
    }
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let registry = core.registry();
    let table = core.aggregation.table();
    let view = || View::of(registry.kinds(), &table);
    // What another server serves is described by it.
    let rows = || -> Vec<openapi::Row<'_>> {
        let rows = registry.open_api().into_iter();
        rows.filter(|row| table.remote(row.kind.group, row.kind.version).is_none()).collect()
    };
    match parts.as_slice() {
        [] => json(headers, &json!({"paths": view().root_paths()})),
        ["version"] => json(headers, &version(core)),
        ["healthz" | "livez" | "readyz", ..] => health::serve(core, &parts, query).await,
        ["debug", "api_priority_and_fairness", what] => {
            let table = dump(&core.fairness, what, query).ok_or_else(Status::no_such_resource)?;
            Ok(text(StatusCode::OK, table))
        }
        ["metrics"] => Ok(text(StatusCode::OK, core.metrics.render(core))),
        ["api"] if negotiate::wants_aggregated_discovery(headers) => {
            aggregated(&view().aggregated(|group| group.is_empty()), headers)
        }
        ["apis"] if negotiate::wants_aggregated_discovery(headers) => {
            aggregated(&view().aggregated(|group| !group.is_empty()), headers)
        }
        ["api"] => json(headers, &discovery::core_versions(core)),
        ["apis"] => json(headers, &view().groups()),
        ["api", version] => found(headers, view().resources("", version)),
        ["apis", group] => found(headers, view().group(group)),
        ["apis", group, version] => found(headers, view().resources(group, version)),
        ["openapi", "v2"] if wants_protobuf_v2(headers) => protobuf_v2(&rows(), &parts_v2(&table), headers),
        ["openapi", "v2"] => {
            let ours = openapi::v2(&rows(), &Texts::of_all_groups());
            document(headers, documents::joined(ours, &parts_v2(&table)))
        }
        ["openapi", "v3"] => document(headers, index_v3(&rows(), &table)),
        ["openapi", "v3", "api", version] => open_api(&rows(), "", version, query, headers),
        ["openapi", "v3", "apis", group, version] => open_api(&rows(), group, version, query, headers),
        [".well-known", "openid-configuration"] => json(headers, &core.tokens.discovery()),
        ["openid", "v1", "jwks"] => {
            Ok(respond(StatusCode::OK, "application/jwk-set+json", core.tokens.jwks().to_string()))
        }
        _ => Err(Status::no_such_resource().into()),
    }
}

fn json(headers: &HeaderMap, body: &Value) -> Outcome<Response> {
    let Output { encoding, .. } = negotiate::output(headers).unwrap_or_default();
    respond_in(encoding, StatusCode::OK, body.to_string().into())
}

fn found(headers: &HeaderMap, body: Option<Value>) -> Outcome<Response> {
    json(headers, &body.ok_or_else(Status::no_such_resource)?)
}

fn etag_of(body: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02X}")).collect();
    format!("\"{hash}\"")
}

/// A body with an ETag; 304 when the client has it already.
fn tagged(headers: &HeaderMap, mut response: Response, etag: &str) -> Response {
    let unchanged =
        headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok()).is_some_and(|tag| tag.contains(etag));
    if unchanged {
        // Clients lay these headers over what they kept: the type must stay what it was.
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = crate::http::empty();
    }
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn aggregated(list: &Value, headers: &HeaderMap) -> Outcome<Response> {
    const TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let body = list.to_string();
    let etag = etag_of(body.as_bytes());
    Ok(tagged(headers, respond(StatusCode::OK, TYPE, body), &etag))
}

fn document(headers: &HeaderMap, body: Vec<u8>) -> Outcome<Response> {
    let etag = etag_of(&body);
    Ok(tagged(headers, respond(StatusCode::OK, JSON, body), &etag))
}

fn wants_protobuf_v2(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|text| text.split(',')).any(|media_type| media_type.trim().starts_with(v2_protobuf::ASKED))
}

/// What other servers publish, in the order of their groups.
fn parts_v2(table: &Table) -> Vec<Arc<V2>> {
    table.remotes().filter_map(|remote| remote.seen.load().documents.v2.clone()).collect()
}

/// The index of our documents and of those of other servers.
fn index_v3(rows: &[openapi::Row<'_>], table: &Table) -> Vec<u8> {
    let others = table.remotes().filter_map(|remote| {
        let url = remote.seen.load().documents.v3.clone()?;
        Some((format!("apis/{}", remote.group_version()), url))
    });
    openapi::v3_index(rows, prose::EDITION, others)
}

fn protobuf_v2(rows: &[openapi::Row<'_>], others: &[Arc<V2>], headers: &HeaderMap) -> Outcome<Response> {
    let others = others.iter().flat_map(|part| &part.paths).map(|(path, operations)| (path.as_str(), operations));
    let body = v2_protobuf::document(rows, others);
    let etag = etag_of(&body);
    Ok(tagged(headers, respond(StatusCode::OK, v2_protobuf::ANSWERED, body), &etag))
}

fn open_api(
    rows: &[openapi::Row<'_>],
    group: &str,
    version: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Outcome<Response> {
    let body = openapi::v3(rows, group, version, &Texts::of_group(group)).ok_or_else(Status::no_such_resource)?;
    let etag = format!("\"{}\"", openapi::hash(rows, group, version, prose::EDITION));
    let mut response = respond(StatusCode::OK, JSON, body);
    // The index names a document by its hash: under that address it never changes.
    if query.has("hash") {
        let for_ever = HeaderValue::from_static("public, immutable, max-age=31536000");
        response.headers_mut().insert(header::CACHE_CONTROL, for_ever);
    }
    Ok(tagged(headers, response, &etag))
}

fn version(core: &Core) -> Value {
    let git = &core.config.git_version;
    let mut numbers = git.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("35"));
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor, "gitVersion": git, "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_modified_keeps_the_content_type() {
        let whole = || respond(StatusCode::OK, "application/x", "body");
        let mut headers = HeaderMap::new();
        assert_eq!(tagged(&headers, whole(), "\"1\"").status(), StatusCode::OK);
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"1\""));
        let answer = tagged(&headers, whole(), "\"1\"");
        assert_eq!(
            (answer.status(), &answer.headers()[header::CONTENT_TYPE]),
            (StatusCode::NOT_MODIFIED, &HeaderValue::from_static("application/x"))
        );
        assert!(!answer.headers().contains_key(header::CONTENT_LENGTH));
    }
}
