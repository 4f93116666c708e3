//! PodSecurity: a namespace's labels say how far its pods must be isolated. Decides by level: what is enforced is refused, what is
//! warned of warns. What a level asks for is `checks`'.
//!
//! The standards are Kubernetes' (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>), always in their newest
//! version. Findings of the `audit` level go to the audit log alone.

mod checks;

use super::{Admission, Attributes, Operation};
use crate::cache::in_namespace;
use crate::http::Outcome;
use crate::kinds::value::at;
use checks::{Level, violations};
use gantry_apimachinery::kinds::{NAMESPACE, POD};
use gantry_apimachinery::status::Status;
use serde_json::Value;
use std::collections::BTreeMap;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// Pods that one answer to a namespace's change looks at and names.
const MOST_PODS: usize = 3_000;
const MOST_NAMED: usize = 10;

/// Kinds with a pod template, and where it stands.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "template"),
    ("", "replicationcontrollers", "spec.template"),
    ("apps", "daemonsets", "spec.template"),
    ("apps", "deployments", "spec.template"),
    ("apps", "replicasets", "spec.template"),
    ("apps", "statefulsets", "spec.template"),
    ("batch", "cronjobs", "spec.jobTemplate.spec.template"),
    ("batch", "jobs", "spec.template"),
];

pub struct PodSecurity;

impl Admission for PodSecurity {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let call = attributes.call;
        if attributes.operation == Operation::Delete {
            return Ok(());
        }
        if call.kind() == &NAMESPACE && call.subresource.is_none() {
            return self.namespace(attributes, object);
        }
        let pod = call.kind() == &POD && matches!(call.subresource, None | Some("ephemeralcontainers"));
        let template =
            TEMPLATES.iter().find(|(group, plural, _)| *group == call.kind().group && *plural == call.kind().plural);
        let template = template.filter(|_| call.subresource.is_none()).and_then(|(_, _, path)| at(object, path));
        let Some(pod) = pod.then_some(object).or(template) else { return Ok(()) };
        // What may change in a pod itself, images above all, makes it no less isolated.
        if attributes.old.is_some() && call.kind() == &POD && call.subresource.is_none() {
            return Ok(());
        }
        let Some(namespace) = call.core.cached(&NAMESPACE, "", call.namespace) else { return Ok(()) };
        let level = |mode: &str| level(&namespace.labels, mode);
        let says = |level: Level, words: &str| {
            let found = violations(pod, level);
            (!found.is_empty()).then(|| {
                format!(
                    "{words} PodSecurity \"{}:{}\": {}",
                    level.as_str(),
                    version(&namespace.labels),
                    found.join(", ")
                )
            })
        };
        if call.kind() == &POD {
            let enforced = format!("{}:{}", level("enforce").as_str(), version(&namespace.labels));
            call.annotate("pod-security.kubernetes.io/enforce-policy", enforced);
        }
        if let Some(why) = says(level("audit"), "would violate") {
            call.annotate("pod-security.kubernetes.io/audit-violations", why);
        }
        if call.kind() == &POD
            && let Some(why) = says(level("enforce"), "violates")
        {
            return Err(Status::forbidden("pods", attributes.name, &why).into());
        }
        call.warn(says(level("warn"), "would violate"));
        Ok(())
    }
}

impl PodSecurity {
    /// A namespace whose pods would no longer be allowed is told which.
    fn namespace(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let call = attributes.call;
        let labels = super::matching::labels(object);
        for (label, value) in labels.iter().filter(|(label, _)| label.starts_with(PREFIX)) {
            let bad = match label[PREFIX.len()..].rsplit_once('-') {
                Some((_, "version")) => !(value == "latest" || value.starts_with("v1.")),
                _ => Level::parse(value).is_none(),
            };
            if bad {
                let mut errors = gantry_apimachinery::status::FieldErrors::new();
                let why = "must be one of privileged, baseline, restricted";
                errors.invalid(format!("metadata.labels[{label}]"), value.as_str(), why);
                return Err(Status::invalid("Namespace", attributes.name, &errors).into());
            }
        }
        let enforced = level(&labels, "enforce");
        if attributes.old.is_none_or(|old| level(&super::matching::labels(old), "enforce") >= enforced) {
            return Ok(());
        }
        let pods = call.core.stored_kind(&POD).resource.snapshot();
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, pod) in pods.tree.range(in_namespace(attributes.name)).take(MOST_PODS) {
            let problems = violations(&pod.value().unwrap_or_default(), enforced);
            if !problems.is_empty() {
                let short: Vec<&str> =
                    problems.iter().map(|problem| problem.split(" (").next().unwrap_or(problem)).collect();
                found.entry(short.join(", ")).or_default().push(pod.name.to_string());
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let head = format!(
            "existing pods in namespace {:?} violate the new PodSecurity enforce level \"{}:{}\"",
            attributes.name,
            enforced.as_str(),
            version(&labels)
        );
        let lines = found.into_iter().take(MOST_NAMED).map(|(problems, pods)| match pods.len() {
            1 => format!("{}: {problems}", pods[0]),
            n => format!("{} (and {} other pods): {problems}", pods[0], n - 1),
        });
        call.warn(std::iter::once(head).chain(lines));
        Ok(())
    }
}

/// A level that nobody set, or that nobody knows, asks for nothing; an unknown one was refused when it was written.
fn level(labels: &BTreeMap<String, String>, mode: &str) -> Level {
    labels.get(&format!("{PREFIX}{mode}")).and_then(|text| Level::parse(text)).unwrap_or(Level::Privileged)
}

fn version(labels: &BTreeMap<String, String>) -> &str {
    labels.get(&format!("{PREFIX}enforce-version")).map_or("latest", String::as_str)
}
