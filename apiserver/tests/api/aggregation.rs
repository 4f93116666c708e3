//! Groups that another server serves: a real one, over TLS, that believes nobody but our proxy's certificate.

use crate::harness::{Api, MERGE, PATIENCE, Reply};
use crate::wire::{Pki, listening};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use gantry_apiserver::http::body::{Body, full, stream};
use gantry_apiserver::{FrontProxyPem, UserInfo};
use gantry_store::{Op, Txn};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const GROUP: &str = "/apis/ext.example.org/v1";
const NAME: &str = "v1.ext.example.org";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Another API server. It wants a certificate of the front proxy's authority from whoever calls.
struct Extension {
    port: u16,
    ill: Arc<AtomicBool>,
}

impl Extension {
    async fn start(serving: &Pki, proxies: &Pki) -> Self {
        let pair = serving.issue_for("ext", "none", &["ext.default.svc"]);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(proxies.ca.pem().as_bytes()).unwrap()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            );
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ill = Arc::new(AtomicBool::new(false));
        let is_ill = ill.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, ill) = (acceptor.clone(), is_ill.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let serve = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let ill = ill.load(Ordering::SeqCst);
                        async move { Ok::<_, hyper::Error>(answer(request, ill).await) }
                    });
                    let connection =
                        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), serve);
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        Self { port, ill }
    }
}

async fn answer(mut request: Request<Incoming>, ill: bool) -> Response<Body> {
    let path = request.uri().path_and_query().unwrap().to_string();
    let made = |value: Value| {
        Response::builder().header("content-type", "application/json").body(full(value.to_string())).unwrap()
    };
    if ill {
        return Response::builder().status(500).body(full("ill")).unwrap();
    }
    match path.as_str() {
        GROUP => made(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.example.org/v1", "resources": [
                {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list", "watch"], "shortNames": ["th"]},
            ]}),
        ),
        "/openapi/v3" => made(
            json!({"paths": {"apis/ext.example.org/v1": {"serverRelativeURL": "/openapi/v3/apis/ext.example.org/v1?hash=AB"}}}),
        ),
        "/openapi/v3/apis/ext.example.org/v1?hash=AB" => made(json!({"openapi": "3.0.0", "from": "ext"})),
        "/openapi/v2" => made(
            json!({"swagger": "2.0", "paths": {(format!("{GROUP}/things")): {"get": {"operationId": "listThings"}}}, "definitions": {}}),
        ),
        _ if path.contains("watch=1") => {
            let events = ["ADDED", "MODIFIED"].map(|kind| {
                let line = json!({"type": kind, "object": {"kind": "Thing", "metadata": {"name": "a"}}});
                Bytes::from(format!("{line}\n"))
            });
            // It goes on for as long as somebody listens.
            Response::new(stream(futures::stream::iter(events).chain(futures::stream::pending())))
        }
        _ if path.ends_with("/moved") => {
            Response::builder().status(302).header("location", "https://elsewhere.example.org/").body(full("")).unwrap()
        }
        _ if request.headers().contains_key("upgrade") => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            });
            Response::builder()
                .status(101)
                .header("connection", "upgrade")
                .header("upgrade", "echo")
                .body(full(""))
                .unwrap()
        }
        _ => {
            let headers: Vec<String> =
                request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            let method = request.method().to_string();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            made(
                json!({"kind": "Echo", "method": method, "path": path, "headers": headers, "body": String::from_utf8_lossy(&body)}),
            )
        }
    }
}

/// An API server that has a certificate for the front proxy, and the authorities of both sides.
async fn cluster() -> (Api, Pki, Pki) {
    let (serving, proxies) = (Pki::new(), Pki::new());
    let pair = proxies.issue("front-proxy-client", "none");
    let ca = proxies.ca.pem();
    let pem = FrontProxyPem { ca, cert: pair.cert, key: pair.key };
    let api = Api::with(|config| {
        config.client_ca = serving.ca.pem();
        config.front_proxy = Some(pem);
    })
    .await;
    (api, serving, proxies)
}

