//! The server on a real socket: TLS, client certificates, both HTTP versions, and what it passes on to node agents.

use crate::harness::{Api, MERGE, key_pair};
use bytes::Bytes;
use gantry_apimachinery::clock::{Clock, FakeClock, SystemClock};
use gantry_apimachinery::time::Timestamp;
use gantry_apiserver::{KubeletClientPem, server_config};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

pub struct Pki {
    pub ca: CertifiedIssuer<'static, KeyPair>,
}

pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Pki {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { ca: CertifiedIssuer::self_signed(params, key_pair()).unwrap() }
    }

    pub fn issue(&self, name: &str, group: &str) -> Pair {
        self.issue_for(name, group, &[])
    }

    /// Also for these DNS names.
    pub fn issue_for(&self, name: &str, group: &str, hosts: &[&str]) -> Pair {
        self.issue_until(name, group, hosts, 4_000)
    }

    /// Until that year begins.
    fn issue_until(&self, name: &str, group: &str, hosts: &[&str], year: i32) -> Pair {
        let key = key_pair();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Pair { cert: params.signed_by(&key, &self.ca).unwrap().pem(), key: key.serialize_pem() }
    }

    pub async fn dial(&self, address: SocketAddr, identity: Option<&Pair>, alpn: &str) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let tcp = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), tcp).await.unwrap()
    }
}

/// An API server on a socket, stopped when the token is cancelled.
pub async fn listening(pki: &Pki, api: &Api) -> (SocketAddr, CancellationToken) {
    listening_for(pki, api, &pki.ca.pem()).await
}

/// It takes certificates of these authorities.
pub async fn listening_for(pki: &Pki, api: &Api, authorities: &str) -> (SocketAddr, CancellationToken) {
    let (address, cancel, _) = serving(pki, api, authorities).await;
    (address, cancel)
}

/// The same, and what ends when the server has ended.
pub async fn serving(
    pki: &Pki,
    api: &Api,
    authorities: &str,
) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = pki.issue("kube-apiserver", "none");
    let tls = server_config(&own.cert, &own.key, authorities).unwrap();
    let (server, cancel) = (api.server.clone(), CancellationToken::new());
    let stop = cancel.clone();
    let serving = tokio::spawn(async move { server.serve(listener, tls, stop).await });
    (address, cancel, serving)
}

async fn get(stream: TlsStream<TcpStream>, path: &str, http2: bool) -> (StatusCode, Value) {
    let request = Request::builder().uri(format!("https://127.0.0.1{path}")).header("host", "127.0.0.1");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = if http2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn certificates_are_identities_on_both_http_versions() {
    let (pki, api) = (Pki::new(), Api::new().await);
    let (address, _stop) = listening(&pki, &api).await;
    let admin = pki.issue("kubernetes-admin", "system:masters");
    let jane = pki.issue("jane", "dev");
    for (alpn, http2) in [("h2", true), ("http/1.1", false)] {
        let secrets = "/api/v1/secrets";
        let rows =
            [(Some(&admin), secrets, 200), (Some(&jane), secrets, 403), (None, secrets, 403), (None, "/readyz", 200)];
        for (identity, path, code) in rows {
            let stream = pki.dial(address, identity, alpn).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
            assert_eq!(get(stream, path, http2).await.0.as_u16(), code, "{alpn} {path}");
        }
    }
    let strangers = Pki::new();
    let forged = strangers.issue("kubernetes-admin", "system:masters");
    let mut stream = pki.dial(address, Some(&forged), "http/1.1").await;
    let refused =
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.is_err() || stream.read_u8().await.is_err();
    assert!(refused, "a certificate of another authority is no identity");
}

#[tokio::test]
async fn a_certificate_counts_until_its_end_also_on_a_connection_that_is_older() {
    let clock = FakeClock::new(SystemClock.now());
    let (pki, api) = (Pki::new(), Api::with_clock(Arc::new(clock.clone()), |_| {}).await);
    let (address, _stop) = listening(&pki, &api).await;
    let end = Timestamp::parse("2100-01-01T00:00:00Z").unwrap().secs();
    let admin = pki.issue_until("kubernetes-admin", "system:masters", &[], 2_100);
    let stream = pki.dial(address, Some(&admin), "h2").await;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let asked = async |path: &str, token: &str| {
        let request = Request::builder().uri(format!("https://127.0.0.1{path}"));
        let request = if token.is_empty() { request } else { request.header("authorization", token) };
        let answer = sender.clone().send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        answer.status().as_u16()
    };
    clock.set_wall(Timestamp::from_secs(end));
    assert_eq!(asked("/api/v1/secrets", "").await, 200, "it is its last second");
    clock.set_wall(Timestamp::from_secs(end + 1));
    assert_eq!(asked("/api/v1/secrets", "").await, 401);
    assert_eq!(asked("/readyz", "").await, 401, "and it does not make anonymous");
    assert_eq!(asked("/api/v1/secrets", "Bearer none").await, 401);
    let account = json!({"metadata": {"name": "a"}});
    api.post("/api/v1/namespaces/default/serviceaccounts", &account).await.ok();
    let wanted = json!({"spec": {"expirationSeconds": 600}});
    let made = api.post("/api/v1/namespaces/default/serviceaccounts/a/token", &wanted).await.ok();
    let token = format!("Bearer {}", made["status"]["token"].as_str().unwrap());
    assert_eq!(asked("/readyz", &token).await, 200, "another proof counts");
}

#[tokio::test]
async fn stopping_ends_watches_and_the_listener() {
    let (pki, api) = (Pki::new(), Api::new().await);
    let (address, stop) = listening(&pki, &api).await;
    let admin = pki.issue("kubernetes-admin", "system:masters");
    let stream = pki.dial(address, Some(&admin), "h2").await;
    let watch = tokio::spawn(async move { get(stream, "/api/v1/namespaces?watch=1", true).await.0 });
    tokio::time::timeout(crate::harness::PATIENCE, async {
        while !api.get("/metrics").await.text.contains("apiserver_longrunning_requests{resource=\"namespaces\"} 1") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    assert_eq!(tokio::time::timeout(crate::harness::PATIENCE, watch).await.unwrap().unwrap(), 200);
}

/// A node agent that answers logs, refuses one container, and echoes upgraded bytes.
async fn agent(pki: &Pki) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = pki.issue("system:node:n", "system:nodes");
    let tls = server_config(&own.cert, &own.key, &pki.ca.pem()).unwrap();
    let mut tls = (*tls).clone();
    tls.alpn_protocols.clear();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let stream = acceptor.accept(tcp).await.unwrap();
            assert!(stream.get_ref().1.peer_certificates().is_some(), "the server shows its certificate");
            let service = service_fn(|request: Request<Incoming>| async move { Ok::<_, Infallible>(answer(request)) });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades(),
            );
        }
    });
    address
}

fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let target = request.uri().path_and_query().unwrap().to_string();
    assert!(!request.headers().contains_key(header::AUTHORIZATION));
    if target.contains("/waiting") {
        let text = "container \"waiting\" in pod \"p\" is waiting to start: ContainerCreating";
        return Response::builder().status(400).body(Full::from(text)).unwrap();
    }
    if !request.headers().contains_key(header::UPGRADE) {
        return Response::new(Full::from(target));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        stream.write_all(target.as_bytes()).await.unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    });
    let protocol = request.headers().get(header::SEC_WEBSOCKET_PROTOCOL).cloned();
    let mut response = Response::builder().status(101).header("connection", "upgrade").header("upgrade", "websocket");
    if let Some(protocol) = protocol {
        response = response.header(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response.body(Full::default()).unwrap()
}

async fn cluster(pki: &Pki) -> Api {
    let client = pki.issue("kube-apiserver-kubelet-client", "none");
    let ca = pki.ca.pem();
    let api =
        Api::with(|config| config.kubelet = Some(KubeletClientPem { ca, cert: client.cert, key: client.key })).await;
    let port = agent(pki).await.port();
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await.ok();
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await.ok();
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    api.patch(MERGE, "/api/v1/nodes/n/status", &status).await.ok();
    api.get("/api/v1/serviceaccounts").await.ok();
    let pod = |name: &str, node: &str| {
        let containers = json!([{"name": "a", "image": "i"}, {"name": "waiting", "image": "i"}]);
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    };
    api.post("/api/v1/namespaces/default/pods", &pod("p", "n")).await.ok();
    api.post("/api/v1/namespaces/default/pods", &pod("unplaced", "")).await.ok();
    api
}

#[tokio::test]
async fn logs_come_from_the_pods_machine() {
    let pki = Pki::new();
    let api = cluster(&pki).await;
    let path = "/api/v1/namespaces/default/pods/p/log";
    let log = api.get(&format!("{path}?container=a&follow=true&tailLines=5")).await;
    assert_eq!((log.code, log.text.as_str()), (200, "/containerLogs/default/p/a?follow=true&tailLines=5"));
    let rows = [
        (
            format!("{path}?container=waiting"),
            "400 BadRequest container \"waiting\" in pod \"p\" is waiting to start: ContainerCreating",
        ),
        (path.to_owned(), "400 BadRequest a container name must be specified for pod p, choose one of: [a waiting]"),
        (format!("{path}?container=z"), "400 BadRequest container z is not valid for pod p"),
        (
            "/api/v1/namespaces/default/pods/unplaced/log?container=a".to_owned(),
            "400 BadRequest pod unplaced does not have a host assigned",
        ),
        ("/api/v1/namespaces/default/pods/none/log".to_owned(), "404 NotFound pods \"none\" not found"),
    ];
    for (path, expect) in rows {
        assert_eq!(api.get(&path).await.failure(), expect);
    }
}
