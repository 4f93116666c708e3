//! What runs, as a table for people, and one answer fetched through a Service's virtual address.

use super::manifests::Manifest;
use anyhow::Context;
use comfy_table::{Table, presets};
use gantry_apimachinery::kinds;
use gantry_client::{Client, ListOptions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("-")
}

/// Every pod and Service of the namespaces that the manifests name.
pub async fn running(client: &Client, manifests: &[Manifest]) -> anyhow::Result<Table> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["NAMESPACE", "KIND", "NAME", "STATE", "ADDRESS", "MACHINE"]);
    let spaces: BTreeSet<&str> = manifests.iter().map(|m| m.namespace.as_str()).filter(|ns| !ns.is_empty()).collect();
    for namespace in spaces {
        for pod in client.list::<Value>(&kinds::POD, namespace, &ListOptions::default()).await?.items {
            table.add_row([
                namespace,
                "Pod",
                text(&pod, "/metadata/name"),
                text(&pod, "/status/phase"),
                text(&pod, "/status/podIP"),
                text(&pod, "/spec/nodeName"),
            ]);
        }
        for service in client.list::<Value>(&kinds::SERVICE, namespace, &ListOptions::default()).await?.items {
            let kind = text(&service, "/spec/type");
            table.add_row([
                namespace,
                "Service",
                text(&service, "/metadata/name"),
                kind,
                &service_address(&service).unwrap_or_else(|| "-".to_owned()),
                "-",
            ]);
        }
    }
    Ok(table)
}

/// `address:port` of the first TCP port of a Service with a virtual address.
fn service_address(service: &Value) -> Option<String> {
    let address = service.pointer("/spec/clusterIP")?.as_str().filter(|address| *address != "None")?;
    let ports = service.pointer("/spec/ports")?.as_array()?;
    let tcp = ports.iter().find(|port| port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP"))?;
    Some(format!("{address}:{}", tcp["port"]))
}

/// The first Service of the manifests, asked over HTTP: its URL and what it said.
pub async fn first_answer(client: &Client, manifests: &[Manifest]) -> anyhow::Result<Option<(String, String)>> {
    let Some(manifest) = manifests.iter().find(|manifest| manifest.kind.kind == "Service") else { return Ok(None) };
    let service: Value = client.get(manifest.kind, &manifest.namespace, &manifest.name).await?;
    let Some(address) = service_address(&service) else { return Ok(None) };
    let url = format!("http://{address}/");
    let mut last = anyhow::anyhow!("never asked");
    for _attempt in 0..20 {
        match timeout(Duration::from_secs(2), get(&address)).await {
            Ok(Ok(answer)) => return Ok(Some((url, answer))),
            Ok(Err(error)) => last = error,
            Err(_) => last = anyhow::anyhow!("no answer within 2 s"),
        }
        // The rules follow the endpoints by a moment.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(last.context(format!("{manifest}: {url} does not answer")))
}

async fn get(address: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    anyhow::ensure!(head.contains(" 200 "), "{}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

/// The first lines, indented.
pub fn indented(answer: &str, lines: usize) -> String {
    answer.lines().take(lines).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::service_address;
    use serde_json::json;

    #[test]
    fn addresses() {
        let service =
            |ip: &str| json!({"spec": {"clusterIP": ip, "ports": [{"port": 53, "protocol": "UDP"}, {"port": 80}]}});
        assert_eq!(service_address(&service("10.96.0.7")), Some("10.96.0.7:80".to_owned()));
        assert_eq!(service_address(&service("None")), None);
    }
}
