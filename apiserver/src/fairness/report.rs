//! The metrics of fair queuing in Prometheus' text form, named as Kubernetes names them. Measures nothing itself.

use super::config::{ActiveLevel, ActiveSchema};
use super::queues::Refusal;
use super::tally::{Histogram, Tally};
use super::{Demanded, Fairness};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

type Labels<'a> = [(&'a str, &'a str)];
/// Reads a number off what has it.
type Reads<T, N> = fn(&T) -> N;

struct Text(String);

impl Text {
    /// The family's whole name.
    fn family(&mut self, name: &str, kind: &str, help: &str) -> String {
        let name = format!("apiserver_{name}");
        // Writing into a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        name
    }

    fn sample(&mut self, name: &str, labels: &Labels<'_>, value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    /// Nothing when nothing was seen. `unit`: how many of the histogram's values are one.
    fn histogram(&mut self, name: &str, labels: &Labels<'_>, unit: f64, histogram: &Histogram) {
        let seen = histogram.seen();
        if seen.count == 0 {
            return;
        }
        let bucket = format!("{name}_bucket");
        for (bound, count) in seen.at_most {
            let bound = (bound as f64 / unit).to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), seen.count);
        self.sample(&format!("{name}_sum"), labels, seen.sum as f64 / unit);
        self.sample(&format!("{name}_count"), labels, seen.count);
    }
}

/// Everything as it is now.
pub fn metrics(fairness: &Fairness) -> String {
    let mut text = Text(String::new());
    by_schema(fairness, &mut text);
    refusals(fairness, &mut text);
    histograms(fairness, &mut text);
    by_level(fairness, &mut text);
    demand(fairness, &mut text);
    let kinds = [("mutating", fairness.writing.now()), ("readOnly", fairness.reading.now())];
    let name = text.family("current_inflight_requests", "gauge", "Requests that run now, watches aside");
    for (kind, count) in kinds {
        text.sample(&name, &[("request_kind", kind)], count);
    }
    text.0
}

fn labels(one: &ActiveSchema) -> [(&str, &str); 2] {
    [("flow_schema", &*one.schema.name), ("priority_level", &*one.schema.level)]
}

fn by_schema(fairness: &Fairness, text: &mut Text) {
    let active = fairness.active.load();
    let families: [(&str, &str, &str, Reads<Tally, u64>); 5] = [
        ("current_executing_requests", "gauge", "Requests that run now", |t| t.executing.load(Relaxed) as u64),
        ("current_executing_seats", "gauge", "Seats that are taken", |t| t.executing_seats.load(Relaxed) as u64),
        ("current_inqueue_requests", "gauge", "Requests that wait for a seat", |t| t.waiting.load(Relaxed) as u64),
        ("current_inqueue_seats", "gauge", "Seats that are waited for", |t| t.waiting_seats.load(Relaxed) as u64),
        ("dispatched_requests_total", "counter", "Requests that got their seats", |t| t.dispatched.load(Relaxed)),
    ];
    for (name, kind, help, value) in families {
        let name = text.family(&format!("flowcontrol_{name}"), kind, help);
        for one in active.classifier.schemas() {
            text.sample(&name, &labels(one), value(&one.tally));
        }
    }
}

fn refusals(fairness: &Fairness, text: &mut Text) {
    let name = text.family("flowcontrol_rejected_requests_total", "counter", "Requests that got no seat");
    for one in fairness.active.load().classifier.schemas() {
        for (why, count) in Refusal::ALL.iter().zip(&one.tally.refused) {
            text.sample(&name, &[&labels(one)[..], &[("reason", why.as_str())]].concat(), count.load(Relaxed));
        }
    }
}

fn histograms(fairness: &Fairness, text: &mut Text) {
    type Kinds = [(&'static str, fn(&Tally) -> &Histogram)];
    const SECOND: f64 = 1e6;
    let active = fairness.active.load();
    let families: [(&str, &str, f64, &str, &Kinds); 4] = [
        (
            "request_wait_duration_seconds",
            "Time waited for seats",
            SECOND,
            "execute",
            &[("true", |t| &t.waited), ("false", |t| &t.waited_in_vain)],
        ),
        (
            "request_execution_seconds",
            "Time to the answer's head from when the seats were there",
            SECOND,
            "type",
            &[("regular", |t| &t.executed), ("watch", |t| &t.watches_began)],
        ),
        (
            "request_queue_length_after_enqueue",
            "Requests in the queue that a request had to join",
            1.0,
            "",
            &[("", |t| &t.lengths)],
        ),
        ("work_estimated_seats", "Seats that a request was reckoned to take", 1.0, "", &[("", |t| &t.widths)]),
    ];
    for (name, help, unit, label, kinds) in families {
        let name = text.family(&format!("flowcontrol_{name}"), "histogram", help);
        for one in active.classifier.schemas() {
            for (kind, histogram) in kinds {
                let kind = [(label, *kind)];
                let more = if label.is_empty() { &[][..] } else { &kind };
                text.histogram(&name, &[&labels(one)[..], more].concat(), unit, histogram(&one.tally));
            }
        }
    }
}

fn by_level(fairness: &Fairness, text: &mut Text) {
    let active = fairness.active.load();
    let limits: [(&str, &str, Reads<ActiveLevel, usize>); 4] = [
        ("nominal_limit_seats", "Seats as configured", |level| level.seats.nominal),
        ("lower_limit_seats", "Seats when it lends all it may", |level| level.seats.lower),
        ("upper_limit_seats", "Seats when it borrows all it may", |level| level.seats.upper),
        ("current_limit_seats", "Seats that it has now", |level| level.level.look(|queues, _| queues.limit())),
    ];
    for (name, help, value) in limits {
        let name = text.family(&format!("flowcontrol_{name}"), "gauge", help);
        for level in active.levels.iter().filter(|level| !level.spec.exempt) {
            text.sample(&name, &[("priority_level", &*level.spec.name)], value(level));
        }
    }
}

fn demand(fairness: &Fairness, text: &mut Text) {
    let demand = fairness.demand.lock().clone();
    let wanted: [(&str, &str, Reads<Demanded, f64>); 5] = [
        ("demand_seats_high_watermark", "Most seats wanted in the last period", |d| d.reading.high as f64),
        ("demand_seats_average", "Seats wanted on average in the last period", |d| d.reading.average),
        ("demand_seats_stdev", "Their standard deviation", |d| d.reading.deviation),
        ("demand_seats_smoothed", "Seats wanted, falling slowly", |d| d.reading.smooth),
        ("target_seats", "Seats that the level aims at when seats are lent", |d| d.target),
    ];
    for (name, help, value) in wanted {
        let name = text.family(&format!("flowcontrol_{name}"), "gauge", help);
        for (level, demanded) in &demand {
            text.sample(&name, &[("priority_level", &**level)], value(demanded));
        }
    }
}
