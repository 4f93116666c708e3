//! From a resource path and verb to the code that answers. Decides which combinations exist; never what they do.

use crate::cache::Selection;
use crate::connect;
use crate::endpoints::components;
use crate::gantry::batch::{self, Batch};
use crate::gantry::events::{self, Events};
use crate::http::body::read;
use crate::http::negotiate::{self, Input, Output, Projection};
use crate::http::target::ResourcePath;
use crate::http::{Outcome, Query, Request, Response, Verb};
use crate::pipeline::{Identified, allowed, attributes, with_warnings};
use crate::proxy;
use crate::rest::call::{Call, WriteOptions};
use crate::rest::decode::{decode, schema_type};
use crate::rest::delete::{DeleteOptions, delete, delete_collection};
use crate::rest::output::{Include, Writer};
use crate::rest::stored::Written;
use crate::rest::{create, get, list, patch, update, watch};
use crate::served::Served;
use crate::subresources::{binding, eviction, finalize, reviews, scale, token};
use bytes::Bytes;
use gantry_apimachinery::fields::FieldSelector;
use gantry_apimachinery::kinds::{COMPONENT_STATUS, Kind, POD};
use gantry_apimachinery::status::{Details, Status};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Answers a request for a resource.
pub async fn resource(at: &Identified<'_>, verb: Verb, path: &ResourcePath, request: Request) -> Outcome<Response> {
    let (kind, served) = find(at, path).await?;
    if !kind.namespaced && !path.namespace.is_empty() {
        return Err(Status::no_such_resource().into());
    }
    let named = !path.name.is_empty();
    // As in Kubernetes, there is no such path, whatever is asked of it.
    if kind.namespaced && path.namespace.is_empty() && named {
        return Err(Status::no_such_resource().into());
    }
    let Some(served) = served else { return posted(at, verb, kind, path, request).await };
    if path.subresource.is_empty() {
        let unplaced = kind.namespaced && path.namespace.is_empty() && !verb.is_read();
        let misplaced = match verb {
            Verb::Create => named,
            Verb::Update | Verb::Patch => !named,
            _ => unplaced,
        };
        if unplaced && served.as_custom().is_some() {
            return Err(Status::no_such_resource().into());
        }
        if !kind.has_verb(verb.as_str()) || unplaced || misplaced {
            return Err(Status::method_not_allowed().into());
        }
    } else {
        let sub = kind.subresource(&path.subresource).ok_or_else(Status::no_such_resource)?;
        if !sub.verbs.contains(&verb.as_str()) {
            return Err(Status::method_not_allowed().into());
        }
    }
    if matches!(path.subresource.as_str(), "log" | "exec" | "attach" | "portforward") {
        return connect::pod(at.core, at.user, &path.namespace, &path.name, &path.subresource, &at.query, request)
            .await;
    }
    let agent = agent(request.headers());
    let call = Call {
        core: at.core,
        served: &served,
        namespace: &path.namespace,
        name: &path.name,
        subresource: Some(path.subresource.as_str()).filter(|sub| !sub.is_empty()),
        user: at.user,
        options: WriteOptions::read(&at.query, agent)?,
        now: at.core.clock.now(),
        entropy: entropy(),
        warnings: Mutex::default(),
        audit: at.audit,
    };
    let writer = Writer {
        output: negotiate::output(request.headers())?,
        include: Include::read(at.query.get("includeObject"))?,
        now: call.now,
    };
    match verb {
        Verb::Get | Verb::List | Verb::Watch => read_verb(at, verb, &call, writer).await,
        _ => write_verb(at, verb, call, writer, request).await,
    }
}

/// Passes a request on to what a pod, a service or a machine serves.
pub async fn proxied(at: &Identified<'_>, path: &ResourcePath, request: Request) -> Outcome<Response> {
    let (kind, _) = find(at, path).await?;
    if kind.namespaced == path.namespace.is_empty() || kind.subresource("proxy").is_none() {
        return Err(Status::no_such_resource().into());
    }
    proxy::serve(at.core, at.user, path, entropy(), request).await
}

