//! Streams to containers with real clients: exec, attach and port-forward by WebSocket and by SPDY, and the proxy subresources. And one
//! client that speaks SPDY by hand, byte by byte.

use crate::declare::{NAMESPACE, web_pod};
use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kubectl, wait_for};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

/// kubectl speaks WebSockets unless it is told not to; older ones speak SPDY alone.
const WAYS: [(&str, &str); 2] = [("WebSocket", "true"), ("SPDY", "false")];
const PATIENCE: Duration = Duration::from_secs(20);

pub fn commands_by_websocket_and_spdy(cluster: &Cluster) -> anyhow::Result<()> {
    let pod = web_pod(cluster)?;
    for (way, on) in WAYS {
        let demo = cluster.kubectl.within(NAMESPACE).with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", on);
        let exec = |arguments: &[&'static str]| in_pod(&pod, arguments);
        ensure!(demo.ok(&exec(&["/testbed", "echo", "a", "b"]))? == "a b\n", "output over {way}");
        let much = "a line that is one of very many\n".repeat(100_000);
        let echoed = demo.ok_with(&exec(&["/testbed", "cat"]), &much)?;
        ensure!(echoed == much, "{} of {} bytes came back over {way}", echoed.len(), much.len());
        let said = demo.run(&exec(&["/testbed", "exit", "7"]), "")?;
        ensure!(said.code == 7, "over {way} the exit code is {} ({})", said.code, said.err);
    }
    Ok(())
}

/// kubectl's words for a command in a pod that is given input.
fn in_pod<'a>(pod: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "-i", pod, "--"][..], command].concat()
}

pub fn attach_reaches_a_waiting_program(cluster: &Cluster) -> anyhow::Result<()> {
    for (way, on) in WAYS {
        let demo = cluster.kubectl.within(NAMESPACE).with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", on);
        demo.apply(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"listener"},"spec":{"restartPolicy":"Never","containers":[
            {"name":"c","image":"docker.io/library/testbed:local","command":["/testbed","cat"],"stdin":true,"stdinOnce":true}]}}"#,
        )?;
        demo.ok(&["wait", "pod/listener", "--for=condition=Ready", "--timeout=30s"])?;
        let heard = demo.ok_with(&["attach", "-i", "listener"], "hello there\n")?;
        ensure!(heard == "hello there\n", "{heard:?} over {way}");
        demo.ok(&["wait", "pod/listener", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s"])?;
        demo.ok(&["delete", "pod", "listener", "--now"])?;
    }
    Ok(())
}

/// A running kubectl that printed where it listens.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(kubectl: &Kubectl, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = kubectl.spawn(arguments)?;
        let mut lines = BufReader::new(child.stdout.take().context("kubectl's output")?).lines();
        // `Forwarding from 127.0.0.1:PORT -> 8080`, `Starting to serve on 127.0.0.1:PORT`.
        let first = lines.next().context("kubectl said nothing")??;
        let port = first.split("127.0.0.1:").nth(1).and_then(|rest| rest.split_whitespace().next());
        let port = port.and_then(|port| port.parse().ok()).with_context(|| format!("no port in {first:?}"))?;
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self { child, port })
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(mut stream: &TcpStream, path: &str) -> anyhow::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub fn ports_are_forwarded_by_websocket_and_spdy(cluster: &Cluster) -> anyhow::Result<()> {
    let pod = web_pod(cluster)?;
    for (way, on) in WAYS {
        let demo = cluster.kubectl.within(NAMESPACE).with_env("KUBECTL_PORT_FORWARD_WEBSOCKETS", on);
        let forward = Listening::start(&demo, &["port-forward", &pod, ":8080", "--address", "127.0.0.1"])?;
        let idle = forward.connect()?;
        for _ in 0..20 {
            let answer = ask(&forward.connect()?, "/healthz")?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "over {way}: {answer:?}");
        }
        let answer = ask(&idle, "/healthz")?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "a connection that waited, over {way}: {answer:?}");
    }
    Ok(())
}

