//! Turns what the API tells into the engine's events, in an order that keeps its promise: by the time that it hears how far the
//! pod watch has come, it has heard every pod change up to there. Keeps no copy of anything.

use std::sync::Arc;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Object;
use gantry_client::{Client, Follow, InformerOptions, Metrics, Told};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::api::{
    BatchCapacity, CsiNode, Namespace, Node, NodeAllocation, PersistentVolume, PersistentVolumeClaim, PlacementReview,
    Pod, PodDisruptionBudget, PodGroup, PriorityClass, StorageClass,
};
use crate::engine::{Event, Stored};
use crate::snapshot::Watch;

/// Events taken at once before decisions are made again.
const AT_ONCE: usize = 4096;

pub(super) struct Feed {
    pods: Follow<Pod>,
    nodes: Follow<Node>,
    allocations: Follow<NodeAllocation>,
    classes: Follow<PriorityClass>,
    namespaces: Follow<Namespace>,
    budgets: Follow<PodDisruptionBudget>,
    groups: Follow<PodGroup>,
    lendable: Follow<BatchCapacity>,
    reviews: Follow<PlacementReview>,
    claims: Follow<PersistentVolumeClaim>,
    volumes: Follow<PersistentVolume>,
    storage_classes: Follow<StorageClass>,
    csi_nodes: Follow<CsiNode>,
}

struct Begin<'a> {
    client: &'a Client,
    metrics: &'a Metrics,
    cancel: &'a CancellationToken,
    events: Vec<Event>,
}

impl Begin<'_> {
    /// Follows a kind, and waits for all of it.
    async fn follow<T>(&mut self, kind: &'static Kind) -> Result<Follow<T>, Error>
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
        Told<T>: Heard,
    {
        // What machines' pods take together is known from the pods.
        let list_parameter = (kind.plural == kinds::NODE_ALLOCATION.plural).then_some(("totals", "false"));
        let options =
            InformerOptions { metrics: Some(self.metrics.clone()), list_parameter, ..InformerOptions::default() };
        let mut follow = Follow::start(self.client.clone(), kind, options, self.cancel);
        loop {
            let told = follow.next().await.ok_or(Error::WatchEnded(kind.plural))?;
            let all = matches!(told, Told::All(_));
            self.events.extend(told.heard());
            if all {
                return Ok(follow);
            }
        }
    }
}

impl Feed {
    /// Lists everything. Allocations are listed before pods, so that the pods' list covers every version in them.
    pub async fn start(
        client: &Client,
        metrics: &Metrics,
        cancel: &CancellationToken,
    ) -> Result<(Self, Vec<Event>), Error> {
        let mut begin = Begin { client, metrics, cancel, events: Vec::new() };
        let classes = begin.follow(&kinds::PRIORITY_CLASS).await?;
        let namespaces = begin.follow(&kinds::NAMESPACE).await?;
        let lendable = begin.follow(&kinds::BATCH_CAPACITY).await?;
        let allocations = begin.follow(&kinds::NODE_ALLOCATION).await?;
        let nodes = begin.follow(&kinds::NODE).await?;
        let budgets = begin.follow(&kinds::POD_DISRUPTION_BUDGET).await?;
        let groups = begin.follow(&kinds::POD_GROUP).await?;
        let storage_classes = begin.follow(&kinds::STORAGE_CLASS).await?;
        let csi_nodes = begin.follow(&kinds::CSI_NODE).await?;
        let volumes = begin.follow(&kinds::PERSISTENT_VOLUME).await?;
        let claims = begin.follow(&kinds::PERSISTENT_VOLUME_CLAIM).await?;
        let pods = begin.follow(&kinds::POD).await?;
        let reviews = begin.follow(&kinds::PLACEMENT_REVIEW).await?;
        let events = begin.events;
        let feed = Feed {
            pods,
            nodes,
            allocations,
            classes,
            namespaces,
            budgets,
            groups,
            lendable,
            reviews,
            claims,
            volumes,
            storage_classes,
            csi_nodes,
        };
        Ok((feed, events))
    }

    /// What is there already, at most a good deal. Versions of machines come before the pods behind them.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        drain(&mut self.classes, events);
        drain(&mut self.namespaces, events);
        drain(&mut self.lendable, events);
        drain(&mut self.nodes, events);
        drain(&mut self.allocations, events);
        drain(&mut self.budgets, events);
        drain(&mut self.groups, events);
        drain(&mut self.storage_classes, events);
        drain(&mut self.csi_nodes, events);
        drain(&mut self.volumes, events);
        drain(&mut self.claims, events);
        drain(&mut self.pods, events);
        drain(&mut self.reviews, events);
    }

    /// Waits until some source has something.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        tokio::select! {
            told = self.pods.next() => event(told, "pods"),
            told = self.nodes.next() => event(told, "nodes"),
            told = self.allocations.next() => event(told, "nodeallocations"),
            told = self.classes.next() => event(told, "priorityclasses"),
            told = self.namespaces.next() => event(told, "namespaces"),
            told = self.budgets.next() => event(told, "poddisruptionbudgets"),
            told = self.groups.next() => event(told, "podgroups"),
            told = self.lendable.next() => event(told, "batchcapacities"),
            told = self.reviews.next() => event(told, "placementreviews"),
            told = self.claims.next() => event(told, "persistentvolumeclaims"),
            told = self.volumes.next() => event(told, "persistentvolumes"),
            told = self.storage_classes.next() => event(told, "storageclasses"),
            told = self.csi_nodes.next() => event(told, "csinodes"),
        }
    }
}

