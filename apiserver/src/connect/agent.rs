//! Node agents: where they listen, and connections to them. Decides whose certificate is shown and trusted; never what is asked.

use crate::config::KubeletClientPem;
use crate::core::{Core, StartError};
use crate::http::body::{Body, BoxError};
use crate::http::{Outcome, Response, empty};
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::kinds::NODE;
use gantry_apimachinery::status::{Reason, Status};
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// An agent says by then whether it switches protocols: a runtime has been asked in between.
const SWITCH_WITHIN: Duration = Duration::from_secs(30);
/// An agent's error text is short.
const MAX_ERROR_TEXT: usize = 64 * 1024;

/// Dials node agents with the server's own client certificate.
pub struct KubeletClient {
    connector: TlsConnector,
}

/// Where a machine's agent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub host: String,
    pub port: u16,
}

impl std::fmt::Display for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", authority(&self.host, self.port))
    }
}

/// `HOST:PORT` as it stands in a URL.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
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

    /// The client that this server was given.
    pub fn of(core: &Core) -> Outcome<&Self> {
        let none = || Status::internal("this API server has no certificate for node agents").into();
        core.kubelet.as_ref().ok_or_else(none)
    }

    pub async fn dial(&self, agent: &Agent) -> Outcome<TlsStream<TcpStream>> {
        let connect = async {
            let name = ServerName::try_from(agent.host.clone())?;
            let tcp = TcpStream::connect((agent.host.as_str(), agent.port)).await?;
            tcp.set_nodelay(true)?;
            Ok::<_, BoxError>(self.connector.connect(name, tcp).await?)
        };
        let failed =
            |error: &dyn std::fmt::Display| Status::internal(format!("error dialing backend {agent}: {error}"));
        match timeout(DIAL_TIMEOUT, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(failed(&error).into()),
            Err(late) => Err(failed(&late).into()),
        }
    }

    /// Asks an agent to speak another protocol on its connection; its answer's headers, and the connection.
    pub async fn upgrade(
        &self,
        agent: &Agent,
        path: &str,
        headers: HeaderMap,
    ) -> Outcome<(HeaderMap, TokioIo<Upgraded>)> {
        self.switch(self.dial(agent).await?, agent, path, headers).await
    }

    /// The same on a connection that is there.
    pub async fn switch(
        &self,
        stream: TlsStream<TcpStream>,
        agent: &Agent,
        path: &str,
        headers: HeaderMap,
    ) -> Outcome<(HeaderMap, TokioIo<Upgraded>)> {
        let failed = |error: &dyn std::fmt::Display| Status::internal(format!("error proxying to {agent}: {error}"));
        let switching = async {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(stream)).await?;
            tokio::spawn(connection.with_upgrades());
            let mut request = http::Request::new(empty());
            *request.method_mut() = Method::POST;
            *request.uri_mut() = path.parse::<Uri>()?;
            *request.headers_mut() = headers;
            request.headers_mut().insert(HOST, HeaderValue::from_str(&agent.to_string())?);
            Ok::<_, BoxError>(sender.send_request(request).await?)
        };
        let mut response = match timeout(SWITCH_WITHIN, switching).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failed(&error).into()),
            Err(late) => return Err(failed(&late).into()),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let why = timeout(SWITCH_WITHIN, failure(response)).await.map_err(|late| failed(&late))?;
            return Err(why.into());
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(|error| failed(&error))?;
        Ok((std::mem::take(response.headers_mut()), TokioIo::new(upgraded)))
    }
}

/// The agent of a pod's machine.
pub fn of_pod(core: &Core, pod: &Value) -> Outcome<Agent> {
    let name = str_at(pod, "spec.nodeName");
    if name.is_empty() {
        let text = format!("pod {} does not have a host assigned", str_at(pod, "metadata.name"));
        return Err(Status::bad_request(text).into());
    }
    of_node(core, name)
}

/// The agent of a machine.
pub fn of_node(core: &Core, name: &str) -> Outcome<Agent> {
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

/// The agent's refusal in its own words.
pub async fn failure(response: http::Response<hyper::body::Incoming>) -> Status {
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

/// An answer without a body.
pub fn switching(headers: HeaderMap) -> Response {
    let mut answer = http::Response::new(empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}
