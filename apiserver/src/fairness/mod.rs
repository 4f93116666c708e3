//! API priority and fairness: which requests run now, which wait, which are turned away. Never looks at a request's body.
//!
//! FlowSchemas say to which priority level a request belongs and what tells its flows apart. Each level owns a number of seats,
//! which idle levels lend to busy ones. A request that finds no free seat waits in one of the level's queues, chosen by shuffle
//! sharding from its flow, so that one noisy flow fills its own few queues and not everybody's.

mod borrowing;
mod config;
mod deal;
pub mod defaults;
pub mod dump;
mod estimate;
mod hold;
pub mod keep;
mod level;
mod queues;
mod report;
mod retry;
mod schema;
mod tally;
pub mod width;

pub use estimate::Work;
pub use hold::until_sent;
pub use level::{Rejected, Seat};
pub use report::metrics;

use crate::auth::UserInfo;
use crate::auth::authz::Attributes;
use crate::cache::{Follower, Group, Object, Tree};
use crate::http::Verb;
use arc_swap::ArcSwap;
use borrowing::{Reading, Wish, share};
use config::{Active, ActiveSchema, LevelSpec, Objects};
use gantry_apimachinery::kinds::{FLOW_SCHEMA, Kind, PRIORITY_LEVEL_CONFIGURATION};
use gantry_apimachinery::time::Timestamp;
use http::{HeaderMap, HeaderName, Method, Uri};
use level::Tag;
use parking_lot::Mutex;
use schema::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;
use tally::InFlight;
use tokio::sync::Notify;

pub struct Fairness {
    /// Seats of all levels together.
    total: usize,
    objects: Mutex<Objects>,
    active: ArcSwap<Active>,
    /// The last round of borrowing, for the metrics.
    demand: Mutex<BTreeMap<Box<str>, Demanded>>,
    reading: InFlight,
    writing: InFlight,
    /// An object came, changed or went.
    changed: Notify,
}

/// What a level wanted in the last period, and how many seats it aims at.
#[derive(Clone, Copy, Debug)]
struct Demanded {
    reading: Reading,
    target: f64,
}

/// Where a request belongs.
#[derive(Clone, Debug)]
pub struct Flow {
    schema: Arc<ActiveSchema>,
    number: u64,
}

/// What a request that wants a seat is about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub user: &'a str,
    pub method: &'a Method,
    pub uri: &'a Uri,
    /// `None` for what is no resource.
    pub verb: Option<Verb>,
    pub now: Timestamp,
}

impl Flow {
    /// Names the objects that decided, once they are there.
    pub fn name_in(&self, headers: &mut HeaderMap) {
        static NAMES: [HeaderName; 2] = [
            HeaderName::from_static("x-kubernetes-pf-flowschema-uid"),
            HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid"),
        ];
        for (name, uid) in NAMES.iter().zip(&self.schema.uids) {
            if let Some(uid) = uid {
                headers.insert(name, uid.clone());
            }
        }
    }
}

impl Fairness {
    pub fn new(total: usize) -> Self {
        let mut objects = Objects::default();
        let active = objects.compile(total);
        Self {
            total,
            objects: Mutex::new(objects),
            active: ArcSwap::from_pointee(active),
            demand: Mutex::default(),
            reading: InFlight::default(),
            writing: InFlight::default(),
            changed: Notify::new(),
        }
    }

    /// The built-in set until the objects are there; then what the store group's cache has.
    pub fn following(group: &Group, total: usize) -> Arc<Self> {
        let fairness = Arc::new(Self::new(total));
        for kind in [&FLOW_SCHEMA, &PRIORITY_LEVEL_CONFIGURATION] {
            let follower = Arc::new(Following { fairness: fairness.clone(), kind });
            group.built_in(kind).expect("both kinds are kept with the cluster's state").follow(follower);
        }
        fairness
    }

    pub fn classify(&self, user: &UserInfo, what: &Attributes<'_>) -> Flow {
        let active = self.active.load();
        let schema = active.classifier.classify(user, what).unwrap_or(&active.catch_all).clone();
        let number = schema.schema.flow(schema.schema.distinguish(&user.username, what.namespace));
        Flow { schema, number }
    }

