//! Who is calling, when neither our authority nor a service account says so: OIDC, webhooks, bootstrap tokens, proxies; and the server
//! that decides what no role allows.

use crate::harness::{Api, PATIENCE, Reply};
use crate::little::Little;
use crate::wire::{Pki, listening_for};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gantry_apimachinery::clock::{Clock, FakeClock, SystemClock};
use gantry_apimachinery::time::Timestamp;
use gantry_apiserver::auth::peers::Peer;
use gantry_apiserver::pipeline::{Lifetime, handle};
use gantry_apiserver::{AccessWebhook, Config, OidcConfig, RequestHeaderConfig, TokenWebhook, WebhookServer};
use http::Request;
use http_body_util::BodyExt;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use rcgen::PublicKeyData;
use serde_json::{Value, json};
use std::sync::Arc;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Asks as nobody in particular, with a token.
async fn with_token(api: &Api, token: &str, path: &str) -> Reply {
    let post = path == WHO;
    let request = Request::builder().method(if post { "POST" } else { "GET" }).uri(path);
    let request = request.header("authorization", format!("Bearer {token}")).header("content-type", "application/json");
    let body = gantry_apiserver::http::full(if post { "{}" } else { "" });
    let (peer, lifetime) = (Peer::default(), Lifetime::default());
    let answered = handle(api.server.core(), &peer, &lifetime, request.body(body).unwrap());
    let response = tokio::time::timeout(PATIENCE, answered).await.expect("an answer in time");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Reply { code: parts.status.as_u16(), headers: parts.headers, body, text }
}

/// `user group,…`, or the code of a refusal.
async fn who(api: &Api, token: &str) -> String {
    let reply = with_token(api, token, WHO).await;
    if reply.code != 201 {
        return reply.code.to_string();
    }
    let user = &reply.body["status"]["userInfo"];
    let groups: Vec<&str> = user["groups"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    format!("{} {}", user["username"].as_str().unwrap(), groups.join(","))
}

/// One of an issuer's keys.
struct Signer {
    id: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
    public: Value,
}

impl Signer {
    fn ec(id: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate().unwrap();
        let point = pair.der_bytes()[1..].to_vec();
        let (x, y) = point.split_at(32);
        let public = json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)});
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        Self { id, algorithm: Algorithm::ES256, key, public }
    }

    fn rsa(id: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
        let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut public =
            serde_json::to_value(jsonwebtoken::jwk::Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap()).unwrap();
        public["kid"] = id.into();
        Self { id, algorithm: Algorithm::RS256, key, public }
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

#[tokio::test]
async fn tokens_of_an_oidc_issuer_count() {
    let pki = Pki::new();
    let (rsa, ec, later) = (Signer::rsa("r"), Signer::ec("e"), Signer::ec("later"));
    let keys = Arc::new(Mutex::new(vec![rsa.public.clone(), ec.public.clone()]));
    let (served, own) = (keys.clone(), Arc::new(Mutex::new(String::new())));
    let url = own.clone();
    let issuer = Little::start(&pki, move |path, _| match path {
        "/.well-known/openid-configuration" => {
            let url = url.lock().clone();
            (200, json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))
        }
        "/keys" => (200, json!({"keys": *served.lock()})),
        _ => (404, json!({})),
    })
    .await;
    own.lock().clone_from(&issuer.url);
    let clock = FakeClock::new(SystemClock.now());
    clock.advance_ms(60_000);
    let (ca, issuer_url) = (pki.ca.pem(), issuer.url.clone());
    let oidc = OidcConfig {
        issuer_url,
        client_id: "gantry".into(),
        username_claim: "sub".into(),
        username_prefix: Some("oidc:".into()),
        groups_claim: "groups".into(),
        groups_prefix: "oidc:".into(),
        signing_algs: vec!["RS256".into(), "ES256".into()],
        ca,
        ..OidcConfig::default()
    };
    let api = Api::with_clock(Arc::new(clock.clone()), |config| config.oidc = Some(oidc)).await;
    let claims = |change: &dyn Fn(&mut Value)| {
        let mut claims = json!({"iss": issuer.url, "aud": "gantry", "sub": "jane", "groups": ["dev"], "exp": clock.now().secs() + 600});
        change(&mut claims);
        claims
    };
    let jane = "oidc:jane oidc:dev,system:authenticated";
    assert_eq!(who(&api, &rsa.sign(&claims(&|_| {}))).await, jane);
    assert_eq!(who(&api, &ec.sign(&claims(&|_| {}))).await, jane);
    assert_eq!(who(&api, &ec.sign(&claims(&|c| c["aud"] = "other".into()))).await, "401");
    let past = clock.now().secs() - 1;
    assert_eq!(who(&api, &ec.sign(&claims(&|c| c["exp"] = past.into()))).await, "401");
    assert_eq!(who(&api, &ec.sign(&claims(&|c| c["iss"] = "https://other".into()))).await, "401");
    let forged = Signer { id: "e", ..Signer::ec("forged") };
    assert_eq!(who(&api, &forged.sign(&claims(&|_| {}))).await, "401");
    let review = json!({"spec": {"token": ec.sign(&claims(&|_| {}))}});
    let review = api.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.ok();
    assert_eq!(
        (&review["status"]["authenticated"], &review["status"]["user"]["username"]),
        (&json!(true), &json!("oidc:jane"))
    );

    // New keys count when they are first used, though the issuer was asked a moment ago; but it is not asked for every token.
    *keys.lock() = vec![later.public.clone()];
    assert_eq!(who(&api, &later.sign(&claims(&|_| {}))).await, jane);
    let (before, gone) = (issuer.asked(), ec.sign(&claims(&|_| {})));
    let many = futures::future::join_all((0..50).map(|_| who(&api, &gone))).await;
    assert!(many.iter().all(|who| who == "401"), "its key is gone: {many:?}");
    // Two questions are one fetch; a second fetch if some came while the first was under way.
    assert!(issuer.asked() - before <= 4, "{} questions for 50 tokens", issuer.asked() - before);
    // Without the issuer what is known goes on to count, and nobody hangs.
    let known = later.sign(&claims(&|_| {}));
    let unknown = ec.sign(&claims(&|_| {}));
    drop(issuer);
    clock.advance_ms(11_000);
    assert_eq!((who(&api, &unknown).await, who(&api, &known).await), ("401".to_owned(), jane.to_owned()));
}

