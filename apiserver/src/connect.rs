//! Requests that end in a node agent: logs, exec, attach, port-forward. Decides which machine and container; the bytes, and the
//! protocol inside an upgraded connection, pass through untouched.

use crate::config::KubeletClientPem;
use crate::core::{Core, StartError};
use crate::http::body::{Body, BoxError, boxed};
use crate::http::{Outcome, Query, Request, Response};
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::kinds::{NODE, POD};
use gantry_apimachinery::status::{Reason, Status};
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, UPGRADE};
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// An agent's error text is short.
const MAX_ERROR_TEXT: usize = 64 * 1024;
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Dials node agents with the server's own client certificate.
pub struct KubeletClient {
    connector: TlsConnector,
}

impl KubeletClient {
    pub fn new(pem: &KubeletClientPem) -> Result<Self, StartError> {
        let bad = |error: &dyn std::fmt::Display| StartError::KubeletClient(error.to_string());
        let certs = |text: &str| CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certs(&pem.ca).map_err(|error| bad(&error))? {
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(|error| bad(&error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(certs(&pem.cert).map_err(|error| bad(&error))?, key)
            .map_err(|error| bad(&error))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
    }

    async fn dial(&self, host: &str, port: u16) -> Result<TlsStream<TcpStream>, BoxError> {
        let name = ServerName::try_from(host.to_owned())?;
        let connect = async {
            let tcp = TcpStream::connect((host, port)).await?;
            tcp.set_nodelay(true)?;
            self.connector.connect(name, tcp).await
        };
        Ok(tokio::time::timeout(DIAL_TIMEOUT, connect).await??)
    }
}

/// Where a pod's agent listens.
struct Agent {
    host: String,
    port: u16,
}

fn agent(core: &Core, pod: &Value) -> Outcome<Agent> {
    let name = str_at(pod, "spec.nodeName");
    if name.is_empty() {
        let text = format!("pod {} does not have a host assigned", str_at(pod, "metadata.name"));
        return Err(Status::bad_request(text).into());
    }
    let node = core.cached(&NODE, "", name).ok_or_else(|| Status::not_found("nodes", name))?;
    let node = node.value().map_err(Status::internal)?;
    let addresses = items(&node, "status.addresses");
    let host = addresses.iter().find(|address| address["type"] == "InternalIP").or_else(|| addresses.first());
    let host = host.and_then(|address| address["address"].as_str());
    let port =
        node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().and_then(|port| u16::try_from(port).ok());
    match (host, port) {
        (Some(host), Some(port)) => Ok(Agent { host: host.to_owned(), port }),
        _ => Err(Status::internal(format!("node {name} has not published its address")).into()),
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

/// Proxies `pods/{log,exec,attach,portforward}` to the pod's agent.
pub async fn pod(
    core: &Core,
    namespace: &str,
    name: &str,
    subresource: &str,
    query: &Query,
    request: Request,
) -> Outcome<Response> {
    let stored = core.latest(&POD, namespace, name, false).await?.ok_or_else(|| Status::not_found("pods", name))?;
    let agent = agent(core, &stored.value)?;
    let raw = request.uri().query().unwrap_or("").to_owned();
    let path = agent_path(subresource, namespace, &stored.value, query, &raw)?;
    let client =
        core.kubelet.as_ref().ok_or_else(|| Status::internal("this API server has no certificate for node agents"))?;
    let stream = client
        .dial(&agent.host, agent.port)
        .await
        .map_err(|error| Status::internal(format!("error dialing backend {}:{}: {error}", agent.host, agent.port)))?;
    let what = format!("{}:{}", agent.host, agent.port);
    forward(stream, &what, &path, request).await
}

const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-authorization", "te", "transfer-encoding", "authorization"];

async fn forward(stream: TlsStream<TcpStream>, host: &str, path: &str, mut request: Request) -> Outcome<Response> {
    let internal = |error: &dyn std::fmt::Display| Status::internal(format!("error proxying to {host}: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(stream))
        .await
        .map_err(|error| internal(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to a node agent ended");
        }
    });
    let upgrades = request.headers().contains_key(UPGRADE);
    let client_side = upgrades.then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let mut onward = http::Request::new(body);
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = path.parse::<Uri>().map_err(|error| internal(&error))?;
    copy_headers(&parts.headers, onward.headers_mut(), upgrades);
    onward.headers_mut().insert(HOST, host.parse().map_err(|_| internal(&"bad host"))?);
    let mut response = sender.send_request(onward).await.map_err(|error| internal(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let agent_side = hyper::upgrade::on(&mut response);
        if let Some(client_side) = client_side {
            tokio::spawn(join(client_side, agent_side));
        }
        let mut answer = http::Response::new(crate::http::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        copy_headers(response.headers(), answer.headers_mut(), true);
        return Ok(answer);
    }
    if response.status().is_success() {
        let (parts, body) = response.into_parts();
        let mut answer = http::Response::new(boxed(body));
        *answer.status_mut() = parts.status;
        copy_headers(&parts.headers, answer.headers_mut(), false);
        return Ok(answer);
    }
    Err(agent_failure(response).await.into())
}

fn copy_headers(from: &HeaderMap, to: &mut HeaderMap, upgrades: bool) {
    for (name, value) in from {
        let keep = upgrades && (name == CONNECTION || name == UPGRADE);
        if keep || !HOP_BY_HOP.contains(&HeaderName::as_str(name)) {
            to.append(name.clone(), value.clone());
        }
    }
}

/// The agent's refusal in its own words.
async fn agent_failure(response: http::Response<hyper::body::Incoming>) -> Status {
    let code = response.status().as_u16();
    let text = match Limited::new(response.into_body(), MAX_ERROR_TEXT).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    if let Ok(status) = serde_json::from_str::<Status>(&text)
        && status.kind == "Status"
    {
        return status;
    }
    let reason = match code {
        400 => Reason::BadRequest,
        401 | 403 => Reason::Forbidden,
        404 => Reason::NotFound,
        503 => Reason::ServiceUnavailable,
        _ => Reason::InternalError,
    };
    let mut status = Status::failure(reason, text, None);
    status.code = code;
    status
}

/// Carries bytes both ways until one side is done.
pub async fn join(client: hyper::upgrade::OnUpgrade, agent: hyper::upgrade::OnUpgrade) {
    let (client, agent) = match tokio::try_join!(client, agent) {
        Ok(sides) => sides,
        Err(error) => {
            tracing::debug!(%error, "an upgrade did not happen");
            return;
        }
    };
    let (mut client, mut agent) = (TokioIo::new(client), TokioIo::new(agent));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut agent).await {
        tracing::debug!(%error, "an upgraded connection ended");
    }
}
