//! Turns what the informers say into the engine's events, in an order that keeps its promise: by the time that it hears how
//! far the pod watch has come, it has heard every pod change up to there.

use std::collections::VecDeque;
use std::sync::Arc;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Object;
use gantry_client::informer::RevisionWatch;
use gantry_client::{Change, Client, Informer, InformerOptions, Metrics, Receiver};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::api::{Namespace, Node, NodeAllocation, Pod, PriorityClass};
use crate::engine::Event;

/// One kind: its informer and the changes since.
struct Source<T> {
    informer: Informer<T>,
    changes: Receiver<T>,
}

impl<T: Object + DeserializeOwned + Send + Sync + 'static> Source<T> {
    async fn start(
        client: &Client,
        kind: &'static Kind,
        metrics: &Metrics,
        cancel: &CancellationToken,
    ) -> (Self, Vec<Arc<T>>) {
        let options = InformerOptions { metrics: Some(metrics.clone()), ..InformerOptions::default() };
        let informer = Informer::start(client.clone(), kind, options, cancel.clone());
        informer.synced().await;
        let (state, changes) = informer.subscribe_with_state();
        (Source { informer, changes }, state)
    }
}

pub(super) struct Feed {
    allocations: Source<NodeAllocation>,
    nodes: Source<Node>,
    classes: Source<PriorityClass>,
    namespaces: Source<Namespace>,
    pods: Source<Pod>,
    progress: RevisionWatch,
    told_revision: u64,
    queue: VecDeque<Event>,
}

impl Feed {
    /// Allocations are listed before pods, so that the pods' list covers every version in them.
    pub async fn start(client: &Client, metrics: &Metrics, cancel: &CancellationToken) -> Self {
        let (allocations, all_allocations) = Source::start(client, &kinds::NODE_ALLOCATION, metrics, cancel).await;
        let ((nodes, all_nodes), (classes, all_classes), (namespaces, all_namespaces), (pods, all_pods)) = tokio::join!(
            Source::start(client, &kinds::NODE, metrics, cancel),
            Source::start(client, &kinds::PRIORITY_CLASS, metrics, cancel),
            Source::start(client, &kinds::NAMESPACE, metrics, cancel),
            Source::start(client, &kinds::POD, metrics, cancel),
        );
        let progress = pods.informer.progress();
        let mut queue: VecDeque<Event> = VecDeque::new();
        queue.extend(all_classes.into_iter().map(Event::Class));
        queue.extend(all_namespaces.into_iter().map(Event::Namespace));
        queue.extend(all_nodes.into_iter().map(Event::Node));
        queue.extend(all_allocations.into_iter().map(Event::Allocation));
        queue.extend(all_pods.into_iter().map(Event::Pod));
        Feed { allocations, nodes, classes, namespaces, pods, progress, told_revision: 0, queue }
    }

    /// The next event that is there already.
    pub fn next_now(&mut self) -> Option<Event> {
        if self.queue.is_empty() {
            self.fill();
        }
        self.queue.pop_front()
    }

    /// Waits until some source has something.
    pub async fn changed(&mut self) -> Result<(), Error> {
        let event = tokio::select! {
            change = self.pods.changes.recv() => self.pods.event(change, "pods")?,
            change = self.nodes.changes.recv() => self.nodes.event(change, "nodes")?,
            change = self.allocations.changes.recv() => self.allocations.event(change, "nodeallocations")?,
            change = self.classes.changes.recv() => self.classes.event(change, "priorityclasses")?,
            change = self.namespaces.changes.recv() => self.namespaces.event(change, "namespaces")?,
            moved = self.progress.changed() => {
                moved.ok_or(Error::WatchEnded("pods"))?;
                return Ok(());
            }
        };
        self.queue.push_back(event);
        Ok(())
    }

    fn fill(&mut self) {
        // Read first: what is told of pods after this covers it.
        let reached = self.pods.informer.revision();
        drain(&mut self.classes, &mut self.queue);
        drain(&mut self.namespaces, &mut self.queue);
        drain(&mut self.nodes, &mut self.queue);
        drain(&mut self.allocations, &mut self.queue);
        drain(&mut self.pods, &mut self.queue);
        if reached > self.told_revision {
            self.told_revision = reached;
            self.queue.push_back(Event::PodsReached(reached));
        }
    }
}

fn drain<T>(source: &mut Source<T>, queue: &mut VecDeque<Event>)
where
    T: Send + Sync + 'static,
    Source<T>: Told<T>,
{
    while let Some(change) = source.changes.try_recv() {
        queue.push_back(source.tell(change));
    }
}

/// How a kind's changes become events.
trait Told<T> {
    fn tell(&self, change: Change<T>) -> Event;

    fn event(&self, change: Option<Change<T>>, kind: &'static str) -> Result<Event, Error> {
        change.map(|change| self.tell(change)).ok_or(Error::WatchEnded(kind))
    }
}

macro_rules! told {
    ($kind:ty, $applied:expr, $deleted:expr, $all:expr) => {
        impl Told<$kind> for Source<$kind> {
            fn tell(&self, change: Change<$kind>) -> Event {
                match change {
                    Change::Applied { new, .. } => $applied(new),
                    Change::Deleted(last) => $deleted(&last),
                    Change::Resync => $all(self.informer.list()),
                }
            }
        }
    };
}

told!(Pod, Event::Pod, |pod: &Pod| Event::PodGone(pod.metadata.uid.to_string()), Event::AllPods);
told!(Node, Event::Node, |node: &Node| Event::NodeGone(node.metadata.name.clone()), Event::AllNodes);
told!(
    NodeAllocation,
    Event::Allocation,
    |last: &NodeAllocation| Event::AllocationGone(last.metadata.name.clone()),
    Event::AllAllocations
);
told!(
    PriorityClass,
    Event::Class,
    |last: &PriorityClass| Event::ClassGone(last.metadata.name.clone()),
    Event::AllClasses
);
told!(
    Namespace,
    Event::Namespace,
    |last: &Namespace| Event::NamespaceGone(last.metadata.name.clone()),
    Event::AllNamespaces
);
