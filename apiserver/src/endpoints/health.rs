//! `/healthz`, `/livez` and `/readyz`, each check by its own path too. Decides what healthy means: the stores answer and the caches
//! have their first list.

use crate::core::Core;
use crate::http::body::text;
use crate::http::{Outcome, Query, Response};
use gantry_apimachinery::status::Status;
use http::StatusCode;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

/// A check's name and what is wrong, if anything.
type Check = (String, Option<String>);

pub async fn serve(core: &Core, parts: &[&str], query: &Query) -> Outcome<Response> {
    let endpoint = parts[0];
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut checks = run(core, endpoint).await;
    if let [_, one] = parts {
        checks.retain(|(name, _)| name == one);
        if checks.is_empty() {
            return Err(Status::no_such_resource().into());
        }
    } else if parts.len() > 2 {
        return Err(Status::no_such_resource().into());
    }
    let excludes = |name: &str| excluded.contains(&name);
    let failed = checks.iter().any(|(name, problem)| problem.is_some() && !excludes(name));
    let code = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    if !failed && !query.flag("verbose") {
        return Ok(text(code, "ok"));
    }
    let mut lines: Vec<String> = checks
        .iter()
        .map(|(name, problem)| match problem {
            _ if excludes(name) => format!("[+]{name} excluded: ok"),
            None => format!("[+]{name} ok"),
            Some(why) => format!("[-]{name} failed: {why}"),
        })
        .collect();
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.iter().any(|(known, _)| known == *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        lines.push(format!("warn: some health checks cannot be excluded: no matches for {}", unknown.join(",")));
    }
    lines.push(format!("{endpoint} check {}", if failed { "failed" } else { "passed" }));
    Ok(text(code, lines.join("\n") + "\n"))
}

/// Whether each group of the store answers.
pub async fn stores(core: &Core) -> Vec<Check> {
    let mut checks = Vec::new();
    for group in &core.groups {
        let answer = tokio::time::timeout(PATIENCE, group.store.read_revision()).await;
        let problem = match answer {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        checks.push((format!("store-{:?}", group.which).to_lowercase(), problem));
    }
    checks
}

async fn run(core: &Core, endpoint: &str) -> Vec<Check> {
    let mut checks: Vec<Check> = vec![("ping".into(), None)];
    if endpoint == "livez" {
        return checks;
    }
    checks.extend(stores(core).await);
    for group in &core.groups {
        let which = format!("{:?}", group.which).to_lowercase();
        let cold = (!group.ready()).then(|| "the watch cache has not been filled yet".to_owned());
        checks.push((format!("watch-cache-{which}"), cold));
    }
    checks
}
