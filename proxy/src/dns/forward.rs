//! Asking the resolvers outside for names that are not the cluster's. Bounded in time; never caches.

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Clients give up after five seconds; two resolvers fit into that.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Forwarder {
    upstreams: Arc<[SocketAddr]>,
}

impl Forwarder {
    pub fn new(upstreams: Vec<SocketAddr>) -> Self {
        Self { upstreams: upstreams.into() }
    }

    /// The first answer of the resolvers in their order; `None` when none answers.
    pub async fn ask(&self, name: Name, kind: RecordType) -> Option<Message> {
        for upstream in self.upstreams.iter() {
            match tokio::time::timeout(PATIENCE, exchange(*upstream, &name, kind)).await {
                Ok(Ok(Some(reply))) => return Some(reply),
                Ok(Ok(None)) => tracing::debug!(%upstream, "sent something that is no answer"),
                Ok(Err(error)) => tracing::debug!(%upstream, %error, "cannot be asked"),
                Err(_) => tracing::debug!(%upstream, "did not answer in time"),
            }
        }
        None
    }
}

async fn exchange(upstream: SocketAddr, name: &Name, kind: RecordType) -> std::io::Result<Option<Message>> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    let id = message.metadata.id;
    let Ok(question) = message.to_vec() else { return Ok(None) };
    let own: SocketAddr = match upstream {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A connected socket takes datagrams of this resolver only; its random port and the id make forging hard.
    let socket = UdpSocket::bind(own).await?;
    socket.connect(upstream).await?;
    socket.send(&question).await?;
    let mut buffer = vec![0u8; 4096];
    let reply = loop {
        let length = socket.recv(&mut buffer).await?;
        match Message::from_vec(&buffer[..length]) {
            Ok(reply) if reply.metadata.id == id => break reply,
            _ => continue,
        }
    };
    if !reply.metadata.truncation {
        return Ok(Some(reply));
    }
    let mut stream = TcpStream::connect(upstream).await?;
    stream.write_u16(u16::try_from(question.len()).unwrap_or(u16::MAX)).await?;
    stream.write_all(&question).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0u8; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(Message::from_vec(&bytes).ok().filter(|reply| reply.metadata.id == id))
}
