//! What a pod asks of a machine's labels and name.

use super::World;
use super::manifest::{Labels, labels, list, name, text, texts};
use serde_json::Value;

/// Every pair of `spec.nodeSelector` must be among the machine's labels.
pub fn selector_holds(_: &World, pod: &Value, node: &Value) -> bool {
    let wanted = pod["spec"]["nodeSelector"].as_object();
    let labels = labels(node);
    wanted.into_iter().flatten().all(|(key, value)| labels.get(key).is_some_and(|have| have == text(value)))
}

/// Required node affinity: one of the terms must match. Without a rule every machine does.
pub fn required_holds(_: &World, pod: &Value, node: &Value) -> bool {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required.is_null() || list(&required["nodeSelectorTerms"]).iter().any(|term| term_matches(term, node))
}

/// The sum of the weights of the preferred terms that match.
pub fn preferred_weight(_: &World, pod: &Value, node: &Value) -> i64 {
    let preferred = &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let matching = list(preferred).iter().filter(|term| term_matches(&term["preference"], node));
    matching.map(|term| term["weight"].as_i64().unwrap_or(0)).sum()
}

/// All expressions and all fields must match; a term without any matches no machine.
fn term_matches(term: &Value, node: &Value) -> bool {
    let expressions = list(&term["matchExpressions"]);
    let fields = list(&term["matchFields"]);
    let own_fields = Labels::from([("metadata.name".to_owned(), name(node).to_owned())]);
    let labels = labels(node);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| requirement_holds(requirement, &labels))
        && fields.iter().all(|requirement| requirement_holds(requirement, &own_fields))
}

/// `NotIn` and `DoesNotExist` hold where the label is absent. `Gt` and `Lt` compare integers with one value, and hold
/// only where the label is one.
fn requirement_holds(requirement: &Value, labels: &Labels) -> bool {
    let have = labels.get(text(&requirement["key"])).map(String::as_str);
    let values = texts(&requirement["values"]);
    let numbers = || match values.as_slice() {
        [bound] => Some((have?.parse::<i64>().ok()?, bound.parse::<i64>().ok()?)),
        _ => None,
    };
    match text(&requirement["operator"]) {
        "In" => have.is_some_and(|have| values.contains(&have)),
        "NotIn" => have.is_none_or(|have| !values.contains(&have)),
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        "Gt" => numbers().is_some_and(|(have, bound)| have > bound),
        "Lt" => numbers().is_some_and(|(have, bound)| have < bound),
        _ => false,
    }
}