fn webhook(pki: &Pki, server: &Little) -> WebhookServer {
    WebhookServer { url: format!("{}/ask", server.url), ca: pki.ca.pem(), ..WebhookServer::default() }
}

#[tokio::test]
async fn tokens_are_reviewed_by_another_server() {
    let pki = Pki::new();
    let reviewer = Little::start(&pki, |_, review| {
        assert_eq!(review["kind"], "TokenReview");
        let status = match review["spec"]["token"].as_str().unwrap() {
            "good" => json!({"authenticated": true, "user": {"username": "jane", "groups": ["dev"]}}),
            "elsewhere" => json!({"authenticated": true, "user": {"username": "jane"}, "audiences": ["elsewhere"]}),
            "broken" => return (500, json!({})),
            _ => json!({"authenticated": false}),
        };
        (200, json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}))
    })
    .await;
    let server = webhook(&pki, &reviewer);
    let clock = FakeClock::new(Timestamp::from_secs(1_000));
    let api = Api::with_clock(Arc::new(clock.clone()), |config| {
        config.token_webhook = Some(TokenWebhook { server, cache_s: 120 })
    })
    .await;
    let jane = "jane dev,system:authenticated";
    assert_eq!((who(&api, "good").await, who(&api, "good").await), (jane.to_owned(), jane.to_owned()));
    assert_eq!((who(&api, "bad").await, who(&api, "bad").await), ("401".to_owned(), "401".to_owned()));
    assert_eq!(reviewer.asked(), 2, "answers are kept");
    assert_eq!(who(&api, "elsewhere").await, "401", "it is meant for others");
    assert_eq!((who(&api, "broken").await, who(&api, "broken").await), ("401".to_owned(), "401".to_owned()));
    assert_eq!(reviewer.asked(), 5, "failures are not kept");
    drop(reviewer);
    assert_eq!(who(&api, "good").await, jane);
    clock.advance_ms(120_000);
    assert_eq!(who(&api, "good").await, "401", "nobody is there to say so");
}

