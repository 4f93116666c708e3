//! An operator on kube-rs: a Greeting owns a ConfigMap with its text, and leaves another one when it goes.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, GroupVersionKind, Object, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

const FINALIZER: &str = "clients.example.test/greeter";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Spec {
    text: String,
}

type Failure = finalizer::Error<kube::Error>;
type Greeting = Object<Spec, Value>;

struct Context {
    greetings: Api<Greeting>,
    maps: Api<ConfigMap>,
    kind: ApiResource,
}

/// Runs until `stopped` says so or its sender is gone. Answers how each reconciliation ended.
pub async fn run(client: Client, namespace: &str, stopped: oneshot::Receiver<()>) -> Vec<Result<String, String>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("clients.example.test", "v1", "Greeting"));
    let greetings: Api<Greeting> = Api::namespaced_with(client.clone(), namespace, &kind);
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let context = Arc::new(Context { greetings: greetings.clone(), maps: maps.clone(), kind: kind.clone() });
    let mut reconciled = Vec::new();
    let again = |_: Arc<Greeting>, _: &Failure, _: Arc<Context>| Action::requeue(Duration::from_millis(200));
    Controller::new_with(greetings, watcher::Config::default(), kind)
        .owns(maps, watcher::Config::default())
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(reconcile, again, context)
        .for_each(|one| {
            reconciled.push(one.map(|(which, _)| which.name).map_err(|error| format!("{error:?}")));
            std::future::ready(())
        })
        .await;
    reconciled
}

async fn reconcile(greeting: Arc<Greeting>, context: Arc<Context>) -> Result<Action, Failure> {
    let greetings = context.greetings.clone();
    finalizer(&greetings, FINALIZER, greeting, |event| async {
        match event {
            finalizer::Event::Apply(greeting) => apply(&greeting, &context).await,
            finalizer::Event::Cleanup(greeting) => leave(&greeting, &context).await,
        }
    })
    .await
}

async fn write(context: &Context, name: &str, text: &str, owners: Value) -> Result<(), kube::Error> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}, "data": {"text": text},
    });
    context.maps.patch(name, &PatchParams::apply("greeter").force(), &Patch::Apply(map)).await.map(drop)
}

async fn apply(greeting: &Greeting, context: &Context) -> Result<Action, kube::Error> {
    let (name, text) = (greeting.name_any(), &greeting.spec.text);
    write(context, &name, text, json!([greeting.controller_owner_ref(&context.kind)])).await?;
    let status = Patch::Merge(json!({"status": {"said": text}}));
    context.greetings.patch_status(&name, &PatchParams::default(), &status).await?;
    Ok(Action::await_change())
}

async fn leave(greeting: &Greeting, context: &Context) -> Result<Action, kube::Error> {
    write(context, &format!("farewell-{}", greeting.name_any()), &greeting.spec.text, json!([])).await?;
    Ok(Action::await_change())
}