/// What is served under this path. Before a client hears that it is not there, this server has seen everything that was
/// acknowledged: another one may have established a custom resource just now.
async fn find(at: &Identified<'_>, path: &ResourcePath) -> Outcome<(&'static Kind, Option<Arc<Served>>)> {
    let look = || {
        let registry = at.core.registry();
        let kind = registry.kind(&path.group, &path.version, &path.resource)?;
        Some((kind, registry.find(&path.group, &path.version, &path.resource).cloned()))
    };
    if let Some(found) = look() {
        return Ok(found);
    }
    at.core.custom.caught_up(at.core).await;
    look().ok_or_else(|| Status::no_such_resource().into())
}

/// Fresh random bits: 61 of a version 4 UUID's, well mixed.
fn entropy() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high ^ low.rotate_left(32)
}

async fn read_verb(at: &Identified<'_>, verb: Verb, call: &Call<'_>, writer: Writer) -> Outcome<Response> {
    if call.kind() == &COMPONENT_STATUS {
        return components::serve(call, verb, &writer).await;
    }
    if call.subresource == Some("scale") {
        return writer.value(StatusCode::OK, &scale::get(call).await?);
    }
    if verb == Verb::Get {
        return get::get(call, &at.query, &writer).await;
    }
    let selection = Selection::read(call.served, call.namespace, call.name, &at.query)?;
    if verb == Verb::Watch || at.query.flag("watch") {
        return watch::watch(call, &at.query, selection, writer, at.lifetime.shutdown.clone()).await;
    }
    list::list(call, &at.query, &selection, &writer).await
}

async fn write_verb(
    at: &Identified<'_>,
    verb: Verb,
    mut call: Call<'_>,
    writer: Writer,
    request: Request,
) -> Outcome<Response> {
    let deletes = matches!(verb, Verb::Delete | Verb::DeleteCollection);
    let input = if deletes && request.headers().get(header::CONTENT_TYPE).is_none() {
        Input::Json
    } else {
        let not_taken = |_| negotiate::not_taken(verb == Verb::Patch, call.served.as_custom().is_some());
        negotiate::input(request.headers()).map_err(not_taken)?
    };
    let patches = matches!(input, Input::JsonPatch | Input::MergePatch | Input::StrategicPatch | Input::ApplyYaml);
    if patches != (verb == Verb::Patch) {
        return Err(negotiate::not_taken(verb == Verb::Patch, call.served.as_custom().is_some()).into());
    }
    let body = read(request.into_body()).await?;
    if input == Input::ApplyYaml {
        if at.query.get("fieldManager").is_none() {
            let text =
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Status::bad_request(text).into());
        }
        call.options.apply = true;
    }
    let outcome = match call.subresource {
        None | Some("status" | "approval" | "ephemeralcontainers" | "resize") => {
            object_verb(at, verb, &call, &writer, input, &body).await
        }
        Some(sub) => subresource_verb(sub, verb, &call, &writer, input, &body).await,
    };
    let warnings = std::mem::take(&mut *call.warnings.lock());
    outcome.map(|response| with_warnings(response, warnings))
}

async fn object_verb(
    at: &Identified<'_>,
    verb: Verb,
    call: &Call<'_>,
    writer: &Writer,
    input: Input,
    body: &Bytes,
) -> Outcome<Response> {
    let served = call.served;
    match verb {
        Verb::Create => writer.written(served, &create::create(call, call.decode(input, body)?).await?).await,
        Verb::Update => writer.written(served, &update::replace(call, call.decode(input, body)?).await?).await,
        Verb::Patch => writer.written(served, &patch::patch(call, input, body).await?).await,
        Verb::Delete => {
            let options = delete_options(&at.query, input, body)?;
            let one = options.with_dry_run(call);
            deleted(call, writer, &delete(&one, &options).await?).await
        }
        Verb::DeleteCollection => {
            let options = delete_options(&at.query, input, body)?;
            let one = options.with_dry_run(call);
            let selection = Selection::read(served, call.namespace, call.name, &at.query)?;
            let all = delete_collection(&one, &selection, &options).await?;
            let mut items = Vec::with_capacity(all.len());
            for written in &all {
                items.push(String::from_utf8_lossy(&served.show_written(written).await?).into_owned());
            }
            let items = items.join(",");
            let (kind, version) = (call.kind().list_kind(), call.kind().api_version());
            let list =
                format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{{}},\"items\":[{items}]}}");
            writer.respond(StatusCode::OK, list.into())
        }
        Verb::Get | Verb::List | Verb::Watch => Err(Status::method_not_allowed().into()),
    }
}

