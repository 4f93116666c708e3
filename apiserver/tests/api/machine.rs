//! A machine with an agent of this process, and a server over TLS in front of it. The agent's containers know a few words, its pods
//! serve a small site. Decides nothing about what is right.

use crate::harness::{Api, PATIENCE};
use bytes::Bytes;
use gantry_apiserver::KubeletClientPem;
use gantry_apiserver::http::Query;
use gantry_apiserver::streams::spdy::{Connection, Limits, Part, Role, Stream};
use http::header::{CONNECTION, HeaderMap, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::{CancellationToken, DropGuard};

pub const LIMITS: Limits = Limits { streams: 16, idle: Duration::from_secs(60), ping: None, stall: None };
type Answer = Response<Full<Bytes>>;

/// A certificate authority, and what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// (certificate, key) in PEM.
    fn sign(&self, name: &str, organisation: &str, hosts: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, organisation);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

pub struct Machine {
    pub api: Api,
    pub address: SocketAddr,
    /// What the agent was asked for, in its order.
    pub asked: Arc<Mutex<Vec<String>>>,
    connector: TlsConnector,
    _stop: DropGuard,
}

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl Machine {
    pub async fn new() -> Self {
        let authority = Authority::new();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let port = agent(&authority, asked.clone()).await;
        let (cert, key_pem) = authority.sign("kube-apiserver-kubelet-client", "system:masters", &[]);
        let pem = KubeletClientPem { ca: authority.pem.clone(), cert, key: key_pem };
        let api = Api::with(|config| config.kubelet = Some(pem)).await;
        let (cert, server_key) = authority.sign("server", "", &["127.0.0.1", "localhost"]);
        let tls = gantry_apiserver::server_config(&cert, &server_key, &authority.pem).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let (server, stopped) = (api.server.clone(), cancel.clone());
        tokio::spawn(async move { server.serve(listener, tls, stopped).await });
        let (admin, admin_key) = authority.sign("kubernetes-admin", "system:masters", &[]);
        let mut roots = rustls::RootCertStore::empty();
        chain(&authority.pem).into_iter().for_each(|root| roots.add(root).unwrap());
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&admin), key(&admin_key))
            .unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let machine = Self { api, address, asked, connector, _stop: cancel.drop_guard() };
        machine.objects(port).await;
        machine
    }

    /// The node `m`, and on it the pod `p` with one container.
    async fn objects(&self, port: u16) {
        let node = json!({"metadata": {"name": "m"}});
        self.api.post("/api/v1/nodes", &node).await.ok();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        self.api.patch(crate::harness::MERGE, "/api/v1/nodes/m/status", &status).await.ok();
        let account = json!({"metadata": {"name": "default"}});
        self.api.post("/api/v1/namespaces/default/serviceaccounts", &account).await.ok();
        self.seen("/api/v1/namespaces/default/serviceaccounts").await;
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"nodeName": "m",
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]}});
        self.api.post("/api/v1/namespaces/default/pods", &pod).await.ok();
        self.pod_address("10.9.8.7").await;
        self.seen("/api/v1/nodes").await;
    }

    pub async fn pod_address(&self, ip: &str) {
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
        self.api.patch(crate::harness::MERGE, "/api/v1/namespaces/default/pods/p/status", &status).await.ok();
        self.seen("/api/v1/namespaces/default/pods").await;
    }

    /// A list waits until the server's cache has everything that was written.
    pub async fn seen(&self, path: &str) {
        self.api.get(&format!("{path}?limit=1")).await.ok();
    }

    async fn dial(&self) -> TlsStream<TcpStream> {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect(ServerName::try_from("127.0.0.1").unwrap(), tcp).await.unwrap()
    }

    /// Sends a request over a connection of its own.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response<Incoming> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.dial().await)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder().method(method).uri(path).header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("in time").unwrap()
    }

    /// The answer's headers, and the connection when protocols were switched; else what was said instead.
    pub async fn upgrade(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(HeaderMap, TokioIo<Upgraded>), (u16, String)> {
        let mut response = self.send("GET", path, headers, "").await;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err((response.status().as_u16(), text(response).await));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.unwrap();
        Ok((std::mem::take(response.headers_mut()), TokioIo::new(upgraded)))
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub async fn text(response: Response<Incoming>) -> String {
    let body = tokio::time::timeout(PATIENCE, response.into_body().collect()).await.expect("in time").unwrap();
    String::from_utf8_lossy(&body.to_bytes()).into_owned()
}

/// Starts the agent; its port.
async fn agent(authority: &Authority, asked: Arc<Mutex<Vec<String>>>) -> u16 {
    let (cert, key_pem) = authority.sign("agent", "", &["127.0.0.1"]);
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain(&cert), key(&key_pem))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (acceptor, asked) = (acceptor.clone(), asked.clone());
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let serve = service_fn(move |request| {
                    let asked = asked.clone();
                    async move { Ok::<_, Infallible>(route(request, &asked)) }
                });
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(TokioIo::new(tls), serve).with_upgrades().await;
            });
        }
    });
    port
}

fn said(code: u16, text: impl Into<String>) -> Answer {
    Response::builder().status(code).body(Full::new(Bytes::from(text.into()))).unwrap()
}

