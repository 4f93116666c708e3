//! What the FlowSchemas and PriorityLevelConfigurations of the cluster come to: the levels with their seats, and the classifier.
//! Decides which objects count; the built-in set stands in for what is not there yet. Never who runs.

use super::defaults::{self, CATCH_ALL};
use super::level::Level;
use super::queues::Shape;
use super::schema::{Classifier, Schema};
use super::tally::Tally;
use crate::kinds::value::{i64_at, str_at};
use gantry_apimachinery::kinds::PRIORITY_LEVEL_CONFIGURATION;
use http::HeaderValue;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A PriorityLevelConfiguration as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSpec {
    pub name: Box<str>,
    /// Empty while the object is not in the cache.
    pub uid: Box<str>,
    pub exempt: bool,
    pub shares: usize,
    lendable_percent: usize,
    /// `None`: as much as there is.
    borrowing_percent: Option<usize>,
    pub shape: Shape,
}

impl LevelSpec {
    pub fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        let exempt = str_at(spec, "type") == "Exempt";
        let part = if exempt { &spec["exempt"] } else { &spec["limited"] };
        let number = |path: &str| i64_at(part, path).and_then(|n| usize::try_from(n).ok());
        let queuing = |field: &str| {
            let queued = str_at(part, "limitResponse.type") == "Queue";
            if queued { number(&format!("limitResponse.queuing.{field}")).unwrap_or(0) } else { 0 }
        };
        Self {
            name: str_at(object, "metadata.name").into(),
            uid: str_at(object, "metadata.uid").into(),
            exempt,
            shares: number("nominalConcurrencyShares").unwrap_or(if exempt { 0 } else { 30 }),
            lendable_percent: number("lendablePercent").unwrap_or(0).min(100),
            borrowing_percent: number("borrowingLimitPercent"),
            shape: Shape {
                queues: queuing("queues"),
                hand: queuing("handSize"),
                queue_length: queuing("queueLengthLimit"),
            },
        }
    }

    /// Its seats out of all.
    pub fn seats(&self, total: usize, shares: usize) -> Seats {
        let nominal = total.saturating_mul(self.shares).div_ceil(shares.max(1));
        let part = |percent: usize| (nominal.saturating_mul(percent) + 50) / 100;
        let lendable = part(self.lendable_percent);
        let upper = self
            .borrowing_percent
            .map_or(total.max(nominal), |percent| nominal.saturating_add(part(percent)).min(total.max(nominal)));
        Seats { nominal, lower: nominal - lendable, upper }
    }
}

/// A level's part of the seats: as configured, when it lends all it may, when it borrows all it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    pub nominal: usize,
    pub lower: usize,
    pub upper: usize,
}

#[derive(Debug)]
pub struct ActiveLevel {
    pub spec: LevelSpec,
    pub seats: Seats,
    pub level: Arc<Level>,
}

/// A schema whose level is there.
#[derive(Debug)]
pub struct ActiveSchema {
    pub schema: Arc<Schema>,
    pub level: Arc<ActiveLevel>,
    pub tally: Arc<Tally>,
    /// The uids of schema and level as headers say them.
    pub uids: [Option<HeaderValue>; 2],
}

impl ActiveSchema {
    fn new(schema: Arc<Schema>, level: Arc<ActiveLevel>, tally: Arc<Tally>) -> Self {
        let said = |uid: &str| HeaderValue::from_str(uid).ok().filter(|uid| !uid.is_empty());
        let uids = [said(&schema.uid), said(&level.spec.uid)];
        Self { schema, level, tally, uids }
    }
}

#[derive(Debug)]
pub struct Active {
    pub levels: Vec<Arc<ActiveLevel>>,
    pub classifier: Classifier<Arc<ActiveSchema>>,
    /// For who is named by no schema at all.
    pub catch_all: Arc<ActiveSchema>,
}

impl AsRef<Schema> for Arc<ActiveSchema> {
    fn as_ref(&self) -> &Schema {
        &self.schema
    }
}

/// The objects that are known, and what outlives their changes.
#[derive(Debug, Default)]
pub struct Objects {
    pub schemas: BTreeMap<Box<str>, Arc<Schema>>,
    pub levels: BTreeMap<Box<str>, LevelSpec>,
    /// The suggested objects have been made once: one that is missing now was deleted.
    pub settled: bool,
    live: BTreeMap<Box<str>, Arc<ActiveLevel>>,
    tallies: BTreeMap<(Box<str>, Box<str>), Arc<Tally>>,
}