fn apiservice(bundle: &Pki, more: Value) -> Value {
    let mut object = json!({"metadata": {"name": NAME}, "spec": {"group": "ext.example.org", "version": "v1",
        "groupPriorityMinimum": 17_850, "versionPriority": 10, "caBundle": STANDARD.encode(bundle.ca.pem()),
        "service": {"namespace": "default", "name": "ext", "port": 443}}});
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// A Service and its endpoint. The slice goes to the store itself: the API takes no loopback addresses.
async fn place(api: &Api, port: u16) {
    let ports = json!([{"name": "https", "port": 443}]);
    api.post("/api/v1/namespaces/default/services", &json!({"metadata": {"name": "ext"}, "spec": {"ports": ports}}))
        .await
        .ok();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "ext-1", "namespace": "default", "uid": "u", "labels": {"kubernetes.io/service-name": "ext"}},
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]});
    let put = Op::put("/registry/endpointslices.discovery.k8s.io/default/ext-1", slice.to_string());
    api.stores.state.txn(Txn { success: vec![put], ..Txn::default() }).await.unwrap();
}

fn condition(object: &Value) -> String {
    let one = &object["status"]["conditions"][0];
    format!("{} {}", one["status"].as_str().unwrap_or(""), one["reason"].as_str().unwrap_or(""))
}

async fn until(api: &Api, expect: &str) -> Value {
    api.get_until(&format!("{SERVICES}/{NAME}"), |reply| condition(&reply.body) == expect).await.ok()
}

fn has(reply: &Reply, header: &str) -> bool {
    reply.body["headers"].as_array().unwrap().iter().any(|one| one == header)
}

#[tokio::test]
async fn requests_go_on_in_the_callers_name() {
    let (api, serving, proxies) = cluster().await;
    let extension = Extension::start(&serving, &proxies).await;
    api.post(SERVICES, &apiservice(&serving, json!({}))).await.ok();
    until(&api, "False ServiceNotFound").await;
    let early = api.get(&format!("{GROUP}/namespaces/default/things")).await;
    assert_eq!((early.code, early.text.as_str()), (503, "service unavailable\n"));
    place(&api, extension.port).await;
    let object = until(&api, "True Passed").await;
    assert_eq!(object["status"]["conditions"][0]["message"], "all checks passed");

    let mut jane = api.as_user("jane", &["system:masters"]);
    jane.user = UserInfo { uid: "7".into(), extra: [("scopes".into(), vec!["a".into()])].into(), ..jane.user };
    let path = format!("{GROUP}/namespaces/default/things/x?dryRun=All");
    let headers = [("x-remote-user", "root"), ("authorization", "Bearer t"), ("content-type", "text/odd")];
    let reply = jane.send(Method::PUT, &path, &headers, "as it is").await;
    assert_eq!((reply.code, &reply.body["path"], &reply.body["body"]), (200, &json!(path), &json!("as it is")));
    assert_eq!(reply.body["method"], "PUT");
    for header in [
        "x-remote-user: jane",
        "x-remote-group: system:masters",
        "x-remote-group: system:authenticated",
        "x-remote-uid: 7",
        "x-remote-extra-scopes: a",
        "content-type: text/odd",
    ] {
        assert!(has(&reply, header), "{header} in {}", reply.text);
    }
    assert!(!reply.text.contains("root") && !reply.text.contains("Bearer"), "{}", reply.text);
    // Who may not is refused here, before anything is asked.
    let nobody = api.as_user("nobody", &[]);
    let expect = "403 Forbidden things.ext.example.org \"x\" is forbidden: User \"nobody\" cannot get resource \"things\" in API group \"ext.example.org\" in the namespace \"default\"";
    assert_eq!(nobody.get(&format!("{GROUP}/namespaces/default/things/x")).await.failure(), expect);
    let moved = api.get(&format!("{GROUP}/namespaces/default/things/moved")).await;
    let why = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!((moved.code, moved.text.as_str()), (502, why));

    let mut watch = api.watch(&format!("{GROUP}/things?watch=1")).await;
    assert_eq!([watch.brief().await, watch.brief().await], ["ADDED a", "MODIFIED a"]);
}

