//! A request's way through the gates: identify → authenticate → authorise → fair queue → the verb → encode. Decides the order, and
//! how refusals become responses; never what a verb does.

use crate::auth::UserInfo;
use crate::auth::authn::authenticate;
use crate::auth::authz::{Attributes, Decision};
use crate::core::Core;
use crate::endpoints;
use crate::fairness;
use crate::http::body::{JSON, respond};
use crate::http::target::ResourcePath;
use crate::http::{Outcome, Query, Request, Response, Target, Verb};
use crate::route;
use gantry_apimachinery::status::Status;
use http::{HeaderValue, Method, StatusCode, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Ends watches when the server goes.
#[derive(Clone, Debug, Default)]
pub struct Lifetime {
    pub shutdown: CancellationToken,
}

/// One identified request.
pub struct Identified<'a> {
    pub core: &'a Core,
    pub user: &'a UserInfo,
    pub query: Query,
    pub lifetime: &'a Lifetime,
}

/// Answers any request. `connection`: the identity of the connection, from its client certificate or its in-process caller.
pub async fn handle(core: &Core, connection: Option<&UserInfo>, lifetime: &Lifetime, request: Request) -> Response {
    let started = Instant::now();
    let query = Query::parse(request.uri().query());
    let target = Target::parse(request.method(), request.uri().path(), &query);
    let head = request.method() == Method::HEAD;
    let (verb, resource) = labels(&target, request.method());
    let outcome = gates(core, connection, lifetime, query, target, request).await;
    let mut response = outcome.unwrap_or_else(|status| failure(&status));
    if head {
        *response.body_mut() = crate::http::empty();
    }
    let elapsed = started.elapsed().as_secs_f64() * 1_000.0;
    core.metrics.observe(&verb, &resource, response.status().as_u16(), elapsed);
    response
}

fn labels(target: &Target, method: &Method) -> (String, String) {
    match target {
        Target::Resource { verb, path } => {
            let known = gantry_apimachinery::kinds::by_resource(&path.group, &path.version, &path.resource);
            let resource = known.map_or_else(|| "unknown".to_owned(), |kind| kind.resource());
            (verb.map_or("unknown", Verb::as_str).to_owned(), resource)
        }
        Target::NonResource { .. } => (method.as_str().to_lowercase(), String::new()),
    }
}

async fn gates(
    core: &Core,
    connection: Option<&UserInfo>,
    lifetime: &Lifetime,
    query: Query,
    target: Target,
    request: Request,
) -> Outcome<Response> {
    let user = authenticate(core, request.headers(), connection).await?;
    authorise(core, &user, &query, &target, request.method())?;
    let (group, resource, namespace, path) = match &target {
        Target::Resource { path, .. } => (path.group.as_str(), path.resource.as_str(), path.namespace.as_str(), None),
        Target::NonResource { path } => ("", "", "", Some(path.as_str())),
    };
    let flow = fairness::Request { user: &user, group, resource, namespace, path };
    // Held until the response's head is ready: a watch keeps its seat only while it starts.
    let _seat = core.fairness.enter(&flow).await.map_err(|rejected| {
        core.metrics.rejected.inc();
        Status::too_many_requests(rejected.retry_after_s)
    })?;
    match target {
        Target::NonResource { path } => {
            endpoints::serve(core, request.method(), &path, &query, request.headers()).await
        }
        Target::Resource { verb, path } => {
            let verb = verb.ok_or_else(Status::method_not_allowed)?;
            let identified = Identified { core, user: &user, query, lifetime };
            route::resource(&identified, verb, &path, request).await
        }
    }
}

fn authorise(core: &Core, user: &UserInfo, query: &Query, target: &Target, method: &Method) -> Outcome<()> {
    let node = query.get("fieldSelector").and_then(|selector| {
        selector
            .split(',')
            .find_map(|term| term.strip_prefix("spec.nodeName=").map(|value| value.trim_start_matches('=')))
    });
    let method = if method == Method::HEAD { "get".to_owned() } else { method.as_str().to_lowercase() };
    let what = match target {
        Target::NonResource { path } => Attributes { verb: &method, path: Some(path), ..Attributes::default() },
        Target::Resource { verb, path } => attributes(verb.map_or("", Verb::as_str), path, node),
    };
    match core.authorizer.authorize(core, user, &what) {
        Decision::Allow => Ok(()),
        // Nobody is told what exists before saying who they are.
        Decision::Deny(_) if user.in_group("system:unauthenticated") => Err(Status::unauthorized().into()),
        Decision::Deny(reason) => Err(forbidden(&what, &reason).into()),
    }
}

pub fn attributes<'a>(verb: &'a str, path: &'a ResourcePath, node: Option<&'a str>) -> Attributes<'a> {
    Attributes {
        verb,
        group: &path.group,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: &path.namespace,
        name: &path.name,
        path: None,
        node_selector: node,
    }
}

pub fn forbidden(what: &Attributes<'_>, reason: &str) -> Status {
    let resource =
        if what.group.is_empty() { what.resource.to_owned() } else { format!("{}.{}", what.resource, what.group) };
    Status::forbidden(&resource, what.name, reason)
}

/// A failed request as its client sees it.
pub fn failure(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(message = %status.message, "a request failed inside");
    }
    let body = serde_json::to_vec(status).unwrap_or_default();
    let mut response = respond(code, JSON, body);
    if status.retry_after_s() > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(status.retry_after_s()));
    }
    response
}

/// Adds the `Warning` headers, each text once.
pub fn with_warnings(mut response: Response, mut warnings: Vec<String>) -> Response {
    let mut seen = Vec::new();
    warnings.retain(|text| {
        let new = !seen.contains(text);
        seen.push(text.clone());
        new
    });
    for text in warnings.into_iter().take(100) {
        let quoted: String = text
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
