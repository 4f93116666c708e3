//! The two sockets of node DNS: UDP datagrams and TCP streams of DNS messages (RFC 1035, 6891, 7766). It decides sizes
//! and limits; what is answered is `answer`'s decision.

use super::DnsError;
use super::answer::{Answer, Outcome, answer};
use super::forward::Forwarder;
use super::zone::{Data, Zone};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record};
use parking_lot::RwLock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Seconds that clients may keep an answer: as short as CoreDNS' default for Kubernetes, because Services change.
const TTL_S: u32 = 5;
/// Without EDNS, RFC 1035's limit; with it, what avoids fragments.
const PLAIN_SIZE: u16 = 512;
const LARGEST_DATAGRAM: u16 = 1232;
const MAX_STREAMS: usize = 64;
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// Names of others that are asked for at the same time; more wait in the socket's buffer.
const MAX_FORWARDS: usize = 128;

pub struct Sockets {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
}

#[derive(Clone)]
struct Shared {
    zone: Arc<RwLock<Arc<Zone>>>,
    forwarder: Forwarder,
}

impl Sockets {
    pub async fn bind(address: SocketAddr) -> Result<Self, DnsError> {
        let failed = |source| DnsError::Listen { address, source };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let udp = Arc::new(UdpSocket::bind(address).await.map_err(failed)?);
        Ok(Self { udp, tcp })
    }

    #[cfg(test)]
    pub fn address(&self) -> SocketAddr {
        self.udp.local_addr().expect("a bound socket has an address")
    }

    pub async fn serve(self, zone: Arc<RwLock<Arc<Zone>>>, forwarder: Forwarder, cancel: CancellationToken) {
        let shared = Shared { zone, forwarder };
        let datagrams = serve_datagrams(self.udp, shared.clone());
        let streams = serve_streams(self.tcp, shared);
        tokio::select! {
            () = datagrams => {}
            () = streams => {}
            () = cancel.cancelled() => {}
        }
    }
}

async fn serve_datagrams(socket: Arc<UdpSocket>, shared: Shared) {
    let forwards = Arc::new(Semaphore::new(MAX_FORWARDS));
    let mut buffer = vec![0u8; 4096];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            // An ICMP error about an earlier answer; the socket is fine.
            continue;
        };
        let Some(question) = Question::parse(&buffer[..length]) else { continue };
        let zone = shared.zone.read().clone();
        let found = question.answer(&zone);
        if found.outcome != Outcome::Forward {
            let reply = question.reply(&zone, found, question.datagram_size());
            let _ = socket.send_to(&reply, client).await;
            continue;
        }
        let Ok(permit) = forwards.clone().acquire_owned().await else { return };
        let (socket, forwarder) = (socket.clone(), shared.forwarder.clone());
        tokio::spawn(async move {
            let reply = question.reply_with_others(&zone, found, &forwarder, question.datagram_size()).await;
            let _ = socket.send_to(&reply, client).await;
            drop(permit);
        });
    }
}

async fn serve_streams(listener: TcpListener, shared: Shared) {
    let streams = Arc::new(Semaphore::new(MAX_STREAMS));
    loop {
        let Ok(permit) = streams.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _ = serve_stream(stream, shared).await;
            drop(permit);
        });
    }
}

/// Each message has its length in front. Ends with the client or when it is idle.
async fn serve_stream(mut stream: TcpStream, shared: Shared) -> std::io::Result<()> {
    loop {
        let mut bytes = vec![];
        let read = async {
            let length = stream.read_u16().await?;
            bytes.resize(usize::from(length), 0);
            stream.read_exact(&mut bytes).await
        };
        match tokio::time::timeout(STREAM_IDLE, read).await {
            Ok(outcome) => outcome?,
            Err(_) => return Ok(()),
        };
        let Some(question) = Question::parse(&bytes) else { return Ok(()) };
        let zone = shared.zone.read().clone();
        let found = question.answer(&zone);
        let reply = match found.outcome {
            Outcome::Forward => question.reply_with_others(&zone, found, &shared.forwarder, u16::MAX).await,
            _ => question.reply(&zone, found, u16::MAX),
        };
        stream.write_u16(u16::try_from(reply.len()).unwrap_or(u16::MAX)).await?;
        stream.write_all(&reply).await?;
    }
}

/// A message that asks something.
struct Question {
    message: Message,
    query: Option<Query>,
}

