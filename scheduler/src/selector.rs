//! Requirements on a machine's labels and fields, ready to be tried on many machines. Decides what matches.

use std::collections::BTreeMap;

use crate::api::{NodeRequirement, NodeSelectorTerm};
use crate::snapshot::Labels;

/// A term of node affinity: all its requirements hold. A term without any matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    labels: Vec<NodeRequirement>,
    fields: Vec<NodeRequirement>,
}

impl Term {
    pub fn read(term: &NodeSelectorTerm) -> Self {
        Term { labels: term.match_expressions.clone(), fields: term.match_fields.clone() }
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|r| holds(r, labels.get(&r.key)))
            && self.fields.iter().all(|r| holds(r, (r.key == "metadata.name").then_some(name)))
    }
}

impl Term {
    /// The requirements that do not hold, in words.
    pub fn unmet(&self, name: &str, labels: &Labels) -> Vec<String> {
        let by_label = self.labels.iter().filter(|r| !holds(r, labels.get(&r.key)));
        let by_field = self.fields.iter().filter(|r| !holds(r, (r.key == "metadata.name").then_some(name)));
        by_label.chain(by_field).map(words).collect()
    }
}

/// `disk in (ssd, nvme)`, `cores > 8`, `gpu exists`.
fn words(requirement: &NodeRequirement) -> String {
    let NodeRequirement { key, operator, values } = requirement;
    let values = values.join(", ");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} not in ({values})"),
        "Exists" => format!("{key} exists"),
        "DoesNotExist" => format!("{key} does not exist"),
        "Gt" => format!("{key} > {values}"),
        "Lt" => format!("{key} < {values}"),
        other => format!("{key} {other} ({values})"),
    }
}

/// `nodeSelector`: every label has this value.
pub fn all_equal(wanted: &BTreeMap<String, String>, labels: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn holds(requirement: &NodeRequirement, value: Option<&str>) -> bool {
    let among = |value: &str| requirement.values.iter().any(|v| v == value);
    let compared = |wanted: fn(i64, i64) -> bool| {
        let bound = match &requirement.values[..] {
            [bound] => bound.parse::<i64>().ok(),
            _ => None,
        };
        matches!((value.and_then(|v| v.parse().ok()), bound), (Some(have), Some(bound)) if wanted(have, bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|have, bound| have > bound),
        "Lt" => compared(|have, bound| have < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator() {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())]);
        let labels = Labels::of(&labels);
        let check = |key: &str, operator: &str, values: &[&str], expect: bool| {
            let values = values.iter().map(|v| (*v).to_owned()).collect();
            let requirement = NodeRequirement { key: key.into(), operator: operator.into(), values };
            let term = Term { labels: vec![requirement], fields: vec![] };
            assert_eq!(term.matches("m", &labels), expect, "{term:?}");
        };
        check("zone", "In", &["b", "a"], true);
        check("zone", "In", &["b"], false);
        check("none", "In", &["a"], false);
        check("zone", "NotIn", &["b"], true);
        check("zone", "NotIn", &["a"], false);
        check("none", "NotIn", &["a"], true);
        check("zone", "Exists", &[], true);
        check("none", "Exists", &[], false);
        check("none", "DoesNotExist", &[], true);
        check("zone", "DoesNotExist", &[], false);
        check("cores", "Gt", &["7"], true);
        check("cores", "Gt", &["8"], false);
        check("cores", "Lt", &["9"], true);
        check("zone", "Lt", &["9"], false);
        check("cores", "Gt", &["7", "6"], false);
        check("zone", "Like", &["a"], false);
    }

    #[test]
    fn what_does_not_hold_is_said_in_words() {
        let labels = Labels::of(&BTreeMap::from([("zone".to_owned(), "a".to_owned())]));
        let requirement = |key: &str, operator: &str, values: &[&str]| NodeRequirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let own = vec![
            requirement("zone", "In", &["a"]),
            requirement("disk", "In", &["ssd", "nvme"]),
            requirement("zone", "NotIn", &["a"]),
            requirement("gpu", "Exists", &[]),
            requirement("zone", "DoesNotExist", &[]),
            requirement("cores", "Gt", &["8"]),
        ];
        let term = Term { labels: own, fields: vec![requirement("metadata.name", "In", &["n"])] };
        let expect = [
            "disk in (ssd, nvme)",
            "zone not in (a)",
            "gpu exists",
            "zone does not exist",
            "cores > 8",
            "metadata.name in (n)",
        ];
        assert_eq!(term.unmet("m", &labels), expect);
    }

    #[test]
    fn fields_and_empty_terms() {
        let labels = Labels::of(&BTreeMap::new());
        let field = |key: &str, value: &str| NodeRequirement {
            key: key.into(),
            operator: "In".into(),
            values: vec![value.into()],
        };
        let term = |fields| Term { labels: vec![], fields };
        assert!(term(vec![field("metadata.name", "m")]).matches("m", &labels));
        assert!(!term(vec![field("metadata.name", "n")]).matches("m", &labels));
        assert!(!term(vec![field("metadata.uid", "m")]).matches("m", &labels));
        assert!(!term(vec![]).matches("m", &labels), "an empty term matches nothing");
    }
}