#[tokio::test]
async fn an_upgrade_passes_through() {
    let (api, serving, proxies) = cluster().await;
    let extension = Extension::start(&serving, &proxies).await;
    place(&api, extension.port).await;
    api.post(SERVICES, &apiservice(&serving, json!({}))).await.ok();
    until(&api, "True Passed").await;
    let (address, _stop) = listening(&serving, &api).await;
    let admin = serving.issue("kubernetes-admin", "system:masters");
    let (sessions, user) = (&api.server.core().sessions, &api.user);
    let all: Vec<_> = std::iter::from_fn(|| sessions.enter(user).ok()).collect();
    let upgrade = [("connection", "Upgrade"), ("upgrade", "echo")];
    let full = api.send(Method::GET, &format!("{GROUP}/namespaces/default/things/x/talk"), &upgrade, "").await;
    let expect =
        "429 TooManyRequests \"kubernetes-admin\" has 512 sessions and proxied requests open, the most of one user";
    assert_eq!(full.failure(), expect);
    assert_eq!(api.get(&format!("{GROUP}/namespaces/default/things/x")).await.code, 200, "it is no session");
    drop(all);
    let stream = serving.dial(address, Some(&admin), "http/1.1").await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::builder().uri(format!("{GROUP}/namespaces/default/things/x/talk")).header("host", "x");
    let request = request.header("connection", "Upgrade").header("upgrade", "echo").body(Full::<Bytes>::default());
    let mut response = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["upgrade"].as_bytes()), (101, &b"echo"[..]));
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
    let others = || std::iter::from_fn(|| sessions.enter(user).ok()).collect::<Vec<_>>().len();
    assert_eq!(others(), 511);
    // Its place is free again when it has ended.
    drop((stream, sender));
    tokio::time::timeout(PATIENCE, async {
        while others() < 512 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the session's place is free");
}

#[tokio::test]
async fn only_the_right_server_is_believed() {
    let (api, serving, proxies) = cluster().await;
    let extension = Extension::start(&serving, &proxies).await;
    place(&api, extension.port).await;
    api.post(SERVICES, &apiservice(&proxies, json!({}))).await.ok();
    let object = until(&api, "False FailedDiscoveryCheck").await;
    let message = object["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("failing or missing response from https://ext.default.svc:443/apis/ext.example.org/v1: "),
        "{message}"
    );
    assert_eq!(api.get(&format!("{GROUP}/things")).await.code, 503);
    // Whoever asks for it gets it.
    let careless = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    api.patch(MERGE, &format!("{SERVICES}/{NAME}"), &careless).await.ok();
    until(&api, "True Passed").await;
    assert_eq!(api.get(&format!("{GROUP}/things")).await.ok()["kind"], "Echo");
    // And without its Service it is gone.
    api.delete("/api/v1/namespaces/default/services/ext", &Value::Null).await.ok();
    until(&api, "False ServiceNotFound").await;
    api.delete(&format!("{SERVICES}/{NAME}"), &Value::Null).await.ok();
    api.get_until(&format!("{GROUP}/things"), |reply| reply.code == 404).await;
}

#[tokio::test]
async fn discovery_and_documents_are_of_all_servers() {
    let (api, serving, proxies) = cluster().await;
    let extension = Extension::start(&serving, &proxies).await;
    let groups = async |accept: &str| api.get_as("/apis", accept).await.ok();
    let remote = |list: &Value| {
        list["items"].as_array().unwrap().iter().find(|one| one["metadata"]["name"] == "ext.example.org").cloned()
    };
    api.post(SERVICES, &apiservice(&serving, json!({}))).await.ok();
    until(&api, "False ServiceNotFound").await;
    let stale = remote(&groups(AGGREGATED).await).unwrap();
    assert_eq!(stale["versions"], json!([{"version": "v1", "freshness": "Stale", "resources": []}]));
    place(&api, extension.port).await;
    until(&api, "True Passed").await;
    let plain = groups("application/json").await;
    let names: Vec<&str> =
        plain["groups"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "ext.example.org", "apps"], "by its priority");
    assert_eq!(api.get("/apis/ext.example.org").await.ok()["preferredVersion"]["groupVersion"], "ext.example.org/v1");
    assert_eq!(api.get(GROUP).await.ok()["resources"][0]["name"], "things");
    let current = remote(&groups(AGGREGATED).await).unwrap();
    assert_eq!(current["versions"][0]["freshness"], "Current");
    let kind = json!({"group": "ext.example.org", "version": "v1", "kind": "Thing"});
    assert_eq!(
        current["versions"][0]["resources"],
        json!([{"resource": "things", "singularResource": "thing", "scope": "Namespaced",
        "responseKind": kind, "verbs": ["get", "list", "watch"], "shortNames": ["th"]}])
    );

    let document = |reply: &Reply| reply.body["paths"].get(format!("{GROUP}/things")).is_some();
    api.get_until("/openapi/v2", document).await;
    let index = api.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/ext.example.org/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&url).await.ok()["from"], "ext");
    assert!(index["paths"]["apis/apps/v1"].is_object());

    // What was seen is remembered while the server is ill.
    extension.ill.store(true, Ordering::SeqCst);
    let ready = json!({"metadata": {"annotations": {"touched": "yes"}}});
    api.patch(MERGE, "/api/v1/namespaces/default/services/ext", &ready).await.ok();
    let object = until(&api, "False FailedDiscoveryCheck").await;
    let message = object["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("bad status from https://ext.default.svc:443/apis/ext.example.org/v1: 500"), "{message}");
    let stale = remote(&groups(AGGREGATED).await).unwrap();
    assert_eq!(
        (&stale["versions"][0]["freshness"], &stale["versions"][0]["resources"]),
        (&json!("Stale"), &current["versions"][0]["resources"])
    );
}

