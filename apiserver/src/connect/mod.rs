//! Requests that end in a node agent: logs, exec, attach, port-forward. Decides which machine and container, and through which
//! protocol the agent is asked; what containers read and write passes through untouched.

pub mod agent;
pub mod forward;
mod log;

pub use agent::KubeletClient;

use crate::auth::UserInfo;
use crate::core::Core;
use crate::http::{Outcome, Query, Request, Response};
use crate::kinds::value::{items, str_at};
use crate::shares::{Full, Share, Shares};
use crate::streams::command::{self, Wired};
use crate::streams::spdy::{Connection, Limits, Role};
use crate::streams::upgrade::{self, Wanted};
use crate::streams::{STALLED, relay, tunnel, websocket};
use agent::Agent;
use gantry_apimachinery::kinds::POD;
use gantry_apimachinery::status::Status;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::time::Duration;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Tunnels and proxied requests at a time, and of one user; more are told to come back later.
const MAX_SESSIONS: usize = 2_048;
const MAX_SESSIONS_EACH: usize = MAX_SESSIONS / 4;
/// Of one port-forward, two for each connection.
const MAX_STREAMS: usize = 1_024;
/// A session through which nothing goes ends, as with Kubernetes' node agent.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// An agent that is silent for so long is asked whether it is there.
const PING: Duration = Duration::from_secs(20);

/// How many sessions there are.
#[derive(Clone, Debug)]
pub struct Sessions(Shares);

impl Default for Sessions {
    fn default() -> Self {
        Self(Shares::new(MAX_SESSIONS, MAX_SESSIONS_EACH))
    }
}

impl Sessions {
    /// One more of the user's, until it is dropped.
    pub fn enter(&self, user: &UserInfo) -> Outcome<Share> {
        let full = |full: Full| {
            let mut status = Status::too_many_requests(1);
            status.message = match full {
                Full::Everything => {
                    format!("{} sessions and proxied requests are open, the most of this server", self.0.size())
                }
                Full::Share => format!(
                    "{:?} has {} sessions and proxied requests open, the most of one user",
                    user.username,
                    self.0.each()
                ),
            };
            status.into()
        };
        self.0.take(&user.username, 1).map_err(full)
    }
}

/// The container that is meant: the named one, the annotated default, or the only one.
fn container(pod: &Value, named: Option<&str>) -> Outcome<String> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let names = |list: &str| items(&pod["spec"], list).iter().map(|c| str_at(c, "name").to_owned()).collect::<Vec<_>>();
    let pod_name = str_at(pod, "metadata.name");
    if let Some(named) = named {
        if lists.iter().any(|list| names(list).iter().any(|name| name == named)) {
            return Ok(named.to_owned());
        }
        return Err(Status::bad_request(format!("container {named} is not valid for pod {pod_name}")).into());
    }
    let containers = names("containers");
    if let Some(default) = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str()
        && containers.iter().any(|name| name == default)
    {
        return Ok(default.to_owned());
    }
    match containers.as_slice() {
        [only] => Ok(only.clone()),
        several => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            several.join(" ")
        ))
        .into()),
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The agent's path for a pod's subresource.
fn agent_path(subresource: &str, namespace: &str, pod: &Value, query: &Query, raw: &str) -> Outcome<String> {
    let name = str_at(pod, "metadata.name");
    if subresource == "portforward" {
        return Ok(format!("/portForward/{namespace}/{name}?{raw}"));
    }
    let container = container(pod, query.get("container"))?;
    if subresource == "log" {
        let kept: Vec<&str> =
            raw.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("container=")).collect();
        return Ok(format!("/containerLogs/{namespace}/{name}/{container}?{}", kept.join("&")));
    }
    let mut pairs: Vec<String> = query.all("command").map(|word| format!("command={}", encode(word))).collect();
    for (ours, theirs) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.flag(ours) {
            pairs.push(format!("{theirs}=1"));
        }
    }
    Ok(format!("/{subresource}/{namespace}/{name}/{container}?{}", pairs.join("&")))
}