#[tokio::test]
async fn a_machine_joins_by_a_bootstrap_token() {
    let set = |config: &mut Config| config.bootstrap_tokens = true;
    let clock = FakeClock::new(Timestamp::parse("2026-01-01T00:00:00Z").unwrap());
    let api = Api::with_clock(Arc::new(clock.clone()), set).await;
    let token = "abcdef.0123456789abcdef";
    assert_eq!(who(&api, token).await, "401");
    let data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        "expiration": "2026-01-01T01:00:00Z", "auth-extra-groups": "system:bootstrappers:workers"});
    let secret = json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": data});
    api.post("/api/v1/namespaces/kube-system/secrets", &secret).await.ok();
    api.get("/api/v1/namespaces/kube-system/secrets").await.ok();
    let expect = "system:bootstrap:abcdef system:bootstrappers,system:bootstrappers:workers,system:authenticated";
    assert_eq!(who(&api, token).await, expect);
    assert_eq!(who(&api, "abcdef.0123456789abcdee").await, "401");
    clock.advance_ms(3_600_000);
    assert_eq!(who(&api, token).await, "401");
    let off = Api::on(api.stores.clone()).await;
    assert_eq!(who(&off, token).await, "401");
}

#[tokio::test]
async fn what_no_role_allows_another_server_may() {
    let pki = Pki::new();
    let decider = Little::start(&pki, |_, review| {
        let spec = &review["spec"];
        assert_eq!((&review["kind"], &spec["user"]), (&json!("SubjectAccessReview"), &json!("jane")));
        let status = match spec["resourceAttributes"]["resource"].as_str() {
            Some("configmaps") => json!({"allowed": true, "reason": "jane's own"}),
            Some("secrets") => json!({"allowed": false, "denied": true, "reason": "not for jane"}),
            _ => return (500, json!({})),
        };
        (200, json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status}))
    })
    .await;
    let server = webhook(&pki, &decider);
    let clock = FakeClock::new(Timestamp::from_secs(1_000));
    let api = Api::with_clock(Arc::new(clock.clone()), |config| {
        config.access_webhook = Some(AccessWebhook { server, allowed_s: 300, denied_s: 30 });
    })
    .await;
    let jane = api.as_user("jane", &[]);
    let list = |resource: &str| format!("/api/v1/namespaces/default/{resource}");
    assert_eq!((jane.get(&list("configmaps")).await.code, jane.get(&list("configmaps")).await.code), (200, 200));
    assert_eq!(decider.asked(), 1, "a yes is kept");
    let refused = jane.get(&list("secrets")).await.failure();
    assert!(refused.ends_with("in the namespace \"default\": not for jane"), "{refused}");
    let failed = jane.get(&list("pods")).await.failure();
    assert!(failed.ends_with("in the namespace \"default\": the authorization webhook did not answer"), "{failed}");
    assert_eq!(api.get(&list("pods")).await.code, 200, "administrators need nobody");
    assert_eq!(jane.get("/version").await.code, 200, "what roles allow is not asked");
    assert_eq!(decider.asked(), 3);
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "version": "v1", "resource": "configmaps", "namespace": "default"}}});
    let review = jane.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.ok();
    assert_eq!(review["status"], json!({"allowed": true, "reason": "jane's own"}));
    clock.advance_ms(300_000);
    drop(decider);
    assert_eq!(jane.get(&list("configmaps")).await.code, 403, "silence is no yes");
}

#[tokio::test]
async fn a_proxy_speaks_for_others() {
    let (clients, proxies) = (Pki::new(), Pki::new());
    let header = RequestHeaderConfig {
        ca: proxies.ca.pem(),
        allowed_names: vec!["front".into()],
        username_headers: vec!["X-Remote-User".into()],
        group_headers: vec!["X-Remote-Group".into()],
        ..RequestHeaderConfig::default()
    };
    let client_ca = clients.ca.pem();
    let api = Api::with(|config| {
        config.client_ca = client_ca;
        config.request_header = Some(header);
    })
    .await;
    let both = format!("{}\n{}", clients.ca.pem(), proxies.ca.pem());
    let (address, _stop) = listening_for(&clients, &api, &both).await;
    let rows = [
        // The right proxy is believed, in its headers alone.
        (proxies.issue("front", "system:masters"), true, 200),
        (proxies.issue("front", "system:masters"), false, 403),
        // Another one is nobody, and so is a client that says it is somebody.
        (proxies.issue("other", "system:masters"), true, 403),
        (clients.issue("jane", "dev"), true, 403),
        (clients.issue("kubernetes-admin", "system:masters"), false, 200),
    ];
    for (pair, says, code) in rows {
        let stream = clients.dial(address, Some(&pair), "http/1.1").await;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().uri("/api/v1/secrets").header("host", "x");
        if says {
            request = request.header("x-remote-user", "root").header("x-remote-group", "system:masters");
        }
        let request = request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), code, "says: {says}");
    }
}
