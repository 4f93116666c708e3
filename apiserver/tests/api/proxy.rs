//! The subresource `proxy` of pods, services and nodes.

use crate::harness::{MERGE, PATIENCE};
use crate::machine::{Machine, text};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POD: &str = "/api/v1/namespaces/default/pods/p/proxy";
const SERVICE: &str = "/api/v1/namespaces/default/services";

async fn told(machine: &Machine, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let response = machine.send(method, path, headers, body).await;
    assert_eq!(response.status(), 200, "{method} {path}");
    serde_json::from_str(&text(response).await).unwrap()
}

/// A failure as `code reason message`.
async fn failure(machine: &Machine, path: &str) -> String {
    machine.api.get(path).await.failure()
}

#[tokio::test]
async fn requests_reach_the_pod_as_they_are() {
    let machine = Machine::new().await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let path = format!("{POD}/a%2Fb/c/?watch=1&x=%20");
        let got = told(&machine, method, &path, &[("x-own", "1"), ("authorization", "Bearer no")], "some body").await;
        assert_eq!((&got["method"], &got["target"]), (&method.into(), &"/a%2Fb/c/?watch=1&x=%20".into()));
        assert_eq!(got["body"], "some body", "{method}");
        let headers = &got["headers"];
        assert_eq!(headers["x-own"], "1");
        assert_eq!(headers["x-forwarded-uri"], format!("{POD}/a%2Fb/c/"));
        assert_eq!(headers["host"], machine.address.to_string());
        assert_eq!(headers.get("authorization"), None, "who the client is stays here");
    }
    let head = machine.send("HEAD", &format!("{POD}/"), &[], "").await;
    assert_eq!((head.status().as_u16(), text(head).await), (200, String::new()));
    let uid = machine.api.get("/api/v1/namespaces/default/pods/p").await.ok()["metadata"]["uid"].clone();
    let asked = format!("POST /podConnect/default/p?uid={}&port=8080", uid.as_str().unwrap());
    assert_eq!(machine.asked()[0], asked, "the agent dials the first port that the pod declares");
}

#[tokio::test]
async fn answers_come_back_as_they_are_but_for_addresses() {
    let machine = Machine::new().await;
    let page =
        machine.send("GET", &format!("{POD}/page"), &[("accept", "text/html"), ("accept-encoding", "gzip")], "").await;
    assert_eq!(page.headers().get("access-control-allow-origin"), None);
    assert_eq!(text(page).await, format!("<a href=\"{POD}/rewriteme\">test</a>"));
    let moved = machine.send("GET", &format!("{POD}/moved"), &[], "").await;
    assert_eq!(
        (moved.status().as_u16(), moved.headers()["location"].to_str().unwrap()),
        (302, &*format!("{POD}/there?x=1"))
    );
    let teapot = machine.send("POST", &format!("{POD}/teapot"), &[], "").await;
    assert_eq!((teapot.status().as_u16(), text(teapot).await), (418, "short and stout".into()));
}

#[tokio::test]
async fn the_root_has_a_slash() {
    let machine = Machine::new().await;
    let moved = machine.api.get(&format!("{POD}?a=b")).await;
    assert_eq!((moved.code, moved.headers["location"].to_str().unwrap()), (301, &*format!("{POD}/?a=b")));
    assert_eq!(told(&machine, "POST", POD, &[], "").await["target"], "/", "what is not read is not redirected");
}

#[tokio::test]
async fn connections_are_upgraded() {
    let machine = Machine::new().await;
    let headers = [("connection", "Upgrade"), ("upgrade", "chat")];
    let (answer, mut transport) = machine.upgrade(&format!("{POD}/chat"), &headers).await.unwrap();
    assert_eq!(answer["upgrade"], "chat");
    transport.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    tokio::time::timeout(PATIENCE, transport.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"hello");
    let (code, text) = machine.upgrade(&format!("{POD}/page"), &headers).await.err().unwrap();
    assert!(code == 500 && text.contains("invalid upgrade response: status code 200"), "{code} {text}");
    let (code, _) = machine.upgrade(&format!("{POD}/teapot"), &headers).await.err().unwrap();
    assert_eq!(code, 418);
}

