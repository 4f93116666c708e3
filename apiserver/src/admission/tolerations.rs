//! DefaultTolerationSeconds: a pod stays five minutes on a machine that is not ready or unreachable, unless it says otherwise.

use super::{Admission, Attributes};
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use serde_json::{Value, json};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub struct DefaultTolerationSeconds;

impl Admission for DefaultTolerationSeconds {
    fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value) -> Outcome<()> {
        if attributes.writes_pod() {
            add(pod);
        }
        Ok(())
    }
}

fn add(pod: &mut Value) {
    let mut tolerations = items(pod, "spec.tolerations").to_vec();
    for taint in TAINTS {
        let covers = |toleration: &Value| {
            let (key, effect) = (str_at(toleration, "key"), str_at(toleration, "effect"));
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !tolerations.iter().any(covers) {
            tolerations
                .push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}));
        }
    }
    pod["spec"]["tolerations"] = tolerations.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_added() {
        let check = |given: Value, expect: usize| {
            let mut pod = json!({"spec": {"tolerations": given}});
            add(&mut pod);
            assert_eq!(items(&pod, "spec.tolerations").len(), expect, "{pod}");
        };
        check(json!([]), 2);
        check(json!([{"operator": "Exists"}]), 1);
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}]), 2);
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoSchedule"}]), 3);
    }
}
