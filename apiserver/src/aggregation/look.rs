//! Looks at another server: what it has, and what its documents say. Decides how long and how large an answer may be; what follows
//! from it is decided by its callers.

use super::documents::{Documents, V2};
use super::proxy::identify;
use super::{Remote, aggregator};
use crate::kinds::value::{items, str_at};
use crate::outbound::with_sources;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// All tries together. Several, because one of several endpoints may be the one that is down.
const WITHIN: Duration = Duration::from_secs(6);
const TRIES: usize = 5;
const DOCUMENT_WITHIN: Duration = Duration::from_secs(15);
const MAX_LIST: usize = 3 * 1024 * 1024;
const MAX_DOCUMENT: usize = 8 * 1024 * 1024;

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// The resources of its group version, if it answers; they are nothing when the answer is not a list of them.
pub async fn resources(remote: &Remote) -> Result<Option<Vec<Value>>, String> {
    let path = format!("/apis/{}", remote.group_version());
    let url = format!("{}{path}", remote.place.url());
    let tries = async {
        let mut last = String::new();
        for _ in 0..TRIES {
            match get(remote, &path, None, MAX_LIST).await {
                Ok(answer) if answer.status.is_success() => return Ok(listed(&answer.body)),
                Ok(answer) => last = format!("bad status from {url}: {}", answer.status.as_u16()),
                Err(why) => last = why,
            }
        }
        Err(last)
    };
    let outcome = tokio::time::timeout(WITHIN, tries).await;
    let outcome = outcome.unwrap_or_else(|_| Err(format!("timed out waiting for {url}")));
    outcome.map_err(|why| format!("failing or missing response from {url}: {why}"))
}

fn listed(body: &[u8]) -> Option<Vec<Value>> {
    let list: Value = serde_json::from_slice(body).ok()?;
    (str_at(&list, "kind") == "APIResourceList").then(|| items(&list, "resources").to_vec())
}

/// Its documents; what cannot be had now stays as it was.
pub async fn documents(remote: &Remote, before: &Documents) -> Documents {
    let within = |future| tokio::time::timeout(DOCUMENT_WITHIN, future);
    let mut documents = before.clone();
    if let Ok(Ok(answer)) = within(get(remote, "/openapi/v3", None, MAX_LIST)).await {
        documents.v3 = answer.status.is_success().then(|| v3_url(remote, &answer.body)).flatten();
    }
    let tag = before.v2.as_ref().map(|v2| v2.tag.as_str()).filter(|tag| !tag.is_empty());
    if let Ok(Ok(answer)) = within(get(remote, "/openapi/v2", tag, MAX_DOCUMENT)).await
        && answer.status != StatusCode::NOT_MODIFIED
    {
        let tag = answer.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or("");
        let document = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status.is_success());
        documents.v2 = document.map(|document| Arc::new(V2::part(document, tag, &remote.group, &remote.version)));
    }
    documents
}

/// The address of its v3 document, with its hash.
fn v3_url(remote: &Remote, index: &[u8]) -> Option<String> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let path = format!("apis/{}", remote.group_version());
    let url = index["paths"].get(&path)?["serverRelativeURL"].as_str()?;
    let own = format!("/openapi/v3/{path}");
    // A document of another place would be asked of another server.
    Some(if url == own || url.starts_with(&format!("{own}?")) { url.to_owned() } else { own })
}

async fn get(remote: &Remote, path: &str, tag: Option<&str>, limit: usize) -> Result<Answer, String> {
    let client = remote.client.as_ref().map_err(Clone::clone)?;
    let mut request = http::Request::new(crate::http::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = format!("{}{path}", remote.place.url()).parse().map_err(|error| format!("{error}"))?;
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(tag).ok()) {
        request.headers_mut().insert(header::IF_NONE_MATCH, tag);
    }
    identify(request.headers_mut(), &aggregator())?;
    let response = client.request(request).await.map_err(|error| with_sources(&error))?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?;
    Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
}