#[tokio::test]
async fn a_service_leads_to_one_of_its_ready_pods() {
    let machine = Machine::new().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"},
        "ports": [{"name": "web", "port": 80, "targetPort": 8080}, {"name": "other", "port": 90}]}});
    machine.api.post(SERVICE, &service).await.ok();
    let none = "503 ServiceUnavailable no endpoints available for service \"s:web\"";
    assert_eq!(failure(&machine, &format!("{SERVICE}/s:web/proxy/")).await, none);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let endpoint = |ip: &str, pod: &str, ready: bool| json!({"addresses": [ip], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod, "namespace": "default"}});
    let slice = json!({"metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8080}],
        "endpoints": [endpoint("10.9.8.7", "p", false), endpoint("10.0.0.1", "p", true), endpoint("10.9.8.7", "gone", true),
            {"addresses": ["10.9.8.7"], "conditions": {"ready": true}}]});
    machine.api.post(slices, &slice).await.ok();
    machine.seen(slices).await;
    assert_eq!(
        failure(&machine, &format!("{SERVICE}/s:web/proxy/")).await,
        none,
        "nobody's addresses, and nobody who is ready"
    );
    machine
        .api
        .patch(MERGE, &format!("{slices}/s-1"), &json!({"endpoints": [endpoint("10.9.8.7", "p", true)]}))
        .await
        .ok();
    let there = |id: &str| format!("{SERVICE}/{id}/proxy/x");
    machine.seen(slices).await;
    for id in ["s:web", "s:80", "http:s:web"] {
        assert_eq!(told(&machine, "GET", &there(id), &[], "").await["target"], "/x", "{id}");
    }
    let unnamed = "503 ServiceUnavailable no endpoints available for service \"s\"";
    assert_eq!(failure(&machine, &there("s")).await, unnamed, "no port of that name, which is none");
    assert_eq!(
        failure(&machine, &there("s:81")).await,
        "503 ServiceUnavailable no service port 81 found for service \"s\""
    );
    assert_eq!(failure(&machine, &there("ftp:s:80")).await, "400 BadRequest invalid service request \"ftp:s:80\"");
    assert_eq!(failure(&machine, &there("none")).await, "404 NotFound services \"none\" not found");
}

#[tokio::test]
async fn a_node_leads_to_its_agent() {
    let machine = Machine::new().await;
    let answer = machine.send("GET", "/api/v1/nodes/m/proxy/healthz", &[], "").await;
    assert_eq!((answer.status().as_u16(), text(answer).await), (200, "ok".into()));
    let unknown = machine.send("GET", "/api/v1/nodes/m/proxy/what", &[], "").await;
    assert_eq!((unknown.status().as_u16(), text(unknown).await), (404, "404 page not found".into()));
    assert_eq!(machine.asked(), ["GET /healthz", "GET /what"]);
    let elsewhere = failure(&machine, "/api/v1/nodes/m:22/proxy/").await;
    assert_eq!(elsewhere, "400 BadRequest address not allowed", "this machine's own ports are nobody's business");
    assert_eq!(failure(&machine, "/api/v1/nodes/none/proxy/").await, "404 NotFound nodes \"none\" not found");
}

#[tokio::test]
async fn addresses_of_this_machine_are_not_dialed() {
    let machine = Machine::new().await;
    for ip in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1"] {
        machine.pod_address(ip).await;
        assert_eq!(failure(&machine, &format!("{POD}/")).await, "400 BadRequest address not allowed", "{ip}");
    }
    assert_eq!(machine.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_reached_is_unavailable() {
    let machine = Machine::new().await;
    let closed = failure(&machine, "/api/v1/namespaces/default/pods/p:81/proxy/").await;
    let expect = "503 ServiceUnavailable error trying to reach service: dial tcp 10.9.8.7:81: connection refused";
    assert_eq!(closed, expect);
    assert_eq!(
        failure(&machine, "/api/v1/namespaces/default/pods/q/proxy/").await,
        "404 NotFound pods \"q\" not found"
    );
    assert_eq!(machine.api.get("/api/v1/namespaces/default/configmaps/p/proxy/").await.code, 404);
}

#[tokio::test]
async fn each_method_is_a_verb() {
    let machine = Machine::new().await;
    let role = json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]});
    machine.api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await.ok();
    let binding = json!({"metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "jane"}]});
    machine.api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).await.ok();
    let jane = machine.api.as_user("jane", &["system:authenticated"]);
    jane.get_until(&format!("{POD}/?watch=true"), |reply| reply.code == 200).await;
    let refused = jane.post(&format!("{POD}/"), &json!({})).await.failure();
    assert!(
        refused
            .starts_with("403 Forbidden pods \"p\" is forbidden: User \"jane\" cannot create resource \"pods/proxy\""),
        "{refused}"
    );
}
