//! APIServices of what this server serves itself: they are made, kept and removed without anybody's doing. Decides what they say and
//! which of those that are there are ours; writes only through the ordinary path.

use super::{AVAILABLE, local_condition};
use crate::bootstrap::OwnWrites;
use crate::http::Outcome;
use crate::kinds::value::{at, items, str_at};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{StreamExt, TryStreamExt};
use gantry_apimachinery::kinds::{API_SERVICE, KINDS, Kind, by_resource};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Says that we keep an object: `onstart` for what is built in, `true` for what may go again.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Served by the aggregator itself, and so without an APIService, as in Kubernetes.
const OWN_GROUP: &str = "apiregistration.k8s.io";

/// A group version's place in discovery: larger is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    pub group: i64,
    pub version: i64,
}

/// Kubernetes' order of groups, and ours after them.
const GROUPS: [(&str, i64); 23] = [
    (OWN_GROUP, 20_000),
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("internal.apiserver.k8s.io", 16_000),
    ("gantry.dev", 15_000),
];
/// Custom resources come late, and their versions in the order of their names.
const CUSTOM: Priority = Priority { group: 1_000, version: 100 };

pub fn priority(group: &str, version: &str) -> Priority {
    let Some((_, of_group)) = GROUPS.iter().find(|(name, _)| *name == group) else { return CUSTOM };
    let of_version = match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io", _) => 21,
        ("resource.k8s.io", _) => 20,
        _ => 15,
    };
    Priority { group: *of_group, version: of_version }
}

/// The APIServices that should be there for these kinds, by name.
pub fn wanted(kinds: &[&'static Kind]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| kind.group != OWN_GROUP) {
        let name = format!("{}.{}", kind.version, kind.group);
        if all.contains_key(&name) {
            continue;
        }
        let managed = if by_resource(kind.group, kind.version, kind.plural).is_some() { "onstart" } else { "true" };
        let Priority { group, version } = priority(kind.group, kind.version);
        let mut spec = json!({"version": kind.version, "groupPriorityMinimum": group, "versionPriority": version});
        if !kind.group.is_empty() {
            spec["group"] = kind.group.into();
        }
        all.insert(name.clone(), json!({"metadata": {"name": name, "labels": {MANAGED: managed}}, "spec": spec}));
    }
    all
}

/// What has to be done about one APIService.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Create {
        name: String,
        object: Value,
    },
    /// Back to what it should say.
    Restore {
        name: String,
        spec: Value,
    },
    /// What it stood for is served no longer.
    Delete {
        name: String,
        uid: String,
    },
    /// It has no Service, so it is available.
    Tell {
        name: String,
    },
}

/// `existing`: all APIServices. What nobody marked as ours is left alone.
pub fn steps(existing: &[Value], wanted: &BTreeMap<String, Value>) -> Vec<Step> {
    let mut steps = Vec::new();
    for object in existing {
        let name = str_at(object, "metadata.name").to_owned();
        let ours = object["metadata"]["labels"][MANAGED].is_string();
        match wanted.get(&name) {
            Some(should) if ours && !same(&object["spec"], &should["spec"]) => {
                steps.push(Step::Restore { name, spec: should["spec"].clone() });
            }
            None if ours => {
                let uid = str_at(object, "metadata.uid").to_owned();
                steps.push(Step::Delete { name, uid });
            }
            _ if at(object, "spec.service").is_none() && !told(object) => steps.push(Step::Tell { name }),
            _ => {}
        }
    }
    let there = |name: &str| existing.iter().any(|object| str_at(object, "metadata.name") == name);
    let missing = wanted.iter().filter(|(name, _)| !there(name));
    steps.extend(missing.map(|(name, object)| Step::Create { name: name.clone(), object: object.clone() }));
    steps
}

fn same(one: &Value, other: &Value) -> bool {
    ["group", "version", "groupPriorityMinimum", "versionPriority", "service", "caBundle", "insecureSkipTLSVerify"]
        .iter()
        .all(|field| at(one, field) == at(other, field))
}

fn told(object: &Value) -> bool {
    let conditions = items(object, "status.conditions");
    conditions.iter().any(|one| str_at(one, "type") == AVAILABLE && str_at(one, "reason") == "Local")
}

/// Makes those of what is built in, before anybody asks.
pub async fn ensure(own: &OwnWrites<'_>) -> Outcome<()> {
    const AT_ONCE: usize = 64;
    let all = wanted(KINDS);
    let one = |(name, object): (String, Value)| async move { own.ensure(&API_SERVICE, "", &name, object).await };
    let writes: Vec<BoxFuture<'_, Outcome<()>>> = all.into_iter().map(|pair| one(pair).boxed()).collect();
    futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// The status of an APIService without a Service.
pub fn with_local_status(object: &Value, now: gantry_apimachinery::time::Timestamp) -> Value {
    let mut new = object.clone();
    new["status"] = json!({"conditions": [local_condition(now)]});
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::time::Timestamp;

    fn made(name: &str, uid: &str) -> Value {
        let mut object = wanted(KINDS)[name].clone();
        object["metadata"]["uid"] = uid.into();
        with_local_status(&object, Timestamp::from_secs(1))
    }

    #[test]
    fn every_group_version_but_our_own_has_one() {
        let all = wanted(KINDS);
        assert_eq!(
            all["v1.apps"]["spec"],
            json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
        );
        assert_eq!(all["v1."]["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
        assert_eq!(all["v2.autoscaling"]["spec"]["versionPriority"], 30);
        assert!(!all.contains_key("v1.apiregistration.k8s.io"));
        for kind in KINDS {
            assert_ne!(priority(kind.group, kind.version), CUSTOM, "{} has a place", kind.group);
        }
        assert_eq!(priority("example.org", "v1"), CUSTOM);
    }

    #[test]
    fn what_is_ours_is_kept_and_what_is_not_is_left_alone() {
        let all: BTreeMap<String, Value> = wanted(KINDS).into_iter().filter(|(name, _)| name == "v1.apps").collect();
        let check = |existing: Value, expect: &[Step]| assert_eq!(steps(&[existing], &all), expect);
        let apps = made("v1.apps", "u");
        check(apps.clone(), &[]);

        let mut taken = apps.clone();
        taken["spec"]["service"] = json!({"namespace": "n", "name": "s", "port": 443});
        check(taken.clone(), &[Step::Restore { name: "v1.apps".into(), spec: all["v1.apps"]["spec"].clone() }]);
        taken["metadata"]["labels"] = json!({});
        check(taken, &[]);

        let mut untold = apps.clone();
        untold["status"] = json!({});
        check(untold, &[Step::Tell { name: "v1.apps".into() }]);

        let create = Step::Create { name: "v1.apps".into(), object: all["v1.apps"].clone() };
        let mut gone = made("v1.batch", "u2");
        check(gone.clone(), &[Step::Delete { name: "v1.batch".into(), uid: "u2".into() }, create.clone()]);
        gone["metadata"]["labels"] = Value::Null;
        check(gone, &[create]);
    }
}