pub fn pods_services_and_nodes_are_proxied(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = web_pod(cluster)?;
    let raw = |path: &str| demo.ok(&["get", "--raw", path]);
    let name = raw(&format!("/api/v1/namespaces/demo/pods/{pod}:8080/proxy/hostname"))?;
    ensure!(name.contains(&pod), "{name:?}");
    let name = wait_for("the service's endpoints", PATIENCE, || {
        raw("/api/v1/namespaces/demo/services/web:80/proxy/hostname")
    })?;
    ensure!(name.contains("web-"), "{name:?}");
    let node = cluster.node_name();
    ensure!(raw(&format!("/api/v1/nodes/{node}/proxy/healthz"))? == "ok", "the agent's health");
    let missing = demo.fails(&["get", "--raw", &format!("/api/v1/namespaces/demo/pods/{pod}:9/proxy/")], "")?;
    ensure!(missing.contains("error trying to reach service"), "{missing:?}");
    Ok(())
}

/// The head of a control frame, its body, and for headers the block that follows: zlib with the protocol's dictionary, stored.
fn control(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or_default().to_be_bytes();
    [&[0x80, 3, 0, kind, 0][..], &length[1..], body].concat()
}

fn syn_stream(id: u8, kind: &str, first: bool) -> Vec<u8> {
    let text =
        |text: &str| [&u32::try_from(text.len()).unwrap_or_default().to_be_bytes()[..], text.as_bytes()].concat();
    let block = [&1_u32.to_be_bytes()[..], &text("streamtype"), &text(kind)].concat();
    let length = u16::try_from(block.len()).unwrap_or_default();
    let mut body = vec![0, 0, 0, id, 0, 0, 0, 0, 0, 0];
    if first {
        body.extend([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);
    }
    body.push(0);
    body.extend(length.to_le_bytes());
    body.extend((!length).to_le_bytes());
    body.extend(block);
    body.extend([0, 0, 0, 0xff, 0xff]);
    control(1, &body)
}

/// Reads frames until the connection ends, or `enough` says so; the data of stream `id`.
fn data_of(stream: &mut TcpStream, id: u8, enough: impl Fn(&[u8]) -> bool) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    while !enough(&all) {
        let mut head = [0; 8];
        if stream.read_exact(&mut head).is_err() {
            break;
        }
        let mut body = vec![0; usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7])];
        stream.read_exact(&mut body)?;
        if head[..4] == [0, 0, 0, id] {
            all.extend(body);
        }
    }
    Ok(all)
}

pub fn spdy_by_hand(cluster: &Cluster) -> anyhow::Result<()> {
    let pod = web_pod(cluster)?;
    let proxy = Listening::start(&cluster.kubectl, &["proxy", "--port=0", "--disable-filter=true"])?;
    let upgrade = |command: &str| -> anyhow::Result<TcpStream> {
        let mut stream = proxy.connect()?;
        write!(
            stream,
            "POST /api/v1/namespaces/demo/pods/{pod}/exec?command=/testbed&command={command}&stdin=true&stdout=true HTTP/1.1\r\n\
             Host: cluster\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\
             Content-Length: 0\r\n\r\n"
        )?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        ensure!(head.starts_with("http/1.1 101") && head.contains("v4.channel.k8s.io"), "{head}");
        Ok(stream)
    };
    let mut stream = upgrade("cat")?;
    for (id, kind) in [(1, "error"), (3, "stdin"), (5, "stdout")] {
        stream.write_all(&syn_stream(id, kind, id == 1))?;
    }
    stream.write_all(&[0, 0, 0, 3, 1, 0, 0, 5, b'h', b'e', b'l', b'l', b'o'])?;
    let heard = data_of(&mut stream, 5, |all| all.len() >= 5)?;
    ensure!(heard == b"hello", "{:?}", String::from_utf8_lossy(&heard));
    let status = data_of(&mut stream, 1, |all| !all.is_empty())?;
    ensure!(String::from_utf8_lossy(&status).contains("\"Success\""), "{:?}", String::from_utf8_lossy(&status));

    // Frames that cannot be: an answer, and an end, for this connection alone.
    for hostile in
        [control(6, &[0; 9]), control(1, &[0; 3]), vec![0x80, 2, 0, 6, 0, 0, 0, 4], syn_stream(2, "error", true)]
    {
        let mut stream = upgrade("cat")?;
        stream.write_all(&hostile)?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).context("the connection ends")?;
        let goaway = [0x80, 3, 0, 7, 0, 0, 0, 8];
        ensure!(rest.windows(8).any(|frame| frame == goaway), "{hostile:?} was answered by {rest:?}");
    }
    ensure!(cluster.kubectl.ok(&["get", "--raw", "/readyz"])? == "ok", "the server goes on");
    Ok(())
}