#[tokio::test]
async fn what_is_served_here_has_local_ones() {
    let (api, _, proxies) = cluster().await;
    let local = api.get(&format!("{SERVICES}/v1.apps")).await.ok();
    assert_eq!(
        (condition(&local), &local["metadata"]["labels"]),
        ("True Local".to_owned(), &json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}))
    );
    assert_eq!(api.get(&format!("{SERVICES}/v1.")).await.ok()["spec"]["groupPriorityMinimum"], 18_000);
    let table = api.get_as(SERVICES, "application/json;as=Table;v=v1;g=meta.k8s.io").await.ok();
    let row = table["rows"].as_array().unwrap().iter().find(|row| row["cells"][0] == "v1.apps").unwrap().clone();
    assert_eq!(row["cells"].as_array().unwrap()[..3], ["v1.apps", "Local", "True"]);
    // It comes again, and as it was.
    let before = local["metadata"]["uid"].clone();
    api.delete(&format!("{SERVICES}/v1.apps"), &Value::Null).await.ok();
    api.get_until(&format!("{SERVICES}/v1.apps"), |reply| reply.code == 200 && reply.body["metadata"]["uid"] != before)
        .await;
    api.patch(MERGE, &format!("{SERVICES}/v1.batch"), &json!({"spec": {"groupPriorityMinimum": 5}})).await.ok();
    api.get_until(&format!("{SERVICES}/v1.batch"), |reply| reply.body["spec"]["groupPriorityMinimum"] == 17_400).await;

    let definition = json!({"metadata": {"name": "shoes.wear.example.com"}, "spec": {"group": "wear.example.com", "scope": "Namespaced",
        "names": {"plural": "shoes", "kind": "Shoe"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.post(definitions, &definition).await.ok();
    let made = api.get_until(&format!("{SERVICES}/v1.wear.example.com"), |reply| reply.code == 200).await.ok();
    assert_eq!((condition(&made), &made["spec"]["versionPriority"]), ("True Local".to_owned(), &json!(100)));
    api.delete(&format!("{definitions}/shoes.wear.example.com"), &Value::Null).await.ok();
    api.get_until(&format!("{SERVICES}/v1.wear.example.com"), |reply| reply.code == 404).await;

    let published = api.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await.ok();
    let text = |key: &str| published["data"][key].as_str().unwrap_or("").to_owned();
    assert_eq!(text("requestheader-client-ca-file").trim(), proxies.ca.pem().trim());
    assert_eq!(text("requestheader-allowed-names"), "[\"front-proxy-client\"]");
    assert_eq!(text("requestheader-extra-headers-prefix"), "[\"X-Remote-Extra-\"]");
    assert!(text("client-ca-file").contains("BEGIN CERTIFICATE"));
}

/// What a remote group names no longer is ours, even if a definition names it too.
#[tokio::test]
async fn another_server_comes_before_a_definition() {
    let (api, serving, proxies) = cluster().await;
    let definition = json!({"metadata": {"name": "things.ext.example.org"}, "spec": {"group": "ext.example.org", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    api.get_until(&format!("{GROUP}/things"), |reply| reply.code == 200).await;
    until(&api, "True Local").await;
    let extension = Extension::start(&serving, &proxies).await;
    place(&api, extension.port).await;
    let mut taken = json!({"spec": apiservice(&serving, json!({}))["spec"], "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}}});
    taken["spec"]["groupPriorityMinimum"] = 500.into();
    api.patch(MERGE, &format!("{SERVICES}/{NAME}"), &taken).await.ok();
    until(&api, "True Passed").await;
    let reply = api.get_until(&format!("{GROUP}/things"), |reply| reply.body["kind"] == "Echo").await;
    assert!(has(&reply, "x-remote-user: kubernetes-admin"), "{}", reply.text);
    assert_eq!(api.get(GROUP).await.ok()["resources"][0]["verbs"], json!(["get", "list", "watch"]));
}
