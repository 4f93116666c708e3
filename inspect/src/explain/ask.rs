//! Asks the scheduler: makes a PlacementReview, waits for its answer, and takes it away again.

use crate::Misused;
use crate::access::Access;
use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_client::{ApiError, DeleteOptions, Follow, InformerOptions, Told};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

pub struct Question<'a> {
    pub namespace: &'a str,
    pub spec: Value,
    pub patience: Duration,
}

pub enum Answer {
    /// `status.result`.
    Found(Value),
    /// Why there is none.
    Failed(String),
    /// Nobody answered. Who should have.
    Silence(Lease),
}

/// The scheduler's Lease, as far as it may be seen.
pub enum Lease {
    Seen(Value),
    Missing,
    Hidden,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Review {
    metadata: ObjectMeta,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    message: String,
    result: Value,
}

impl Object for Review {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

pub async fn ask(access: &Access, question: &Question<'_>) -> anyhow::Result<Answer> {
    let (client, kind, namespace) = (&access.client, &kinds::PLACEMENT_REVIEW, question.namespace);
    let body = json!({"apiVersion": "gantry.dev/v1", "kind": "PlacementReview",
        "metadata": {"generateName": "question-"}, "spec": question.spec});
    let made: Review = client.create(kind, namespace, &body).await.map_err(refused)?;
    let answered = tokio::time::timeout(question.patience, answered(access, namespace, &made.metadata.name)).await;
    let options = DeleteOptions::uid(made.metadata.uid.as_str());
    // Whatever came of it: what stays goes by itself after an hour.
    drop(client.delete(kind, namespace, &made.metadata.name, &options).await);
    match answered {
        Ok(status) => {
            let status = status?;
            Ok(if status.phase == "Answered" { Answer::Found(status.result) } else { Answer::Failed(status.message) })
        }
        Err(_) => Ok(Answer::Silence(lease(access).await)),
    }
}

async fn answered(access: &Access, namespace: &str, name: &str) -> anyhow::Result<Status> {
    let one = InformerOptions::fields(format!("metadata.name={name}"));
    let options = InformerOptions { namespace: namespace.to_owned(), ..one };
    let cancel = CancellationToken::new();
    let mut follow = Follow::<Review>::start(access.client.clone(), &kinds::PLACEMENT_REVIEW, options, &cancel);
    while let Some(told) = follow.next().await {
        let reviews = match told {
            Told::All(all) => all,
            Told::Applied(review) => vec![review],
            Told::Deleted(_) => anyhow::bail!("somebody deleted the question ({name}) before it was answered"),
            Told::Reached(_) => continue,
        };
        if let Some(answered) = reviews.iter().find(|review| !review.status.phase.is_empty()) {
            return Ok(answered.status.clone());
        }
    }
    anyhow::bail!("the watch of the question ({name}) ended")
}

fn refused(error: ApiError) -> anyhow::Error {
    match error {
        ApiError::Invalid(status) => Misused(status.message).into(),
        other => anyhow::Error::from(other).context("asking the scheduler"),
    }
}

async fn lease(access: &Access) -> Lease {
    match access.get(LEASE).await {
        Ok(lease) => Lease::Seen(lease),
        Err(error) if error.is_not_found() => Lease::Missing,
        Err(_) => Lease::Hidden,
    }
}
