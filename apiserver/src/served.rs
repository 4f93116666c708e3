//! A resource as one group and version serve it: its names, the stored objects behind it, and its rules.
//!
//! Several of them may stand on the same stored objects: the versions of a custom resource, `autoscaling/v1` beside `v2`. It decides
//! whose rules count and whether objects must be converted on their way; never what a rule says.

use crate::cache::{Group, Resource};
use crate::convert::Conversion;
use crate::custom::Version;
use crate::kinds::{Strategy, strategy};
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::openapi::Row;
use gantry_apimachinery::schema::{Schema, Type};
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Kinds with a status that Kubernetes keeps no generation for.
const WITHOUT_GENERATION: [&str; 12] = [
    "apiservices",
    "certificatesigningrequests",
    "horizontalpodautoscalers",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "resourceclaims",
    "resourcequotas",
    "servicecidrs",
    "services",
    "volumeattachments",
];
/// Kinds without a status that it keeps one for all the same.
const WITH_GENERATION: [&str; 8] = [
    "deviceclasses",
    "ingressclasses",
    "mutatingwebhookconfigurations",
    "networkpolicies",
    "podtemplates",
    "resourceslices",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

enum Rules {
    BuiltIn { strategy: &'static dyn Strategy, schema: Type<'static> },
    Custom(Arc<Version>),
}

pub struct Served {
    /// As clients of this version name it.
    pub kind: &'static Kind,
    /// The stored objects, in their stored version.
    pub resource: Arc<Resource>,
    /// The store and the revision line that they belong to.
    pub group: Arc<Group>,
    /// Whether objects count the changes of their spec in `metadata.generation`.
    pub has_generation: bool,
    /// Between what is stored and what clients of this version see; `None` when they are the same.
    pub conversion: Option<Conversion>,
    rules: Rules,
}

impl Served {
    /// A kind of the table. What a kind that is another's face obeys are the rules of the stored one.
    pub fn built_in(kind: &'static Kind, resource: Arc<Resource>, group: Arc<Group>) -> Self {
        let stored = kind.stored_as();
        let schema = Schema::builtin().kind(stored.group, stored.version, stored.kind).unwrap_or_else(Type::any);
        let rules = Rules::BuiltIn { strategy: strategy(stored.group, stored.plural), schema };
        let has_generation = stored.has_status() && !WITHOUT_GENERATION.contains(&stored.plural)
            || WITH_GENERATION.contains(&stored.plural);
        Self { kind, resource, group, has_generation, conversion: Conversion::built_in(kind), rules }
    }

    /// A version of a custom resource.
    pub fn custom(kind: &'static Kind, resource: Arc<Resource>, group: Arc<Group>, version: Arc<Version>) -> Self {
        let conversion = Conversion::custom(&version);
        Self { kind, resource, group, has_generation: true, conversion, rules: Rules::Custom(version) }
    }

    pub fn strategy(&self) -> &dyn Strategy {
        match &self.rules {
            Rules::BuiltIn { strategy, .. } => *strategy,
            Rules::Custom(version) => &**version,
        }
    }

    /// The fields of objects as the rules see them; arbitrary JSON for kinds without a schema.
    pub fn schema(&self) -> Type<'_> {
        match &self.rules {
            Rules::BuiltIn { schema, .. } => *schema,
            Rules::Custom(version) => version.schema(),
        }
    }

    pub fn as_custom(&self) -> Option<&Arc<Version>> {
        match &self.rules {
            Rules::BuiltIn { .. } => None,
            Rules::Custom(version) => Some(version),
        }
    }

    /// What a table's head says of its columns.
    pub fn column_definitions(&self) -> Value {
        match &self.rules {
            Rules::Custom(version) => version.printer.column_definitions(),
            Rules::BuiltIn { strategy, .. } => {
                let columns = strategy.columns().iter();
                columns
                    .map(|column| {
                        json!({"name": column.name, "type": column.kind, "format": column.format,
                            "description": column.description, "priority": column.priority})
                    })
                    .collect()
            }
        }
    }

    /// One cell for each column.
    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.rules {
            Rules::Custom(version) => version.printer.row(object, now),
            Rules::BuiltIn { strategy, .. } => match &self.conversion {
                Some(_) => strategy.row(&self.from_wire(object.clone()), now),
                None => strategy.row(object, now),
            },
        }
    }
}

/// Everything that is served at a moment.
#[derive(Clone, Default)]
pub struct Registry {
    /// By plural; the few of one plural differ in group or version.
    by_plural: HashMap<&'static str, Vec<Arc<Served>>>,
    /// In the order of discovery.
    kinds: Vec<&'static Kind>,
}

impl Registry {
    pub fn add(&mut self, served: Arc<Served>) {
        let kind = served.kind;
        let alike = self.by_plural.entry(kind.plural).or_default();
        alike.retain(|other| (other.kind.group, other.kind.version) != (kind.group, kind.version));
        alike.push(served);
        self.kinds.push(kind);
    }

    /// A kind that is posted and answered, never stored.
    pub fn add_virtual(&mut self, kind: &'static Kind) {
        self.kinds.push(kind);
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.by_plural.get(plural)?.iter().find(|served| served.kind.group == group && served.kind.version == version)
    }

    pub fn kinds(&self) -> &[&'static Kind] {
        &self.kinds
    }

    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        self.kinds.iter().copied().find(|kind| kind.plural == plural && kind.group == group && kind.version == version)
    }

    /// What the documents are made from.
    pub fn open_api(&self) -> Vec<Row<'_>> {
        let schema = |kind: &Kind| self.find(kind.group, kind.version, kind.plural)?.as_custom().map(|v| &v.open_api);
        self.kinds.iter().map(|kind| Row { kind, custom: schema(kind) }).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.by_plural.values().flatten()
    }
}
