//! `gantry explain` and `gantry fits`: why a pod waits, and where pods that are not made yet would go. The scheduler answers, by
//! its own filters on what it knows now; this part asks it and puts the answer in words.
//!
//! `ask` is the only part that asks; what is said is decided in the others.

mod ask;
mod machines;
mod pod;
mod report;
mod silence;
mod template;

use crate::access::Access;
use crate::get::{Form, explain as judged};
use crate::{Misused, Scope};
use anyhow::Context;
use ask::{Answer, Question};
use gantry_apimachinery::clock::{Clock, SystemClock};
use report::Report;
use serde_json::{Value, json};
use std::time::Duration;

/// A pod that was made just now may not have reached the scheduler yet: it is asked again for so long.
const JUST_MADE: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(200);
/// Pods without a schedulerName are this one's.
const USUAL: &str = "default-scheduler";

/// How the answer is shown, and how long it is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub form: Form,
    pub patience: Duration,
}

/// What `gantry fits` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    pub text: String,
    /// Why not all would fit, if so.
    pub lacks: Option<String>,
}

/// The text to print about a pod.
pub async fn explain(access: &Access, what: &str, name: &str, scope: &Scope, manner: Manner) -> anyhow::Result<String> {
    if !["pod", "pods", "po"].contains(&what) {
        let text =
            format!("only pods are explained, and {what:?} is none: `gantry why {what} {name}` says how its pods are");
        return Err(Misused(text).into());
    }
    let namespace = one_namespace(access, scope)?;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let asked = SystemClock.boottime_ms();
    loop {
        let pod = access.get(&path).await.map_err(|error| judged(error, ""))?;
        let about = format!("pod {namespace}/{name}");
        if let Some(settled) = pod::settled(&pod) {
            return shown(&about, &settled, &Value::Null, manner.form, || format!("{about} {settled}"));
        }
        let question = Question { namespace: &namespace, spec: json!({"podName": name}), patience: manner.patience };
        match ask::ask(access, &question).await? {
            Answer::Found(result) => {
                let report = read(&result)?;
                let verdict = pod::verdict(&report);
                return shown(&about, &verdict, &result, manner.form, || {
                    pod::text(&about, &pod, &report, SystemClock.now())
                });
            }
            Answer::Failed(message) => {
                let waited = Duration::from_millis(SystemClock.boottime_ms().saturating_sub(asked));
                if pod["spec"]["schedulerName"] != USUAL || waited > JUST_MADE {
                    return shown(&about, &message, &Value::Null, manner.form, || message.clone());
                }
                tokio::time::sleep(BETWEEN).await;
            }
            Answer::Silence(lease) => {
                return Err(anyhow::anyhow!(silence::said(&lease, Some(&pod), manner.patience, SystemClock.now())));
            }
        }
    }
}

/// Whether pods of a manifest would find a place, and where.
pub async fn fits(
    access: &Access,
    manifest: &str,
    replicas: Option<u32>,
    scope: &Scope,
    manner: Manner,
) -> anyhow::Result<Fit> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(manifest).map_err(|error| Misused(format!("the manifest is not YAML: {error}")))?;
    let found = template::find(&documents)?;
    let own = found.namespace.clone().filter(|_| scope.namespace.is_empty());
    let namespace = own.map_or_else(|| one_namespace(access, scope), Ok)?;
    let replicas = replicas.map_or(found.replicas, u64::from);
    let spec = json!({"template": found.template, "replicas": replicas});
    let question = Question { namespace: &namespace, spec, patience: manner.patience };
    match ask::ask(access, &question).await? {
        Answer::Found(result) => {
            let report = read(&result)?;
            let judged = machines::judge(&found, &report);
            let (about, verdict) = (&found.title, &judged.verdict);
            let text = shown(about, verdict, &result, manner.form, || machines::text(about, &judged, &report))?;
            Ok(Fit { text, lacks: judged.lacks })
        }
        Answer::Failed(message) => Err(Misused(format!("{}: {message}", found.title)).into()),
        Answer::Silence(lease) => Err(anyhow::anyhow!(silence::said(&lease, None, manner.patience, SystemClock.now()))),
    }
}

fn one_namespace(access: &Access, scope: &Scope) -> Result<String, Misused> {
    if scope.all_namespaces {
        return Err(Misused("the question is of one namespace: say which with -n, and leave out -A".into()));
    }
    Ok(access.namespace(scope))
}

fn read(result: &Value) -> anyhow::Result<Report> {
    serde_json::from_value(result.clone()).context("the scheduler's answer is of another version than this program")
}

/// For people by `text`; for scripts always the same few fields.
fn shown(
    about: &str,
    verdict: &str,
    result: &Value,
    form: Form,
    text: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    let document = || json!({"about": about, "verdict": verdict, "result": result});
    Ok(match form {
        Form::Json => serde_json::to_string_pretty(&document()).context("writing JSON")?,
        Form::Yaml => crate::render::yaml(&document())?,
        Form::Table | Form::Wide | Form::Name => text(),
    })
}

#[cfg(test)]
mod tests;