fn delete_options(query: &Query, input: Input, body: &Bytes) -> Outcome<DeleteOptions> {
    let body = if body.is_empty() { Value::Null } else { decode_options(input, body)? };
    DeleteOptions::read(body, query)
}

/// `DeleteOptions` may come with the apiVersion of the kind that is deleted: client-go sends `apps/v1` for a Deployment.
fn decode_options(input: Input, body: &Bytes) -> Outcome<Value> {
    use gantry_apimachinery::{protobuf, schema::decode::untyped};
    let options = match input {
        Input::Protobuf => protobuf::decode(body, schema_type("", "v1", "DeleteOptions")).map_err(|e| e.to_string()),
        _ => untyped(body).map_err(|e| e.to_string()),
    };
    options.map_err(|error| Status::bad_request(error).into())
}

/// A pod answers with itself, as in Kubernetes; anything else that is gone at once answers `Status`.
async fn deleted(call: &Call<'_>, writer: &Writer, written: &Written) -> Outcome<Response> {
    if !written.deleted || call.kind() == &POD {
        return writer.written(call.served, written).await;
    }
    let value: Value = serde_json::from_slice(&written.bytes).map_err(Status::internal)?;
    let details = Details {
        name: call.name.to_owned(),
        group: call.kind().group.to_owned(),
        kind: call.kind().plural.to_owned(),
        uid: value["metadata"]["uid"].as_str().unwrap_or("").to_owned(),
        ..Details::default()
    };
    status_answer(writer, &Status::success(Some(details)))
}

fn status_answer(writer: &Writer, status: &Status) -> Outcome<Response> {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::OK);
    writer.respond(code, serde_json::to_vec(status).map_err(Status::internal)?.into())
}

async fn subresource_verb(
    sub: &str,
    verb: Verb,
    call: &Call<'_>,
    writer: &Writer,
    input: Input,
    body: &Bytes,
) -> Outcome<Response> {
    let posted = |group: &str, kind: &str| call.settle(decode(input, body, group, "v1", kind)?);
    match (sub, verb) {
        ("scale", Verb::Update) => writer.value(StatusCode::OK, &scale::replace(call, input, body).await?),
        ("scale", Verb::Patch) => writer.value(StatusCode::OK, &scale::patch(call, input, body).await?),
        ("finalize", Verb::Update) => {
            writer.written(call.served, &finalize::finalize(call, call.decode(input, body)?).await?).await
        }
        ("binding", Verb::Create) => status_answer(writer, &binding::bind(call, &posted("", "Binding")?).await?),
        ("eviction", Verb::Create) => {
            status_answer(writer, &eviction::evict(call, &posted("policy", "Eviction")?).await?)
        }
        ("token", Verb::Create) => {
            let request = posted("authentication.k8s.io", "TokenRequest")?;
            writer.value(StatusCode::CREATED, &token::request(call, request).await?)
        }
        _ => Err(Status::method_not_allowed().into()),
    }
}

