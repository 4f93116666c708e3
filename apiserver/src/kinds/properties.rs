//! What holds of every kind: defaults are idempotent, no object of the right types makes a rule fail, and rows have their cells.
//! Objects are made at random from the schema. Decides nothing about any kind.

use super::testing::with_ctx;
use super::{STRATEGIES, Strategy};
use gantry_apimachinery::kinds::{KINDS, Kind};
use gantry_apimachinery::schema::{Schema, Shape, Type};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Words that rules look for, and some that they do not know.
const WORDS: [&str; 30] = [
    "",
    "a",
    "b.example.com",
    "a/b",
    "A b",
    "-",
    "*",
    "/x/../y",
    "10.0.0.1",
    "10.0.0.0/8",
    "2001:db8::/64",
    "80%",
    "* * * * *",
    "@every 1s",
    "TZ=UTC 0 0 * * *",
    "Always",
    "Never",
    "RollingUpdate",
    "In",
    "Exists",
    "Pod",
    "Container",
    "Resource",
    "Pods",
    "External",
    "ExactCount",
    "Prefix",
    "Namespace",
    "Bound",
    "TCP",
];
const QUANTITIES: [&str; 7] = ["0", "1", "-1", "100m", "1Gi", "1e3", "0.0000000001"];
const TIMES: [&str; 2] = ["2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z"];

/// A source of choices that only a seed decides.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*, which must not stand at zero.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn value(&mut self, ty: Type<'_>, depth: usize) -> Value {
        match ty.shape() {
            Shape::String => self.one(&WORDS).into(),
            Shape::Bool => (self.below(2) == 0).into(),
            Shape::Int32 | Shape::Int64 => self.one(&[0, 1, 5, -1, 80, i64::from(i32::MAX)]).into(),
            Shape::Double => 1.5.into(),
            Shape::Bytes => "AAEC".into(),
            Shape::Time => self.one(&TIMES).into(),
            Shape::MicroTime => "2026-01-02T03:04:05.000006Z".into(),
            Shape::Quantity => self.one(&QUANTITIES).into(),
            Shape::IntOrString if self.below(2) == 0 => self.one(&[0, 1, -1, 80]).into(),
            Shape::IntOrString => self.one(&WORDS).into(),
            Shape::Object => self.object(ty, depth),
            Shape::List => {
                let Some(items) = ty.items().filter(|_| depth > 0) else { return json!([]) };
                (0..self.below(3)).map(|_| self.value(items, depth - 1)).collect()
            }
            Shape::Map => {
                let Some(value) = ty.map_value().filter(|_| depth > 0) else { return json!({}) };
                let entries = (0..self.below(3)).map(|_| (self.one(&WORDS).to_owned(), self.value(value, depth - 1)));
                Value::Object(entries.collect())
            }
            _ => json!({}),
        }
    }

    fn object(&mut self, ty: Type<'_>, depth: usize) -> Value {
        let mut members = Map::new();
        if depth == 0 {
            return members.into();
        }
        // Of types with many fields a few, so that the rare ones meet.
        let share = (ty.fields().count() / 5).clamp(1, 6);
        for field in ty.fields().filter(|field| field.name() != "managedFields") {
            if field.required() || self.below(share + 1) == 0 {
                members.insert(field.name().to_owned(), self.value(field.ty(), depth - 1));
            }
        }
        members.into()
    }
}

fn kind_of(group: &str, plural: &str) -> (&'static Kind, Type<'static>) {
    let kind = KINDS.iter().find(|kind| kind.group == group && kind.plural == plural && kind.stored_as() == **kind);
    let kind = kind.expect("a strategy is of a kind that is served");
    (kind, Schema::builtin().kind(kind.group, kind.version, kind.kind).expect("a served kind has a schema"))
}

/// Runs everything that a strategy decides on two objects of its kind.
fn exercise(strategy: &dyn Strategy, kind: &Kind, ty: Type<'_>, seed: u64) {
    let mut choices = Choices(seed | 1);
    let mut random = || {
        let mut object = choices.object(ty, 9);
        object["metadata"]["name"] = "x".into();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        object
    };
    let (mut new, mut old) = (random(), random());
    for object in [&mut new, &mut old] {
        strategy.defaults(object);
        let once = object.clone();
        strategy.defaults(object);
        assert_eq!(*object, once, "{}: defaults are idempotent", kind.resource());
    }
    let now = Timestamp::from_secs(1_000);
    let mut errors = FieldErrors::new();
    with_ctx(None, |ctx| {
        let mut created = new.clone();
        strategy.prepare_create(&mut created, ctx);
        strategy.validate(&created, None, ctx, &mut errors);
        strategy.warnings(&created, None);
        assert_eq!(strategy.row(&created, now).len(), strategy.columns().len(), "{}", kind.resource());
    });
    let subresources = kind.subresources.iter().map(|sub| Some(sub.name)).chain([None]);
    for subresource in subresources {
        with_ctx(subresource, |ctx| {
            let mut updated = new.clone();
            strategy.prepare_update(&mut updated, &old, ctx);
            strategy.validate(&updated, Some(&old), ctx, &mut errors);
            strategy.warnings(&updated, Some(&old));
            strategy.bumps_generation(&updated, &old);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_strategy_bears_any_object_of_its_kind(seed: u64) {
        for (group, plural, strategy) in STRATEGIES {
            let (kind, ty) = kind_of(group, plural);
            exercise(*strategy, kind, ty, seed);
        }
    }
}