    /// Waits for the seats that the work takes.
    pub async fn enter(&self, flow: &Flow, work: Work, asked: Asked<'_>) -> Result<Seat, Rejected> {
        let ActiveSchema { schema, level, tally, .. } = &*flow.schema;
        let tag = Tag {
            schema: schema.clone(),
            tally: tally.clone(),
            work: if level.spec.exempt { work } else { work.within(level.seats.nominal) },
            came: asked.now,
            user: asked.user.into(),
            method: asked.method.clone(),
            uri: asked.uri.clone(),
            watch: asked.verb == Some(Verb::Watch),
        };
        let in_flight = if asked.verb.is_some_and(|verb| !verb.is_read()) { &self.writing } else { &self.reading };
        level.level.enter(flow.number, tag, in_flight.clone()).await
    }

    /// Lends the seats of idle levels to busy ones, by what was wanted since the last time. What exempt requests take is taken from
    /// all other levels.
    pub fn rebalance(&self) {
        // Not while the levels change.
        let _objects = self.objects.lock();
        let active = self.active.load();
        let mut demand = BTreeMap::new();
        let (mut limited, mut wishes) = (Vec::new(), Vec::new());
        let mut left: usize = active.levels.iter().map(|level| level.seats.nominal).sum();
        for level in &active.levels {
            let reading = level.level.take_demand();
            let config::Seats { nominal, lower, upper } = level.seats;
            let wish = Wish { nominal, lower, upper, high: reading.high, smooth: reading.smooth };
            demand.insert(level.spec.name.clone(), Demanded { reading, target: wish.target() });
            if level.spec.exempt {
                left = left.saturating_sub(lower.max(reading.high));
            } else {
                limited.push(level);
                wishes.push(wish);
            }
        }
        for (level, seats) in limited.iter().zip(share(left, &wishes)) {
            level.level.set_limit(seats);
        }
        *self.demand.lock() = demand;
    }

    /// The suggested objects were made: what is missing from now on was deleted.
    pub fn settle(&self) {
        self.change(|objects| {
            objects.settled = true;
            true
        });
    }

    /// `change` tells whether there is anything new.
    fn change(&self, change: impl FnOnce(&mut Objects) -> bool) {
        let mut objects = self.objects.lock();
        if !change(&mut objects) {
            return;
        }
        self.active.store(Arc::new(objects.compile(self.total)));
        drop(objects);
        self.changed.notify_one();
    }

    /// `(level, executing, waiting)`.
    pub fn load(&self) -> Vec<(String, usize, usize)> {
        let active = self.active.load();
        let load = |level: &config::ActiveLevel| {
            level.level.look(|queues, _| (level.spec.name.to_string(), queues.executing(), queues.waiting()))
        };
        active.levels.iter().map(|level| load(level)).collect()
    }
}

/// Keeps the configuration to one kind's cache.
struct Following {
    fairness: Arc<Fairness>,
    kind: &'static Kind,
}

impl Following {
    /// What cannot be read matches nothing and gets nothing. Returns whether it says anything new.
    fn take(&self, objects: &mut Objects, name: &str, object: Option<&Object>) -> bool {
        let value = object.map(|object| object.value().unwrap_or_default());
        if self.kind == &FLOW_SCHEMA {
            let new = value.map(|value| Arc::new(Schema::read(&value)));
            replace(&mut objects.schemas, name, new)
        } else {
            replace(&mut objects.levels, name, value.map(|value| LevelSpec::read(&value)))
        }
    }
}

fn replace<T: PartialEq>(map: &mut BTreeMap<Box<str>, T>, name: &str, new: Option<T>) -> bool {
    if map.get(name) == new.as_ref() {
        return false;
    }
    match new {
        Some(new) => map.insert(name.into(), new),
        None => map.remove(name),
    };
    true
}

impl Follower for Following {
    fn reset(&self, tree: &Tree) {
        self.fairness.change(|objects| {
            if self.kind == &FLOW_SCHEMA {
                objects.schemas.clear();
            } else {
                objects.levels.clear();
            }
            for (name, object) in tree {
                self.take(objects, name, Some(object));
            }
            true
        });
    }

    fn changed(&self, path: &str, object: Option<&Object>) {
        self.fairness.change(|objects| self.take(objects, path, object));
    }
}

#[cfg(test)]
mod tests;