fn route(mut request: Request<Incoming>, asked: &Mutex<Vec<String>>) -> Answer {
    let target = request.uri().to_string();
    asked.lock().unwrap().push(format!("{} {target}", request.method()));
    let query = Query::parse(request.uri().query());
    let first = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    let protocol = match first.as_str() {
        "podConnect" => "tcp",
        "exec" | "attach" | "portForward" => "SPDY/3.1",
        "healthz" => return said(200, "ok"),
        _ => return said(404, "404 page not found"),
    };
    if query.get("port") == Some("81") {
        return said(502, "dial tcp 10.9.8.7:81: connection refused");
    }
    if query.get("command") == Some("refuse") {
        return said(404, "container not found (\"c\")");
    }
    let versions: Vec<_> = request.headers().get_all("x-stream-protocol-version").iter().cloned().collect();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let transport = TokioIo::new(upgraded.await.unwrap());
        match first.as_str() {
            "podConnect" => site(transport).await,
            "portForward" => forward(Connection::start(transport, Role::Server, LIMITS)).await,
            _ => command(Connection::start(transport, Role::Server, LIMITS), &query).await,
        }
    });
    let mut answer = said(101, "");
    answer.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
    answer.headers_mut().insert(UPGRADE, protocol.parse().unwrap());
    if let Some(version) = versions.first() {
        answer.headers_mut().insert("x-stream-protocol-version", version.clone());
    }
    answer
}

/// A container: `cat` gives back what it is told, `size` the size of its terminal, `exit` a code.
async fn command(mut connection: Connection, query: &Query) {
    let mut streams = BTreeMap::new();
    let terminal = query.flag("tty");
    let flags = ["input", "output", "error", "tty"].into_iter().filter(|flag| !(terminal && *flag == "error"));
    let expected = 1 + flags.filter(|flag| query.flag(flag)).count();
    while streams.len() < expected {
        let Some(stream) = connection.incoming.recv().await else { return };
        stream.sender.reply().await.unwrap();
        let kind = stream.headers.iter().find(|(name, _)| name == "streamtype").unwrap().1.clone();
        streams.insert(kind, stream);
    }
    let source = if query.get("command") == Some("size") { "resize" } else { "stdin" };
    if let (Some(mut from), Some(to)) = (streams.remove(source), streams.get("stdout")) {
        while let Some(Part::Data(bytes)) = from.receiver.recv().await {
            if to.sender.send(bytes).await.is_err() || source == "resize" {
                break;
            }
        }
    }
    let status = match query.get("command") {
        Some("exit") => json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "it exited with 7",
            "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}),
        _ => json!({"status": "Success", "metadata": {}}),
    };
    let _ = streams["error"].sender.send(status.to_string().into()).await;
    for stream in streams.values() {
        // As containerd ends.
        let _ = stream.sender.reset(5).await;
    }
}

/// Ports: what comes in goes back in capitals; port 81 is closed.
async fn forward(mut connection: Connection) {
    while let Some(stream) = connection.incoming.recv().await {
        tokio::spawn(port(stream));
    }
}

async fn port(mut stream: Stream) {
    stream.sender.reply().await.unwrap();
    let header = |name: &str| stream.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    if header("streamtype").as_deref() == Some("error") {
        if header("port").as_deref() == Some("81") {
            let _ = stream.sender.send(Bytes::from_static(b"connection refused")).await;
        }
        let _ = stream.sender.finish().await;
        return;
    }
    while let Some(Part::Data(bytes)) = stream.receiver.recv().await {
        if stream.sender.send(bytes.to_ascii_uppercase().into()).await.is_err() {
            return;
        }
    }
    let _ = stream.sender.finish().await;
}

/// What a pod serves.
async fn site<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(transport: T) {
    let serve = service_fn(|request: Request<Incoming>| async { Ok::<_, Infallible>(page(request).await) });
    let builder = hyper::server::conn::http1::Builder::new();
    let _ = builder.serve_connection(TokioIo::new(transport), serve).with_upgrades().await;
}

async fn page(mut request: Request<Incoming>) -> Answer {
    let target = request.uri().to_string();
    match request.uri().path() {
        "/page" => {
            let mut answer = said(200, "<a href=\"/rewriteme\">test</a>");
            answer.headers_mut().insert("content-type", "text/html; charset=utf-8".parse().unwrap());
            answer.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
            answer
        }
        "/moved" => {
            let mut answer = said(302, "");
            answer.headers_mut().insert("location", "/there?x=1".parse().unwrap());
            answer
        }
        "/teapot" => said(418, "short and stout"),
        "/chat" => {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
                tokio::io::copy(&mut from, &mut to).await
            });
            let mut answer = said(101, "");
            answer.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
            answer.headers_mut().insert(UPGRADE, "chat".parse().unwrap());
            answer
        }
        _ => {
            let headers: BTreeMap<String, String> = request
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
                .collect();
            let method = request.method().to_string();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let told: Value = json!({"method": method, "target": target, "headers": headers,
                "body": String::from_utf8_lossy(&body)});
            said(200, told.to_string())
        }
    }
}
