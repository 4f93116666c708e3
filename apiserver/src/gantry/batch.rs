//! `POST /apis/gantry.dev/v1/bindings`: many binds in one request. Decides how the request reads and what each item answers; what is
//! bound together is `gantry::unit`. Nothing here is about room: each item names the allocation version it was decided from.

use super::bind::{Basis, Bind, latest};
use super::pod_text::PodText;
use super::unit::{Line, Lines, Unit, round};
use crate::core::Core;
use crate::http::Outcome;
use gantry_apimachinery::kinds::NODE_ALLOCATION;
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub const MAX_ITEMS: usize = 256;
/// Of a batch that has a group.
pub const MAX_GROUPED: usize = 512;

#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(default)]
    pub items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub uid: String,
    pub node: String,
    pub allocation_version: String,
    /// The generation of the pod that was decided about; absent: any.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Items of one group bind all or none. Empty: alone.
    #[serde(default)]
    pub group: String,
}

/// The transaction's revision, or why the item was not bound.
pub type Answer = Result<u64, Box<Status>>;

impl Item {
    pub fn bind(&self) -> Bind<'_> {
        let Item { namespace, name, uid, node, generation, .. } = self;
        Bind { namespace, name, uid, node, generation: *generation, annotations: None }
    }

    pub fn moved(&self) -> Box<Status> {
        let why =
            format!("the allocation of node {} is not at version {} any more", self.node, self.allocation_version);
        self.bind().conflict(&why)
    }

    pub fn line(&self) -> Outcome<Line<'_>> {
        let version = self.allocation_version.parse().map_err(|_| {
            Status::bad_request(format!("allocationVersion: {:?} is not a resource version", self.allocation_version))
        })?;
        Ok(Line { node: &self.node, version })
    }
}

impl Batch {
    pub fn read(body: Value) -> Outcome<Self> {
        let batch: Self =
            serde_json::from_value(body).map_err(|error| Status::bad_request(format!("BindingBatch: {error}")))?;
        let grouped = batch.items.iter().any(|item| !item.group.is_empty());
        let most = if grouped { MAX_GROUPED } else { MAX_ITEMS };
        if batch.items.len() > most {
            let with = if grouped { "a group" } else { "no group" };
            return Err(Status::bad_request(format!("items: at most {most} binds at once with {with}")).into());
        }
        Ok(batch)
    }

    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.items.iter().map(|item| item.namespace.as_str()).collect()
    }
}

/// Runs the batch. `allowed` says whether the caller may bind in a namespace.
pub async fn run(core: &Core, batch: &Batch, now: Timestamp, allowed: impl Fn(&str) -> Outcome<()>) -> Outcome<Value> {
    let items = &batch.items[..];
    let mut answers: Vec<Option<Answer>> = items.iter().map(|_| None).collect();
    let mut lines = Lines::new();
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of: BTreeMap<(&str, Option<Line>), usize> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let basis = match allowed(&item.namespace) {
            Ok(()) => basis(core, item, &mut lines).await,
            Err(status) => Err(status),
        };
        let line = item.line().ok();
        if item.group.is_empty() && basis.is_err() {
            answers[at] = basis.err().map(Err);
            continue;
        }
        let key = (&*item.group, line.filter(|_| item.group.is_empty()));
        let unit = *unit_of.entry(key).or_insert_with(|| {
            units.push(Unit::new(&item.group));
            units.len() - 1
        });
        units[unit].add(at, line, basis);
    }
    while round(core, items, now, &mut lines, &mut units, &mut answers).await? {}
    let results: Vec<Value> = items.iter().zip(answers).map(|(item, answer)| result(item, answer)).collect();
    Ok(json!({"apiVersion": "gantry.dev/v1", "kind": "BindingBatchResult", "items": results}))
}

/// The pod, its claim, and the machine at the version decided from.
async fn basis<'a>(core: &Core, item: &'a Item, lines: &mut Lines<'a>) -> Outcome<Basis> {
    let line = item.line()?;
    let mut pod = latest(core, &item.namespace, &item.name, false).await?;
    if let (Some(decided), Some(known)) = (item.generation, &pod)
        && !says_generation(&known.bytes, decided)
        && PodText::read(&known.bytes)?.generation()? < decided
    {
        // Whoever decided has seen more than this copy.
        pod = latest(core, &item.namespace, &item.name, true).await?;
    }
    let pod = pod.ok_or_else(|| Status::not_found("pods", &item.name))?;
    if let Entry::Vacant(unknown) = lines.entry(line) {
        let mut allocation = core.latest(&NODE_ALLOCATION, "", &item.node, false).await?;
        if allocation.as_ref().is_some_and(|allocation| allocation.revision < line.version) {
            allocation = core.live(&NODE_ALLOCATION, "", &item.node).await?;
        }
        let allocation = allocation.ok_or_else(|| Status::not_found("nodes", &item.node))?;
        unknown.insert(Some(allocation).filter(|allocation| allocation.revision == line.version));
    }
    if lines[&line].is_none() {
        return Err(item.moved());
    }
    let claim = item.bind().claim(core, &pod, false).await?;
    Ok(Basis { pod, claim })
}

/// Whether the text may say so: most do, and are not taken apart for it. What is bound is looked at exactly.
fn says_generation(bytes: &[u8], generation: i64) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(&format!("\"generation\":{generation}")))
}

fn result(item: &Item, answer: Option<Answer>) -> Value {
    match answer.unwrap_or_else(|| Err(Status::conflict("pods/binding", &item.name).into())) {
        Ok(revision) => json!({"code": 201, "resourceVersion": revision.to_string()}),
        Err(status) => {
            let mut said = json!({"code": status.code(), "reason": status.reason, "message": status.message});
            if let Some(cause) = status.causes().first() {
                said["cause"] = cause.reason.clone().into();
            }
            said
        }
    }
}