fn drain<T: Send + Sync + 'static>(source: &mut Follow<T>, events: &mut Vec<Event>)
where
    Told<T>: Heard,
{
    for _ in 0..AT_ONCE {
        match source.try_next() {
            Some(told) => events.extend(told.heard()),
            None => return,
        }
    }
}

fn event<T>(told: Option<Told<T>>, kind: &'static str) -> Result<Option<Event>, Error>
where
    Told<T>: Heard,
{
    told.map(Heard::heard).ok_or(Error::WatchEnded(kind))
}

/// What is told of a kind, as an event.
trait Heard {
    fn heard(self) -> Option<Event>;
}

macro_rules! told {
    ($kind:ty, $all:expr, $applied:expr, $deleted:expr) => {
        told!($kind, $all, $applied, $deleted, |_| None);
    };
    ($kind:ty, $all:expr, $applied:expr, $deleted:expr, $reached:expr) => {
        impl Heard for Told<$kind> {
            fn heard(self) -> Option<Event> {
                let deleted: fn(&Arc<$kind>) -> Event = $deleted;
                let reached: fn(u64) -> Option<Event> = $reached;
                match self {
                    Told::All(all) => Some($all(all)),
                    Told::Applied(new) => Some($applied(new)),
                    Told::Deleted(last) => Some(deleted(&last)),
                    Told::Reached(revision) => reached(revision),
                }
            }
        }
    };
}

impl Heard for Told<Pod> {
    fn heard(self) -> Option<Event> {
        Some(match self {
            Told::All(all) => Event::AllPods(all),
            Told::Applied(new) => Event::Pod(new),
            Told::Deleted(last) => Event::PodGone(last.metadata.uid.to_string()),
            Told::Reached(revision) => Event::Reached(Watch::Pods, revision),
        })
    }
}

fn name<T: Object>(object: &T) -> String {
    object.meta().name.clone()
}

fn full_name<T: Object>(object: &T) -> (String, String) {
    (object.meta().namespace.clone(), object.meta().name.clone())
}

told!(Node, Event::AllNodes, Event::Node, |last| Event::NodeGone(name(&**last)), |revision| {
    Some(Event::Reached(Watch::Nodes, revision))
});
told!(NodeAllocation, Event::AllAllocations, Event::Allocation, |last| Event::AllocationGone(name(&**last)));
told!(PriorityClass, Event::AllClasses, Event::Class, |last| Event::ClassGone(name(&**last)));
told!(Namespace, Event::AllNamespaces, Event::Namespace, |last| Event::NamespaceGone(name(&**last)));
told!(PodDisruptionBudget, Event::AllBudgets, Event::Budget, |last| Event::BudgetGone(full_name(&**last)));
told!(PodGroup, Event::AllGroups, Event::Group, |last| Event::GroupGone(full_name(&**last)));
told!(BatchCapacity, Event::AllLendable, Event::Lendable, |last| Event::LendableGone(last.clone()), |revision| {
    Some(Event::Reached(Watch::Capacities, revision))
});
told!(PlacementReview, Event::AllReviews, Event::Review, |last| Event::ReviewGone(full_name(&**last)));
told!(
    PersistentVolumeClaim,
    |all| Event::Storage(Stored::AllClaims(all)),
    |new| Event::Storage(Stored::Claim(new)),
    |last| Event::Storage(Stored::ClaimGone(last.metadata.key()))
);
told!(
    PersistentVolume,
    |all| Event::Storage(Stored::AllVolumes(all)),
    |new| Event::Storage(Stored::Volume(new)),
    |last| Event::Storage(Stored::VolumeGone(name(&**last)))
);
told!(StorageClass, |all| Event::Storage(Stored::AllClasses(all)), |new| Event::Storage(Stored::Class(new)), |last| {
    Event::Storage(Stored::ClassGone(name(&**last)))
});
told!(CsiNode, |all| Event::Storage(Stored::AllMachines(all)), |new| Event::Storage(Stored::Machine(new)), |last| {
    Event::Storage(Stored::MachineGone(name(&**last)))
});
