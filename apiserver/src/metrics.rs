//! The server's own metrics, and those of the store's members in this process, in Prometheus' text form. Decides names and
//! labels of its own; measures nothing itself.

use crate::core::Core;
use crate::fairness;
use crate::process;
use gantry_store::metrics_text;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::OnceLock;

/// What tells requests apart: Kubernetes' labels, with its words.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Labels {
    pub component: &'static str,
    pub dry_run: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// `resource`, `namespace` or `cluster`; empty outside the resources.
    pub scope: &'static str,
    pub subresource: &'static str,
    pub verb: &'static str,
    pub version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    code: u16,
    #[prometheus(flatten)]
    asked: Labels,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

fn seconds() -> Histogram {
    Histogram::new([
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
    ])
}

pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    pub audit_events: Counter,
    pub audit_errors: Counter,
    objects: Family<ResourceLabels, Gauge>,
    watchers: Family<ResourceLabels, Gauge>,
    /// What other components of the process count.
    others: OnceLock<Others>,
}

type Others = Box<dyn Fn() -> String + Send + Sync>;

impl Metrics {
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            audit_events: Counter::default(),
            audit_errors: Counter::default(),
            objects: Family::default(),
            watchers: Family::default(),
            others: OnceLock::new(),
        };
        let registry = &mut metrics.registry;
        registry.register("apiserver_request", "Requests by verb, resource and code", metrics.requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to the response's head",
            metrics.durations.clone(),
        );
        registry.register("apiserver_audit_event", "Audit events taken", metrics.audit_events.clone());
        registry.register("apiserver_audit_error", "Audit events lost", metrics.audit_errors.clone());
        registry.register("apiserver_storage_objects", "Objects in the cache", metrics.objects.clone());
        registry.register("apiserver_longrunning_requests", "Open watches", metrics.watchers.clone());
        metrics
    }

    pub fn show(&self, others: Others) {
        let is_first = self.others.set(others).is_ok();
        debug_assert!(is_first, "one registry for the components of a process");
    }

    pub fn observe(&self, asked: Labels, code: u16, elapsed_ms: f64) {
        self.durations.get_or_create(&asked).observe(elapsed_ms / 1_000.0);
        self.requests.get_or_create(&Answered { code, asked }).inc();
    }

    /// Everything as text, gauges as they are now.
    pub fn render(&self, core: &Core) -> String {
        for served in core.registry().all() {
            let labels = ResourceLabels { resource: served.resource.kind.resource() };
            let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            self.objects.get_or_create(&labels).set(count(served.resource.len()));
            self.watchers.get_or_create(&labels).set(count(served.resource.watcher_count()));
        }
        let members: Vec<_> = core.groups.iter().filter_map(|group| group.store.reading()).collect();
        let mut text = metrics_text(&members);
        text.push_str(&fairness::metrics(&core.fairness));
        text.push_str(&process::text());
        text.extend(self.others.get().map(|others| others()));
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
