//! What the scheduler counts of itself.

use gantry_client::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::engine::{Effect, Engine};

#[derive(Clone)]
pub(super) struct Numbers {
    bound: Counter,
    unschedulable: Counter,
    conflicts: Counter,
    pending: Gauge,
    queue: Family<QueueLabel, Gauge>,
    preempted: Counter,
    waited: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

impl Numbers {
    pub fn register(metrics: &Metrics) -> Self {
        metrics.component(Self::new)
    }

    fn new(registry: &mut Registry) -> Self {
        let numbers = Numbers {
            bound: Counter::default(),
            unschedulable: Counter::default(),
            conflicts: Counter::default(),
            pending: Gauge::default(),
            queue: Family::default(),
            preempted: Counter::default(),
            waited: Histogram::new(exponential_buckets(0.001, 2.0, 20)),
        };
        registry.register("scheduler_bound", "Pods bound", numbers.bound.clone());
        registry.register("scheduler_unschedulable", "Explanations given", numbers.unschedulable.clone());
        registry.register("scheduler_conflicts", "Binds decided again", numbers.conflicts.clone());
        registry.register("scheduler_pending", "Pods without a machine", numbers.pending.clone());
        registry.register("scheduler_queue", "Pods without a machine, by where they wait", numbers.queue.clone());
        registry.register("scheduler_preempted", "Pods ended to make room", numbers.preempted.clone());
        let help = "Seconds from when a pod was first seen until it was bound";
        registry.register("scheduler_wait_seconds", help, numbers.waited.clone());
        numbers
    }

    pub fn count(&self, effect: &Effect) {
        match effect {
            Effect::Scheduled { waited_ms, .. } => {
                self.bound.inc();
                self.waited.observe(*waited_ms as f64 / 1000.0);
            }
            Effect::Evict { .. } => drop(self.preempted.inc()),
            Effect::Explain { .. } => drop(self.unschedulable.inc()),
            Effect::ReadAllocation(_) => drop(self.conflicts.inc()),
            _ => {}
        }
    }

    pub fn depths(&self, engine: &Engine) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let depths = engine.depths();
        let all = [
            ("ready", depths.ready),
            ("waiting", depths.waiting),
            ("sleeping", depths.sleeping),
            ("binding", depths.taken),
        ];
        for (queue, count) in all {
            self.queue.get_or_create(&QueueLabel { queue }).set(gauge(count));
        }
        self.pending.set(gauge(engine.pending()));
    }
}
