//! Real messages over loopback.

use super::*;
use crate::discovery::Discovery;
use hickory_proto::rr::RecordType;
use serde_json::json;

fn zone(endpoints: u16) -> Zone {
    let service = |name: &str, spec| {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec})).unwrap())
    };
    let endpoints: Vec<_> =
        (0..endpoints).map(|n| json!({"addresses": [format!("10.244.{}.{}", n / 250, n % 250 + 1)]})).collect();
    let slice = json!({
        "metadata": {"name": "many-1", "namespace": "a", "labels": {"kubernetes.io/service-name": "many"}},
        "endpoints": endpoints,
    });
    let copy = Discovery {
        services: vec![
            service("web", json!({"clusterIP": "10.96.3.4"})),
            service("many", json!({"clusterIP": "None"})),
        ],
        slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
    };
    Zone::build("cluster.local", &copy, &[], 7)
}

struct Fixture {
    address: SocketAddr,
    _stop: tokio_util::sync::DropGuard,
}

impl Fixture {
    async fn new(upstreams: Vec<SocketAddr>) -> Self {
        let sockets = Sockets::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = sockets.address();
        let cancel = CancellationToken::new();
        let zone = Arc::new(RwLock::new(Arc::new(zone(300))));
        tokio::spawn(sockets.serve(zone, Forwarder::new(upstreams), cancel.clone()));
        Self { address, _stop: cancel.drop_guard() }
    }

    async fn ask(&self, name: &str) -> Message {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&question(name), self.address).await.unwrap();
        let mut buffer = [0u8; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await.unwrap().unwrap();
        Message::from_vec(&buffer[..read]).unwrap()
    }

    async fn ask_by_stream(&self, name: &str) -> Message {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let bytes = question(name);
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut reply = vec![0u8; usize::from(length)];
        stream.read_exact(&mut reply).await.unwrap();
        Message::from_vec(&reply).unwrap()
    }
}

fn question(name: &str) -> Vec<u8> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message.to_vec().unwrap()
}

#[tokio::test]
async fn a_service_is_answered_whatever_the_case() {
    let fixture = Fixture::new(vec![]).await;
    let reply = fixture.ask("WEB.a.SVC.cluster.local.").await;
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert!(reply.metadata.authoritative && reply.metadata.recursion_available);
    assert_eq!(reply.answers[0].data, RData::A(A(std::net::Ipv4Addr::new(10, 96, 3, 4))));
}

#[tokio::test]
async fn a_missing_name_says_for_how_long() {
    let fixture = Fixture::new(vec![]).await;
    let reply = fixture.ask("none.a.svc.cluster.local.").await;
    assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    let RData::SOA(soa) = &reply.authorities[0].data else { panic!("no SOA") };
    assert_eq!((soa.minimum, soa.serial), (TTL_S, 7));
}

#[tokio::test]
async fn a_long_answer_is_cut_in_a_datagram_and_whole_in_a_stream() {
    let fixture = Fixture::new(vec![]).await;
    let cut = fixture.ask("many.a.svc.cluster.local.").await;
    assert!(cut.metadata.truncation && cut.answers.is_empty());
    assert_eq!(fixture.ask_by_stream("many.a.svc.cluster.local.").await.answers.len(), 300);
}

#[tokio::test]
async fn other_names_fail_at_once_without_others_to_ask() {
    let fixture = Fixture::new(vec![]).await;
    assert_eq!(fixture.ask("example.test.").await.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn other_names_are_asked_of_others() {
    let upstream = Fixture::new(vec![]).await;
    let sockets = Sockets::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = sockets.address();
    let cancel = CancellationToken::new();
    let _stop = cancel.clone().drop_guard();
    let other = Arc::new(RwLock::new(Arc::new(Zone::empty("other.local"))));
    tokio::spawn(sockets.serve(other, Forwarder::new(vec![upstream.address]), cancel.clone()));
    let fixture = Fixture { address, _stop: CancellationToken::new().drop_guard() };
    let reply = fixture.ask("web.a.svc.cluster.local.").await;
    assert_eq!(reply.answers.len(), 1);
    let missing = fixture.ask("none.a.svc.cluster.local.").await;
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
}

#[test]
fn an_answer_is_no_question() {
    let mut reply = Message::query();
    reply.metadata.message_type = MessageType::Response;
    assert!(Question::parse(&reply.to_vec().unwrap()).is_none());
    assert!(Question::parse(b"junk").is_none());
}
