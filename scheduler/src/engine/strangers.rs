//! Pods that have no machine and do not want one from us, and why: only to be told when somebody asks about one of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::Pod;

#[derive(Debug)]
struct Stranger {
    namespace: String,
    name: String,
    why: String,
}

/// By uid.
#[derive(Debug, Default)]
pub(super) struct Strangers(HashMap<String, Stranger>);

impl Strangers {
    /// Takes in a pod as it is now.
    pub fn pod(&mut self, pod: &Pod, ours: &BTreeSet<Arc<str>>) {
        let meta = &pod.metadata;
        match why(pod, ours) {
            Some(why) => {
                let stranger = Stranger { namespace: meta.namespace.clone(), name: meta.name.clone(), why };
                self.0.insert(meta.uid.to_string(), stranger);
            }
            None => self.gone(meta.uid.as_str()),
        }
    }

    /// Takes in all pods that there are.
    pub fn all(&mut self, pods: &[Arc<Pod>], ours: &BTreeSet<Arc<str>>) {
        self.0.clear();
        pods.iter().for_each(|pod| self.pod(pod, ours));
    }

    pub fn gone(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// As the end of "the pod …".
    pub fn why(&self, namespace: &str, name: &str) -> Option<&str> {
        let found = self.0.values().find(|stranger| stranger.namespace == namespace && stranger.name == name);
        found.map(|stranger| stranger.why.as_str())
    }
}

fn why(pod: &Pod, ours: &BTreeSet<Arc<str>>) -> Option<String> {
    if pod.is_ended() || !pod.spec.node_name.is_empty() {
        return None;
    }
    if pod.metadata.is_deleting() {
        return Some("is being deleted".to_owned());
    }
    let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
    if !gates.is_empty() {
        let (what, it) = if gates.len() == 1 { ("gate", "it") } else { ("gates", "them") };
        let gates = gates.join(", ");
        return Some(format!(
            "is held back by its scheduling {what} {gates}: whoever set {it} takes {it} away when it may start"
        ));
    }
    other_scheduler(&pod.spec.scheduler_name, ours)
}

/// Why pods that name this scheduler are none of ours, if so.
pub(super) fn other_scheduler(named: &str, ours: &BTreeSet<Arc<str>>) -> Option<String> {
    let known: Vec<&str> = ours.iter().map(|name| &**name).collect();
    let known = known.join(", ");
    (!ours.contains(named))
        .then(|| format!("is left to the scheduler {named}, which its schedulerName asks for; this one is {known}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::model::{deleting, pod};
    use super::*;
    use serde_json::json;

    #[test]
    fn who_does_not_want_a_machine_from_us_is_told_why() {
        let ours = BTreeSet::from(["default-scheduler".into()]);
        let told = |pod: &Pod| {
            let mut strangers = Strangers::default();
            strangers.pod(pod, &ours);
            strangers.why("ns", "p").map(str::to_owned)
        };
        assert_eq!(told(&pod("p", "1", "", json!({}))), None);
        let gates = json!({"schedulingGates": [{"name": "acme.io/quota"}, {"name": "b"}]});
        let expect =
            "is held back by its scheduling gates acme.io/quota, b: whoever set them takes them away when it may start";
        assert_eq!(told(&pod("p", "1", "", gates.clone())).as_deref(), Some(expect));
        let other = json!({"schedulerName": "theirs"});
        let expect = "is left to the scheduler theirs, which its schedulerName asks for; this one is default-scheduler";
        assert_eq!(told(&pod("p", "1", "", other)).as_deref(), Some(expect));
        assert_eq!(told(&deleting(&pod("p", "1", "", json!({})))).as_deref(), Some("is being deleted"));
        assert_eq!(told(&pod("p", "1", "m", gates)), None, "one that has its machine is no stranger");
    }

    #[test]
    fn a_stranger_becomes_known_and_goes() {
        let ours = BTreeSet::from(["default-scheduler".into()]);
        let mut strangers = Strangers::default();
        let gated = pod("p", "1", "", json!({"schedulingGates": [{"name": "a"}]}));
        strangers.pod(&gated, &ours);
        strangers.pod(&pod("p", "1", "", json!({})), &ours);
        assert_eq!(strangers.why("ns", "p"), None);
        strangers.pod(&gated, &ours);
        strangers.gone("p");
        assert_eq!(strangers.why("ns", "p"), None);
        strangers.pod(&gated, &ours);
        strangers.all(&[], &ours);
        assert_eq!(strangers.why("ns", "p"), None);
    }
}
