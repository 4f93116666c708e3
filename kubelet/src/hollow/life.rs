//! How a pod lives on a hollow machine: its annotations say it, or it is drawn from the profile by the pod's uid. Pure.

use std::collections::BTreeMap;

use gantry_rehearsal::fleet::Pods;
use gantry_rehearsal::workload::{ANNOTATION_EXIT_CODE, ANNOTATION_LIFETIME};
use gantry_rehearsal::{Dice, parse_ms};

use crate::api::Pod;
use crate::api::pod::RestartPolicy;

/// How long it takes from the sandbox to the process.
const ANNOTATION_STARTUP: &str = "gantry.dev/hollow-startup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub startup_ms: u64,
    /// From a container's start to its end; `None`: it runs until it is stopped.
    pub lifetime_ms: Option<u64>,
    pub stopping_ms: u64,
    pub exit_code: i32,
}

/// The pod's life, and what is wrong with its annotations. A wrong one is as good as none.
pub fn of(pod: &Pod, profile: &Pods, seed: u64) -> (Life, Vec<String>) {
    let mut dice = Dice::of(seed, pod.uid());
    let startup_ms = dice.between(profile.startup_ms);
    let lifetime_ms = dice.between(profile.lifetime_ms);
    let stopping_ms = dice.between(profile.stopping_ms);
    let failing = dice.percent(profile.failing_percent);
    let mut wrong = vec![];
    let annotations = &pod.metadata.annotations;
    let duration = |key, wrong: &mut Vec<String>| annotation(annotations, key, wrong, parse_ms);
    let said_ms = duration(ANNOTATION_LIFETIME, &mut wrong);
    let startup_ms = duration(ANNOTATION_STARTUP, &mut wrong).unwrap_or(startup_ms);
    let code = annotation(annotations, ANNOTATION_EXIT_CODE, &mut wrong, exit_code);
    let ends = pod.spec.restart_policy != RestartPolicy::Always;
    let life = Life {
        startup_ms,
        lifetime_ms: said_ms.or(ends.then_some(lifetime_ms)),
        stopping_ms,
        exit_code: code.unwrap_or(i32::from(failing)),
    };
    (life, wrong)
}

fn annotation<T>(
    all: &BTreeMap<String, String>,
    key: &str,
    wrong: &mut Vec<String>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let result = read(all.get(key)?);
    result.map_err(|why| wrong.push(format!("annotation {key}: {why}"))).ok()
}

fn exit_code(text: &str) -> Result<i32, String> {
    let code = text.parse().ok().filter(|code| (0..=255).contains(code));
    code.ok_or_else(|| format!("{text:?} is no exit code from 0 to 255"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_rehearsal::{FleetProfile, Span};
    use serde_json::json;

    fn life(policy: &str, annotations: serde_json::Value) -> (Life, Vec<String>) {
        let pod = json!({"metadata": {"uid": "u", "annotations": annotations}, "spec": {"restartPolicy": policy}});
        let profile = Pods { failing_percent: 100, ..FleetProfile::built_in().pods };
        of(&serde_json::from_value(pod).unwrap(), &profile, 1)
    }

    #[test]
    fn annotations_come_before_draws() {
        let (service, wrong) = life("Always", json!({}));
        assert_eq!((service.lifetime_ms, service.exit_code, wrong.len()), (None, 1, 0));
        assert!((200..=800).contains(&service.startup_ms));
        let (task, _) = life("Never", json!({}));
        let Span { min, max } = FleetProfile::built_in().pods.lifetime_ms;
        assert!((min..=max).contains(&task.lifetime_ms.unwrap()));
        assert_eq!(task, life("OnFailure", json!({})).0);
        let told = json!({ANNOTATION_LIFETIME: "90s", ANNOTATION_EXIT_CODE: "0", ANNOTATION_STARTUP: "0"});
        let (told, _) = life("Always", told);
        assert_eq!((told.lifetime_ms, told.exit_code, told.startup_ms), (Some(90_000), 0, 0));
    }

    #[test]
    fn a_wrong_annotation_is_told_and_changes_nothing() {
        let bad = json!({ANNOTATION_LIFETIME: "soon", ANNOTATION_EXIT_CODE: "256", ANNOTATION_STARTUP: "1s"});
        let (read, wrong) = life("Never", bad);
        assert_eq!(read, life("Never", json!({ANNOTATION_STARTUP: "1s"})).0);
        assert_eq!(
            wrong,
            [
                "annotation gantry.dev/hollow-lifetime: \"soon\" is no duration such as 250ms, 30s or 1h30m",
                "annotation gantry.dev/hollow-exit-code: \"256\" is no exit code from 0 to 255"
            ]
        );
    }
}
