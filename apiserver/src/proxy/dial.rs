//! Connections to backends: to a pod through the agent of its machine, which reaches it whatever network this server is in; straight
//! where there is no such agent. Decides the way; `target` decided that the address may be reached.

use super::target::{Target, reachable, refused};
use crate::connect::agent::{self, DIAL_TIMEOUT};
use crate::core::Core;
use crate::http::body::BoxError;
use crate::kinds::value::str_at;
use crate::outbound::dial as outbound;
use crate::streams::upgrade::switch_to;
use gantry_apimachinery::status::Status;
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::LazyLock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}
pub type Transport = Box<dyn Io>;

/// A pod's port.
pub async fn pod(core: &Core, target: &Target) -> Result<Transport, BoxError> {
    match through_agent(core, target).await {
        Some(outcome) => outcome,
        None => straight(&[SocketAddr::new(target.ip, target.port)]).await,
    }
}

/// `None` when the pod's machine has no agent that could be asked.
async fn through_agent(core: &Core, target: &Target) -> Option<Result<Transport, BoxError>> {
    let (client, agent) = (core.kubelet.as_ref()?, agent::of_pod(core, &target.pod).ok()?);
    let stream = client.dial(&agent).await.ok()?;
    let meta = &target.pod["metadata"];
    let (namespace, name, uid) = (str_at(meta, "namespace"), str_at(meta, "name"), str_at(meta, "uid"));
    let path = format!("/podConnect/{namespace}/{name}?uid={uid}&port={}", target.port);
    match client.switch(stream, &agent, &path, switch_to("tcp")).await {
        Ok((_, transport)) => Some(Ok(Box::new(transport))),
        Err(status) if unknown_to(&status) => None,
        Err(status) => Some(Err(status.message.into())),
    }
}

/// An agent that is not Gantry's has no such path.
fn unknown_to(status: &Status) -> bool {
    status.code == 404 && status.message.contains("page not found")
}

/// A port of a machine, by its address or name. As Kubernetes: never this machine itself.
pub async fn machine(host: &str, port: u16) -> Result<Transport, BoxError> {
    let found: Vec<SocketAddr> = timeout(DIAL_TIMEOUT, lookup_host((host, port))).await??.collect();
    if found.is_empty() || !found.iter().all(|address| reachable(address.ip())) {
        return Err(refused().message.into());
    }
    straight(&found).await
}

async fn straight(addresses: &[SocketAddr]) -> Result<Transport, BoxError> {
    let tcp = timeout(DIAL_TIMEOUT, TcpStream::connect(addresses)).await??;
    tcp.set_nodelay(true)?;
    Ok(Box::new(tcp))
}

/// TLS whose certificate proves nothing: nobody told this server whom to trust for a pod, as in Kubernetes.
pub async fn tls(host: &str, transport: Transport) -> Result<Transport, BoxError> {
    static CONNECTOR: LazyLock<Result<TlsConnector, String>> =
        LazyLock::new(|| outbound::tls(&outbound::Trust::Anybody, None).map_err(|error| error.to_string()));
    let connector = CONNECTOR.as_ref().map_err(Clone::clone)?;
    let name = ServerName::try_from(host.to_owned())?;
    Ok(Box::new(timeout(DIAL_TIMEOUT, connector.connect(name, transport)).await??))
}