impl Question {
    /// `None` for what is no question: answering it could make two servers answer each other for ever.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let message = Message::from_vec(bytes).ok()?;
        if message.metadata.message_type != MessageType::Query {
            return None;
        }
        let query = match message.queries.as_slice() {
            [query] if query.query_class() == DNSClass::IN => Some(query.clone()),
            _ => None,
        };
        Some(Self { message, query })
    }

    fn answer(&self, zone: &Zone) -> Answer {
        match &self.query {
            Some(query) => answer(zone, &plain(query.name()), query.query_type()),
            None => Answer { outcome: Outcome::Found, records: vec![], additional: vec![], remaining: String::new() },
        }
    }

    fn datagram_size(&self) -> u16 {
        let asked = self.message.edns.as_ref().map(Edns::max_payload);
        asked.map_or(PLAIN_SIZE, |size| size.clamp(PLAIN_SIZE, LARGEST_DATAGRAM))
    }

    fn head(&self) -> Message {
        let mut reply = Message::response(self.message.metadata.id, self.message.metadata.op_code);
        reply.metadata.recursion_desired = self.message.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        reply.add_queries(self.message.queries.iter().cloned());
        if self.message.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(LARGEST_DATAGRAM);
            reply.set_edns(edns);
        }
        reply
    }

    fn reply(&self, zone: &Zone, found: Answer, size: u16) -> Vec<u8> {
        let mut reply = self.head();
        reply.metadata.authoritative = true;
        if self.message.metadata.op_code != OpCode::Query {
            reply.metadata.response_code = ResponseCode::NotImp;
        } else if self.query.is_none() {
            reply.metadata.response_code = ResponseCode::FormErr;
        } else {
            if found.outcome == Outcome::NoSuchName {
                reply.metadata.response_code = ResponseCode::NXDomain;
            }
            let ends_without = found.records.last().is_none_or(|(_, data)| matches!(data, Data::Cname(_)));
            reply.add_answers(found.records.iter().filter_map(|(name, data)| record(name, data)));
            reply.add_additionals(found.additional.iter().filter_map(|(name, data)| record(name, data)));
            if ends_without {
                reply.add_authorities(authority(zone));
            }
        }
        encode(reply, size)
    }

    /// For an alias to a name outside: what others say about the target goes after the alias.
    async fn reply_with_others(&self, zone: &Zone, found: Answer, forwarder: &Forwarder, size: u16) -> Vec<u8> {
        let Some(query) = &self.query else { return self.reply(zone, found, size) };
        let mut reply = self.head();
        reply.add_answers(found.records.iter().filter_map(|(name, data)| record(name, data)));
        let name = if found.records.is_empty() { Some(query.name().clone()) } else { absolute(&found.remaining) };
        let outside = match name {
            Some(name) => forwarder.ask(name, query.query_type()).await,
            None => None,
        };
        match outside {
            Some(outside) => {
                reply.metadata.response_code = outside.metadata.response_code;
                reply.add_answers(outside.answers);
                reply.add_authorities(outside.authorities);
            }
            None if found.records.is_empty() => reply.metadata.response_code = ResponseCode::ServFail,
            // The alias itself is true whatever is known of its target.
            None => {}
        }
        encode(reply, size)
    }
}

/// The message in at most `size` bytes: without its records and marked as cut when they do not fit.
fn encode(reply: Message, size: u16) -> Vec<u8> {
    match reply.to_vec() {
        Ok(bytes) if bytes.len() <= usize::from(size) => bytes,
        Ok(_) => reply.truncate().to_vec().unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "an answer cannot be encoded");
            let (id, op_code) = (reply.metadata.id, reply.metadata.op_code);
            Message::error_msg(id, op_code, ResponseCode::ServFail).to_vec().unwrap_or_default()
        }
    }
}

/// Lower case, without the last dot.
fn plain(name: &Name) -> String {
    let mut text = name.to_lowercase().to_ascii();
    if text.ends_with('.') {
        text.pop();
    }
    text
}

fn absolute(name: &str) -> Option<Name> {
    Name::from_ascii(format!("{name}.")).ok()
}

fn record(name: &str, data: &Data) -> Option<Record> {
    let data = match data {
        Data::A(ip) => RData::A(A(*ip)),
        Data::Aaaa(ip) => RData::AAAA(AAAA(*ip)),
        Data::Srv { port, target } => RData::SRV(SRV::new(0, 100, *port, absolute(target)?)),
        Data::Cname(target) => RData::CNAME(CNAME(absolute(target)?)),
        Data::Ptr(target) => RData::PTR(PTR(absolute(target)?)),
        Data::Txt(text) => RData::TXT(TXT::new(vec![text.clone()])),
    };
    Some(Record::from_rdata(absolute(name)?, TTL_S, data))
}

/// The start of authority: tells how long a missing name may be remembered as missing.
fn authority(zone: &Zone) -> Option<Record> {
    let (domain, serial) = (zone.domain(), zone.serial());
    let (ns, mail) = (absolute(&format!("ns.dns.{domain}"))?, absolute(&format!("hostmaster.{domain}"))?);
    let soa = SOA::new(ns, mail, serial, 7200, 1800, 86400, TTL_S);
    Some(Record::from_rdata(absolute(domain)?, TTL_S, RData::SOA(soa)))
}

#[cfg(test)]
mod tests;
