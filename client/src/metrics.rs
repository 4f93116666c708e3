//! The registry that a process' loops write their numbers to, and its text form. Never serves HTTP.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};
use prometheus_client::registry::Registry;

use crate::looprt::LoopCollector;

/// One per process; clones share it.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    /// What components registered, by the type of it.
    components: Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    loops: LoopFamilies,
    informers: InformerFamilies,
    events: EventCounters,
}

/// The label that says which loop a number belongs to.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct LoopLabel {
    pub r#loop: String,
}

/// The label that says which kind an informer follows.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct KindLabel {
    pub kind: String,
}

pub(crate) type HistogramFamily = Family<LoopLabel, Histogram, fn() -> Histogram>;

/// Numbers that every loop has.
pub(crate) struct LoopFamilies {
    pub latency_s: HistogramFamily,
    pub handled: Family<LoopLabel, Counter>,
    pub errors: Family<LoopLabel, Counter>,
    pub collector: LoopCollector,
}

/// Numbers that every informer has.
pub(crate) struct InformerFamilies {
    pub lists: Family<KindLabel, Counter>,
    pub watch_failures: Family<KindLabel, Counter>,
    pub stalls: Family<KindLabel, Counter>,
    pub revision: Family<KindLabel, Gauge<u64, AtomicU64>>,
}

/// Numbers of the event recorders.
#[derive(Default)]
pub(crate) struct EventCounters {
    pub dropped: Counter,
    pub failed: Counter,
}

fn latency_buckets() -> Histogram {
    Histogram::new([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let loops = LoopFamilies {
            latency_s: Family::new_with_constructor(latency_buckets as fn() -> Histogram),
            handled: Family::default(),
            errors: Family::default(),
            collector: LoopCollector::default(),
        };
        let informers = InformerFamilies {
            lists: Family::default(),
            watch_failures: Family::default(),
            stalls: Family::default(),
            revision: Family::default(),
        };
        let events = EventCounters::default();
        let mut registry = Registry::with_prefix("gantry");
        let latency = "Time from a change to its handling";
        registry.register("loop_latency_seconds", latency, loops.latency_s.clone());
        registry.register("loop_handled", "Keys handled", loops.handled.clone());
        registry.register("loop_errors", "Keys whose handling failed", loops.errors.clone());
        registry.register_collector(Box::new(loops.collector.clone()));
        registry.register("informer_lists", "Full lists", informers.lists.clone());
        registry.register("informer_watch_failures", "Watches that failed", informers.watch_failures.clone());
        registry.register("informer_stalls", "Watches that fell silent", informers.stalls.clone());
        registry.register("informer_revision", "Everything up to here is seen", informers.revision.clone());
        registry.register("events_dropped", "Events dropped from a full queue", events.dropped.clone());
        registry.register("events_failed", "Events that the server did not take", events.failed.clone());
        Metrics(Arc::new(Inner {
            registry: Mutex::new(registry),
            components: Mutex::default(),
            loops,
            informers,
            events,
        }))
    }

    /// The numbers in the text form that Prometheus reads.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0.registry.lock())
            .expect("writing to a string cannot fail");
        text
    }

    /// As [`Self::encode`], to be followed by others' numbers.
    pub fn lines(&self) -> String {
        let mut text = self.encode();
        let end = text.strip_suffix("# EOF\n").map_or(text.len(), str::len);
        text.truncate(end);
        text
    }

    /// A component's own numbers: registered the first time, the same ones when the component starts again.
    pub fn component<T: Clone + Send + Sync + 'static>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        let mut components = self.0.components.lock();
        let known =
            components.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(register(&mut self.0.registry.lock())));
        known.downcast_ref::<T>().expect("kept under its own type").clone()
    }

    pub(crate) fn loops(&self) -> &LoopFamilies {
        &self.0.loops
    }

    pub(crate) fn informers(&self) -> &InformerFamilies {
        &self.0.informers
    }

    pub(crate) fn events(&self) -> &EventCounters {
        &self.0.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_starts_again_keeps_its_numbers() {
        #[derive(Clone)]
        struct Mine(Counter);
        let metrics = Metrics::new();
        for expect in ["gantry_mine_total 1\n", "gantry_mine_total 2\n"] {
            let mine = metrics.component(|registry| {
                let mine = Mine(Counter::default());
                registry.register("mine", "Of a test", mine.0.clone());
                mine
            });
            mine.0.inc();
            let text = metrics.lines();
            assert!(text.contains(expect), "{text}");
            assert_eq!(text.matches("# TYPE gantry_mine").count(), 1);
            assert_eq!(format!("{text}# EOF\n"), metrics.encode());
        }
    }
}
