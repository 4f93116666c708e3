//! What kube-rs makes of answers: a watcher, server-side apply, exec, followed logs, port-forward. A Ready pod `server` is there.

use crate::operators::SOON;
use anyhow::{Context, bail, ensure};
use futures::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams, DeleteParams, LogParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// After so many seconds the server ends each watch of the watcher's.
const WATCH_S: u32 = 1;

fn map(name: &str, n: &str) -> anyhow::Result<ConfigMap> {
    let metadata = json!({"name": name, "labels": {"watched": "yes"}});
    Ok(serde_json::from_value(json!({"metadata": metadata, "data": {"n": n}}))?)
}

/// The initial list comes as a stream of events; the watcher goes on where its watch ended; a watch resumes at any version.
pub async fn watches(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let first = maps.create(&PostParams::default(), &map("one", "1")?).await?;
    let config = watcher::Config::default().labels("watched=yes").streaming_lists().timeout(WATCH_S);
    let events = watcher::watcher(maps.clone(), config);
    pin_mut!(events);
    for expected in ["init", "init one=1", "init done"] {
        ensure!(next(&mut events).await? == expected, "the initial list, {expected}");
    }
    let merge = Patch::Merge(json!({"data": {"n": "2"}}));
    maps.patch("one", &PatchParams::default(), &merge).await?;
    ensure!(next(&mut events).await? == "apply one=2", "a change");
    // The watch ends and begins again meanwhile. Listed again, all would come once more.
    let silence = timeout(Duration::from_secs(u64::from(WATCH_S)) * 5 / 2, events.next()).await;
    ensure!(silence.is_err(), "nothing has changed, but: {silence:?}");
    maps.create(&PostParams::default(), &map("two", "1")?).await?;
    ensure!(next(&mut events).await? == "apply two=1", "after the watch began again");
    maps.delete("one", &DeleteParams::default()).await?;
    ensure!(next(&mut events).await? == "delete one=2", "a deletion");
    resumes(&maps, &first.resource_version().context("a version")?).await
}

/// What happened since a version, though nobody watched then.
async fn resumes(maps: &Api<ConfigMap>, version: &str) -> anyhow::Result<()> {
    let events = maps.watch(&WatchParams::default().labels("watched=yes").timeout(20), version).await?.take(3);
    let seen = timeout(SOON, events.try_collect::<Vec<_>>()).await.context("three events in time")??;
    let names = seen.iter().map(|event| match event {
        WatchEvent::Added(map) => format!("added {}", shown(map)),
        WatchEvent::Modified(map) => format!("modified {}", shown(map)),
        WatchEvent::Deleted(map) => format!("deleted {}", shown(map)),
        other => format!("{other:?}"),
    });
    let names: Vec<_> = names.collect();
    ensure!(names == ["modified one=2", "added two=1", "deleted one=2"], "{names:?}");
    Ok(())
}

fn shown(map: &ConfigMap) -> String {
    let n = map.data.as_ref().and_then(|data| data.get("n")).map_or("", String::as_str);
    format!("{}={n}", map.name_any())
}

async fn next(events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin)) -> anyhow::Result<String> {
    let event = timeout(SOON, events.next()).await.context("an event in time")?.context("the watcher's end")??;
    Ok(match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(map) => format!("init {}", shown(&map)),
        Event::InitDone => "init done".to_owned(),
        Event::Apply(map) => format!("apply {}", shown(&map)),
        Event::Delete(map) => format!("delete {}", shown(&map)),
    })
}

pub async fn applies(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let apply = async |as_whom: PatchParams, data: serde_json::Value| {
        let whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data});
        maps.patch("applied", &as_whom, &Patch::Apply(whole)).await
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let created = apply(one.clone(), json!({"a": "1", "b": "1"})).await?;
    let again = apply(one.clone(), json!({"a": "1", "b": "1"})).await?;
    ensure!(created.resource_version() == again.resource_version(), "the same once more changes nothing");
    match apply(two.clone(), json!({"a": "2"})).await {
        Err(kube::Error::Api(status)) if status.is_conflict() => {
            ensure!(
                status.message.contains("conflict with \"one\"") && status.message.contains(".data.a"),
                "{status:?}"
            );
        }
        other => bail!("a conflict, not {other:?}"),
    }
    let tried = apply(two.clone().force().dry_run(), json!({"a": "2"})).await?;
    ensure!(tried.data.is_some_and(|data| data["a"] == "2"), "a dry run answers what would be");
    let forced = apply(two.force(), json!({"a": "2"})).await?;
    ensure!(forced.managed_fields().len() == 2, "each has a field: {:?}", forced.managed_fields());
    let left = apply(one, json!({})).await?.data.unwrap_or_default();
    ensure!(left.iter().eq([(&"a".to_owned(), &"2".to_owned())]), "what one no longer applies goes: {left:?}");
    Ok(())
}

/// Output and end of a command in the server's container; `input` is all that it reads.
async fn run(pods: &Api<Pod>, command: &[&str], input: Option<&str>) -> anyhow::Result<(String, Status)> {
    let streams = AttachParams::default().stdin(input.is_some()).stderr(false);
    let mut process = pods.exec("server", command.to_vec(), &streams).await?;
    let status = process.take_status().context("a status")?;
    if let Some(input) = input {
        let mut stdin = process.stdin().context("an input")?;
        stdin.write_all(input.as_bytes()).await?;
        stdin.shutdown().await?;
    }
    let mut said = String::new();
    process.stdout().context("an output")?.read_to_string(&mut said).await?;
    let status = status.await.context("no status came")?;
    process.join().await?;
    Ok((said, status))
}

pub async fn executes(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let run = async |command: &[&str], input| timeout(SOON, run(&pods, command, input)).await.context("in time")?;
    let (said, status) = run(&["/testbed", "echo", "from", "rust"], None).await?;
    ensure!(said == "from rust\n" && status.status.as_deref() == Some("Success"), "{said:?} {status:?}");
    let (_, status) = run(&["/testbed", "exit", "7"], None).await?;
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    ensure!(code.and_then(|cause| cause.message.as_deref()) == Some("7"), "the exit code: {causes:?}");
    let (said, status) = run(&["/testbed", "cat"], Some("typed\n")).await?;
    ensure!(said == "typed\n" && status.status.as_deref() == Some("Success"), "{said:?} {status:?}");
    Ok(())
}

pub async fn logs(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut lines = pods.log_stream("server", &LogParams { follow: true, ..LogParams::default() }).await?.lines();
    let line = timeout(SOON, lines.try_next()).await.context("a line in time")??;
    ensure!(line.as_deref() == Some("serving on port 8080"), "{line:?}");
    Ok(())
}

/// Two sessions, of which one is refused: over a WebSocket, a port's end is that of its session.
pub async fn forwards(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut forward = pods.portforward("server", &[8080]).await?;
    let mut stream = forward.take_stream(8080).context("the stream of port 8080")?;
    stream.write_all(b"GET /hostname HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    timeout(SOON, stream.read_to_string(&mut answer)).await.context("an answer in time")??;
    let whole = answer.starts_with("HTTP/1.1 200") && answer.trim_end().ends_with("server");
    ensure!(whole, "{answer:?}, then {:?}", timeout(SOON, forward.join()).await);
    let mut refused = pods.portforward("server", &[9]).await?;
    let error = refused.take_error(9).context("the errors of port 9")?;
    let error = timeout(SOON, error).await.context("a refusal in time")?.unwrap_or_default();
    ensure!(error.contains("refused"), "nobody listens on port 9, but: {error:?}");
    Ok(())
}