/// Answers `pods/{log,exec,attach,portforward}` through the pod's agent.
pub async fn pod(
    core: &Core,
    user: &UserInfo,
    namespace: &str,
    name: &str,
    subresource: &str,
    query: &Query,
    request: Request,
) -> Outcome<Response> {
    if subresource == "log" {
        log::check(name, query)?;
    }
    let stored = core.latest(&POD, namespace, name, false).await?.ok_or_else(|| Status::not_found("pods", name))?;
    let raw = request.uri().query().unwrap_or("").to_owned();
    let path = agent_path(subresource, namespace, &stored.value, query, &raw)?;
    let agent = agent::of_pod(core, &stored.value)?;
    let wanted = match subresource {
        "log" => Wanted::Passed,
        _ => upgrade::wanted(subresource, request.headers())?,
    };
    let client = KubeletClient::of(core)?;
    let slot = core.sessions.enter(user)?;
    match wanted {
        Wanted::Passed => pass(client, &agent, &path, slot, request).await,
        wanted => session(client, &agent, &path, wanted, Wired::read(query), slot, request).await,
    }
}

/// A plain request, or a protocol that the agent speaks itself.
async fn pass(client: &KubeletClient, agent: &Agent, path: &str, slot: Share, request: Request) -> Outcome<Response> {
    let stream = client.dial(agent).await?;
    let failed = |error: &dyn std::fmt::Display| Status::internal(format!("error proxying to {agent}: {error}"));
    let sent = forward::send(stream, path, Some(&agent.to_string()), request).await;
    let answer = sent.map_err(|error| failed(&error))?;
    if answer.switches() || answer.response.status().is_success() {
        return Ok(answer.pass_on(slot));
    }
    Err(agent::failure(answer.response).await.into())
}

/// A session whose client is understood here. The agent is always asked for SPDY: it alone tells every stream's end.
async fn session(
    client: &KubeletClient,
    agent: &Agent,
    path: &str,
    wanted: Wanted,
    wired: Wired,
    slot: Share,
    mut request: Request,
) -> Outcome<Response> {
    let best = upgrade::COMMAND_VERSIONS[..1].to_vec();
    let offered = match &wanted {
        Wanted::Spdy(versions) | Wanted::Tunnel { versions, .. } => versions,
        Wanted::Channels { .. } | Wanted::Passed => &best,
    };
    let (headers, transport) = client.upgrade(agent, path, upgrade::ask_for_spdy(offered)).await?;
    let version = upgrade::chosen(&headers, offered)
        .ok_or_else(|| Status::internal(format!("the node agent {agent} chose no version of the streams")))?;
    let limits = Limits { streams: MAX_STREAMS, idle: IDLE, ping: Some(PING), stall: None };
    let agent = Connection::start(transport, Role::Client, limits);
    let upgraded = hyper::upgrade::on(&mut request);
    let answer = match &wanted {
        Wanted::Tunnel { key, .. } => upgrade::switch_to_tunnel(key, version),
        Wanted::Channels { key, protocol } => upgrade::switch_to_websocket(key, protocol.name),
        Wanted::Spdy(_) | Wanted::Passed => upgrade::switch_to_spdy(version),
    };
    tokio::spawn(async move {
        serve(upgraded, wanted, wired, agent).await;
        drop(slot);
    });
    Ok(agent::switching(answer))
}

/// The session itself, once the client's connection is its own.
async fn serve(upgraded: OnUpgrade, wanted: Wanted, wired: Wired, agent: Connection) {
    let transport = match upgraded.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "an upgrade did not happen"),
    };
    // The agent's side notices a session without data.
    let limits = Limits { streams: MAX_STREAMS, idle: IDLE, ping: None, stall: Some(STALLED) };
    match wanted {
        Wanted::Channels { protocol, .. } => {
            command::run(websocket::server(transport).await, protocol, wired, agent).await;
        }
        Wanted::Tunnel { .. } => {
            let inside = tunnel::tunnel(websocket::server(transport).await);
            relay::relay(Connection::start(inside, Role::Server, limits), agent).await;
        }
        Wanted::Spdy(_) | Wanted::Passed => {
            relay::relay(Connection::start(transport, Role::Server, limits), agent).await;
        }
    }
}