/// Kinds that are posted and answered, never stored.
async fn posted(
    at: &Identified<'_>,
    verb: Verb,
    kind: &'static Kind,
    path: &ResourcePath,
    request: Request,
) -> Outcome<Response> {
    if verb != Verb::Create || !path.name.is_empty() || !path.subresource.is_empty() {
        return Err(Status::method_not_allowed().into());
    }
    let now = at.core.clock.now();
    let writer = Writer { output: output(request.headers()), include: Include::default(), now };
    let input = negotiate::input(request.headers())?;
    let agent = agent(request.headers()).to_owned();
    let body = read(request.into_body()).await?;
    let object = decode(input, &body, kind.group, kind.version, kind.kind)?.object;
    match (kind.group, kind.kind) {
        ("gantry.dev", "BindingBatch") => {
            let batch = Batch::read(object)?;
            let may = may(at, &["create"], "pods", "binding", batch.namespaces()).await;
            let allowed = |namespace: &str| in_namespace(&may, namespace);
            writer.value(StatusCode::OK, &batch::run(at.core, &batch, now, allowed).await?)
        }
        ("gantry.dev", "EventBatch") => {
            let events = Events::read(object)?;
            let namespaces = events.namespaces();
            if namespaces.len() > events::MAX_NAMESPACES {
                let most = events::MAX_NAMESPACES;
                return Err(Status::bad_request(format!("items: of at most {most} namespaces at once")).into());
            }
            // A batch makes events, and brings them up to date.
            let may = may(at, &["create", "patch"], "events", "", namespaces).await;
            let allowed = |namespace: &str| in_namespace(&may, namespace);
            let options = WriteOptions::read(&at.query, &agent)?;
            let by = events::Writer { core: at.core, user: at.user, options, now, entropy: entropy() };
            writer.value(StatusCode::OK, &events.write(&by, allowed).await)
        }
        ("", "Binding") => {
            let call = Call {
                core: at.core,
                served: at.core.stored_kind(&POD),
                namespace: &path.namespace,
                name: "",
                subresource: Some("binding"),
                user: at.user,
                options: WriteOptions::read(&at.query, "")?,
                now,
                entropy: 0,
                warnings: Mutex::default(),
                audit: at.audit,
            };
            status_answer(&writer, &binding::bind(&call, &object).await?)
        }
        (_, name) => {
            let answer = reviews::answer(at.core, at.user, name, &path.namespace, object).await?;
            writer.value(StatusCode::CREATED, &answer)
        }
    }
}

fn agent(headers: &HeaderMap) -> &str {
    headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("")
}

/// Reviews have no projections.
fn output(headers: &HeaderMap) -> Output {
    let output = negotiate::output(headers).unwrap_or_default();
    Output { projection: Projection::Whole, ..output }
}

/// Whether the caller may all of this in each namespace, which is asked about once.
async fn may(
    at: &Identified<'_>,
    verbs: &[&str],
    resource: &str,
    subresource: &str,
    namespaces: BTreeSet<&str>,
) -> BTreeMap<String, Outcome<()>> {
    let mut may = BTreeMap::new();
    for namespace in namespaces {
        let path = ResourcePath {
            version: "v1".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        };
        let selector = FieldSelector::everything();
        let mut all = Ok(());
        for verb in verbs {
            if all.is_ok() {
                all = allowed(at.core, at.user, &attributes(verb, &path, &selector)).await;
            }
        }
        may.insert(namespace.to_owned(), all);
    }
    may
}

fn in_namespace(may: &BTreeMap<String, Outcome<()>>, namespace: &str) -> Outcome<()> {
    may.get(namespace).cloned().unwrap_or_else(|| Err(Status::unauthorized().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A protobuf envelope (`k8s\0`, runtime.Unknown) as client-go's typed clients send with a delete.
    #[test]
    fn delete_options_name_the_group_of_what_is_deleted() {
        let mut body = b"k8s\0".to_vec();
        let type_meta = [&b"\x0a\x07apps/v1\x12\x0d"[..], b"DeleteOptions"].concat();
        body.extend([0x0a, type_meta.len() as u8]);
        body.extend(type_meta);
        // gracePeriodSeconds: 7
        body.extend([0x12, 2, 0x08, 7]);
        let options = decode_options(Input::Protobuf, &body.into()).unwrap();
        assert_eq!(options["gracePeriodSeconds"], 7);
    }
}
