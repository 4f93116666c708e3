//! What the kubelet server may know of the pods: a copy that the loop keeps, read without asking it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::api::{Pod, PodStatus};
use crate::pod::{Phase, State};

#[derive(Clone, Debug)]
pub struct PodView {
    pub pod: Arc<Pod>,
    pub status: PodStatus,
    pub sandbox: Option<String>,
    /// Running containers: name → id.
    pub running: BTreeMap<String, String>,
    /// The newest attempt of every container that ran.
    pub attempts: BTreeMap<String, u32>,
}

#[derive(Clone, Default)]
pub struct Views(Arc<RwLock<BTreeMap<String, PodView>>>);

impl Views {
    pub fn update(&self, s: &State) {
        let running = |(name, c): (&String, &crate::pod::Container)| match &c.phase {
            Phase::Running(r) => Some((name.clone(), r.id.clone())),
            _ => None,
        };
        let ran = s.containers.iter().filter(|(_, c)| c.next_attempt > 0);
        let view = PodView {
            pod: s.pod.clone(),
            status: s.reported.clone(),
            sandbox: s.sandbox_id().map(str::to_owned),
            running: s.containers.iter().filter_map(running).collect(),
            attempts: ran.map(|(name, c)| (name.clone(), c.restart_count())).collect(),
        };
        self.0.write().insert(s.pod.uid().to_owned(), view);
    }
    pub fn remove(&self, uid: &str) {
        self.0.write().remove(uid);
    }
    pub fn all(&self) -> Vec<PodView> {
        self.0.read().values().cloned().collect()
    }
    /// By name, and by uid where a uid is given.
    pub fn find(&self, ns: &str, name: &str, uid: Option<&str>) -> Option<PodView> {
        let views = self.0.read();
        let mut named = views.values().filter(|v| v.pod.metadata.namespace == ns && v.pod.metadata.name == name);
        match uid {
            Some(uid) => named.find(|v| v.pod.uid() == uid).cloned(),
            // Of two with one name the younger is meant.
            None => named.max_by_key(|v| v.pod.metadata.creation_timestamp).cloned(),
        }
    }
}