impl Objects {
    /// The configuration of these objects. Levels that stay keep their requests.
    pub fn compile(&mut self, total: usize) -> Active {
        let mut levels: BTreeMap<Box<str>, LevelSpec> = BTreeMap::new();
        let mut schemas: BTreeMap<Box<str>, Arc<Schema>> = BTreeMap::new();
        for one in defaults::all().iter().filter(|one| !self.settled || one.mandatory()) {
            if one.kind == &PRIORITY_LEVEL_CONFIGURATION {
                levels.insert(one.name.into(), LevelSpec::read(&one.object()));
            } else {
                schemas.insert(one.name.into(), Arc::new(Schema::read(&one.object())));
            }
        }
        levels.extend(self.levels.clone());
        schemas.extend(self.schemas.clone());
        let shares: usize = levels.values().map(|level| level.shares).sum();
        let levels: BTreeMap<Box<str>, Arc<ActiveLevel>> =
            levels.into_iter().map(|(name, spec)| (name, Arc::new(self.level(spec, total, shares)))).collect();
        self.live.clone_from(&levels);
        let mut found: Vec<Arc<ActiveSchema>> = Vec::new();
        for schema in schemas.into_values() {
            if let Some(level) = levels.get(&schema.level) {
                let key = (schema.name.clone(), schema.level.clone());
                let tally = self.tallies.entry(key).or_default().clone();
                found.push(Arc::new(ActiveSchema::new(schema, level.clone(), tally)));
            }
        }
        let used: BTreeSet<_> = found.iter().map(|one| (one.schema.name.clone(), one.schema.level.clone())).collect();
        self.tallies.retain(|key, _| used.contains(key));
        let catch_all = found.iter().find(|one| &*one.schema.name == CATCH_ALL).cloned();
        Active {
            levels: levels.into_values().collect(),
            classifier: Classifier::new(found),
            catch_all: catch_all.expect("the mandatory schema and its level stand in for themselves"),
        }
    }

    fn level(&self, spec: LevelSpec, total: usize, shares: usize) -> ActiveLevel {
        let seats = spec.seats(total, shares);
        let limit = if spec.exempt { usize::MAX } else { seats.nominal };
        let level = match self.live.get(&spec.name) {
            Some(old) => {
                old.level.reshape(spec.shape);
                // What it lends and borrows stays as it is until the next round, unless that was reckoned from other numbers.
                if old.seats != seats || old.spec.exempt != spec.exempt {
                    old.level.set_limit(limit);
                }
                old.level.clone()
            }
            None => Arc::new(Level::new(spec.shape, limit)),
        };
        ActiveLevel { spec, seats, level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn level(name: &str, shares: u32) -> LevelSpec {
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": 50, "borrowingLimitPercent": 100,
            "limitResponse": {"type": "Reject"},
        });
        LevelSpec::read(
            &json!({"metadata": {"name": name, "uid": "u"}, "spec": {"type": "Limited", "limited": limited}}),
        )
    }

    fn nominal(active: &Active, name: &str) -> Option<usize> {
        active.levels.iter().find(|level| &*level.spec.name == name).map(|level| level.seats.nominal)
    }

    #[test]
    fn the_built_in_set_stands_in_until_the_objects_were_made() {
        let mut objects = Objects::default();
        let active = objects.compile(600);
        assert_eq!((active.levels.len(), active.classifier.schemas().len()), (8, 14));
        assert_eq!(nominal(&active, "node-high"), Some(98));
        // An object counts instead of its built-in twin.
        objects.levels.insert("node-high".into(), level("node-high", 0));
        assert_eq!(nominal(&objects.compile(600), "node-high"), Some(0));
        // What is missing later was deleted, except what is mandatory.
        objects.settled = true;
        let active = objects.compile(600);
        let names: Vec<&str> = active.levels.iter().map(|level| &*level.spec.name).collect();
        assert_eq!(names, ["catch-all", "exempt", "node-high"]);
        assert_eq!(nominal(&active, "catch-all"), Some(600), "all shares there are");
        assert_eq!(active.classifier.schemas().len(), 2);
    }

    #[test]
    fn seats_are_reckoned_from_shares() {
        assert_eq!(level("a", 30).seats(600, 90), Seats { nominal: 200, lower: 100, upper: 400 });
        assert_eq!(level("a", 80).seats(600, 90), Seats { nominal: 534, lower: 267, upper: 600 });
        assert_eq!(level("a", 1).seats(600, 245).nominal, 3);
        let quarter = LevelSpec { lendable_percent: 25, borrowing_percent: None, ..level("a", 40) };
        assert_eq!(quarter.seats(600, 245), Seats { nominal: 98, lower: 73, upper: 600 }, "a half counts as one");
    }

    #[test]
    fn a_level_that_stays_keeps_its_requests() {
        let mut objects = Objects::default();
        objects.levels.insert("a".into(), level("a", 1));
        let find = |active: &Active| active.levels.iter().find(|level| &*level.spec.name == "a").unwrap().level.clone();
        let before = find(&objects.compile(600));
        let borrowed = 17;
        before.set_limit(borrowed);
        objects.schemas.insert("s".into(), Arc::new(Schema::read(&json!({"metadata": {"name": "s"}}))));
        let after = find(&objects.compile(600));
        assert!(Arc::ptr_eq(&before, &after));
        assert_eq!(after.look(|queues, _| queues.limit()), borrowed, "nothing about its seats has changed");
        objects.levels.insert("a".into(), level("a", 100));
        assert_eq!(find(&objects.compile(600)).look(|queues, _| queues.limit()), 174);
    }
}
