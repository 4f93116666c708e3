//! The agent's own HTTPS server: logs, exec, attach, port-forward and what it knows of its pods. Only the API server may
//! ask: it shows a client certificate whose common name says so. It decides routes; it changes no pod.

mod connect;
mod join;
mod logfile;
pub(crate) mod logs;
mod rotate;
mod stream;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::agent::{PodView, Shared};

pub type Body = BoxBody<Bytes, std::io::Error>;
pub type Answer = Response<Body>;

/// The one client that may ask.
const CLIENT: &str = "kube-apiserver-kubelet-client";
const RETRY: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(10);

pub fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    let body = Full::new(Bytes::from(text.into())).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn json(value: &serde_json::Value) -> Answer {
    let mut answer = text(StatusCode::OK, value.to_string());
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

/// Serves until cancelled; with no certificates configured it serves nothing.
pub async fn run(shared: Arc<Shared>) {
    tokio::spawn(rotate::run(shared.clone()));
    let Some(files) = shared.config.tls.clone() else { return };
    let cancel = shared.cancel.clone();
    let serve = async {
        loop {
            let failure = match (tls::acceptor(&files), TcpListener::bind(shared.config.listen).await) {
                (Ok(acceptor), Ok(listener)) => return accept(&shared, listener, acceptor).await,
                (Err(e), _) => e,
                (_, Err(e)) => format!("{}: {e}", shared.config.listen),
            };
            tracing::error!(failure, "the kubelet server cannot start");
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = serve => {}
    }
}

async fn accept(shared: &Arc<Shared>, listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(shared.clone(), stream, acceptor.clone()));
            }
            // Out of file descriptors, mostly: those in use come back.
            Err(_) => tokio::time::sleep(RETRY / 10).await,
        }
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, acceptor: TlsAcceptor) {
    drop(stream.set_nodelay(true));
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let allowed = tls::common_name(&stream).as_deref() == Some(CLIENT);
    let service = hyper::service::service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, std::convert::Infallible>(route(shared, request, allowed).await) }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that went away is no error of ours.
    drop(served.with_upgrades().await);
}

async fn route(shared: Arc<Shared>, request: Request<Incoming>, allowed: bool) -> Answer {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    if parts == ["healthz"] {
        return text(StatusCode::OK, "ok");
    }
    if !allowed {
        return text(StatusCode::FORBIDDEN, "Forbidden: only the API server may ask");
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    match (request.method(), parts.as_slice()) {
        (&Method::GET, ["pods"]) => pods(&shared),
        (&Method::GET, ["metrics"]) => metrics(&shared),
        (&Method::GET, ["containerLogs", ns, pod, container]) => match shared.views.find(ns, pod, None) {
            Some(view) => logs::serve(shared, view, container, &query),
            None => missing(ns, pod),
        },
        (_, ["exec", ns, pod, container]) => match container_id(&shared, ns, pod, container) {
            Ok(id) => {
                let url = shared.runtime.exec_url(&id, &query.all("command"), query.streams()).await;
                stream::proxy(url, request).await
            }
            Err(answer) => answer,
        },
        (_, ["attach", ns, pod, container]) => match container_id(&shared, ns, pod, container) {
            Ok(id) => attach(&shared, &id, container, &query, request).await,
            Err(answer) => answer,
        },
        (_, ["portForward", ns, pod]) => match shared.views.find(ns, pod, None) {
            Some(PodView { sandbox: Some(id), .. }) => {
                let ports: Vec<i32> =
                    query.all("ports").iter().chain(&query.all("port")).filter_map(|p| p.parse().ok()).collect();
                stream::proxy(shared.runtime.port_forward_url(&id, &ports).await, request).await
            }
            _ => missing(ns, pod),
        },
        (_, ["podConnect", ns, pod]) => {
            match shared.views.find(ns, pod, query.get("uid").filter(|uid| !uid.is_empty())) {
                Some(view) => connect::serve(&view.status, query.get("port").unwrap_or_default(), request).await,
                None => missing(ns, pod),
            }
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

/// A runtime takes an attach for some time after the container's end, and ends it as if all had been said. The client has to
/// hear that it came too late: kubectl then reads the log.
async fn attach(shared: &Shared, id: &str, container: &str, query: &Query, request: Request<Incoming>) -> Answer {
    let url = shared.runtime.attach_url(id, query.streams()).await;
    match shared.runtime.lives(id).await {
        Ok(true) => stream::proxy(url, request).await,
        Ok(false) => text(StatusCode::BAD_REQUEST, format!("container {container:?} is not running")),
        Err(e) => stream::proxy(Err(e), request).await,
    }
}

fn missing(ns: &str, pod: &str) -> Answer {
    text(StatusCode::NOT_FOUND, format!("pod {pod:?} of namespace {ns:?} is not on this machine"))
}

#[allow(clippy::result_large_err, reason = "the error is the answer itself, made once and sent")]
fn container_id(shared: &Shared, ns: &str, pod: &str, container: &str) -> Result<String, Answer> {
    let view = shared.views.find(ns, pod, None).ok_or_else(|| missing(ns, pod))?;
    let id = view.running.get(container).cloned();
    id.ok_or_else(|| text(StatusCode::NOT_FOUND, format!("container not found ({container:?})")))
}

fn pods(shared: &Shared) -> Answer {
    let items: Vec<_> = shared
        .views
        .all()
        .into_iter()
        .map(|v| {
            let mut pod = (*v.pod).clone();
            pod.status = v.status;
            pod
        })
        .collect();
    json(&serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

fn metrics(shared: &Shared) -> Answer {
    let views = shared.views.all();
    let running: usize = views.iter().map(|v| v.running.len()).sum();
    text(
        StatusCode::OK,
        format!(
            "# HELP kubelet_running_pods Pods that have a sandbox.\n# TYPE kubelet_running_pods gauge\n\
             kubelet_running_pods {}\n# HELP kubelet_running_containers Containers that run.\n\
             # TYPE kubelet_running_containers gauge\nkubelet_running_containers {running}\n",
            views.iter().filter(|v| !v.running.is_empty()).count()
        ),
    )
}

/// A query's pairs, decoded.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(raw: &str) -> Self {
        let decode = |s: &str| {
            let spaced = s.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        let pairs = raw.split('&').filter(|p| !p.is_empty());
        Self(pairs.map(|p| p.split_once('=').unwrap_or((p, ""))).map(|(k, v)| (decode(k), decode(v))).collect())
    }
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    pub fn all(&self, key: &str) -> Vec<String> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect()
    }
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("1" | "true"))
    }
    fn streams(&self) -> crate::runtime::Streams {
        crate::runtime::Streams {
            stdin: self.flag("input"),
            stdout: self.flag("output"),
            stderr: self.flag("error"),
            tty: self.flag("tty"),
        }
    }
}
