//! Charging writes to quotas. Decides who finds room, in the order of arrival; everyone who waits in a namespace at the same moment
//! is charged by one conditional write.

use super::usage::{in_scope, listed, measured, of, unsaid};
use super::{is_counted, period_key};
use crate::cache::in_namespace;
use crate::core::{Core, store_failure};
use crate::effects::Effects;
use crate::gantry::room::{Amounts, add, amounts};
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{Kind, RESOURCE_QUOTA, StoreGroup};
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::Status;
use gantry_store::{Compare, Op, RangeRequest, Revision, Txn};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Writes that are charged together, at most.
const BATCH: usize = 500;
/// Lost races in a row before the waiting are told to try again.
const MAX_TRIES: u32 = 32;

/// One write that waits to be charged.
struct Waiting {
    kind: &'static Kind,
    new: Arc<Value>,
    old: Option<Arc<Value>>,
    name: String,
    dry_run: bool,
    answer: oneshot::Sender<Outcome<u64>>,
}

/// The writes that wait, by namespace. A namespace that is here has a task that charges them.
#[derive(Default)]
pub struct Charges(Arc<Mutex<HashMap<String, Vec<Waiting>>>>);

/// A write that was charged, or that no quota is about.
pub struct Charge {
    new: Arc<Value>,
    old: Option<Arc<Value>>,
    /// The charging period that it was charged in; `None`: there are no quotas.
    period: Option<u64>,
}

impl Charge {
    /// Charges a create (`old` is `None`) or what an update grows by.
    pub async fn take(call: &Call<'_>, new: &Value, old: Option<&Value>, name: &str) -> Outcome<Self> {
        let none = || Self { new: Arc::default(), old: None, period: None };
        if !is_counted(call.kind()) || !has_quotas(call.core, call.namespace) {
            return Ok(none());
        }
        if old.is_some_and(|old| of(call.kind(), old) == of(call.kind(), new)) {
            return Ok(none());
        }
        let mut charge = Self { new: Arc::new(new.clone()), old: old.cloned().map(Arc::new), period: None };
        charge.again(call, name).await?;
        Ok(charge)
    }

    async fn again(&mut self, call: &Call<'_>, name: &str) -> Outcome<()> {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            kind: call.served.resource.kind,
            new: self.new.clone(),
            old: self.old.clone(),
            name: name.to_owned(),
            dry_run: call.options.dry_run,
            answer,
        };
        call.core.quotas.join(call.core, call.namespace, waiting);
        let gone = |_| Box::new(Status::service_unavailable("quotas are not charged: the server is going away"));
        self.period = Some(answered.await.map_err(gone)??);
        Ok(())
    }

    /// Makes the write stand only in the period that it was charged in. Other stores than the quotas' cannot.
    pub fn hold(&self, call: &Call<'_>, effects: &mut Effects) {
        if let Some(period) = self.period.filter(|_| call.kind().store == StoreGroup::State && !call.options.dry_run) {
            effects.compare.push(Compare::unchanged(period_key(call.namespace), Revision(period)));
        }
    }

    /// The write did not come about: what it was charged comes back with a recount.
    pub fn give_back(&self, call: &Call<'_>) {
        if self.period.is_some() && !call.options.dry_run {
            call.core.stored_kind(&RESOURCE_QUOTA).group.note_freed(call.namespace.into());
        }
    }

    /// After a lost race: charged again when the period is over.
    pub async fn renew(&mut self, call: &Call<'_>, name: &str) -> Outcome<()> {
        let Some(period) = self.period else { return Ok(()) };
        let store = &call.core.stored_kind(&RESOURCE_QUOTA).group.store;
        let now = store.range(RangeRequest::key(period_key(call.namespace))).await.map_err(store_failure)?;
        if now.kvs.first().map_or(0, |kv| kv.mod_revision.0) != period {
            self.again(call, name).await?;
        }
        Ok(())
    }
}

fn has_quotas(core: &Core, namespace: &str) -> bool {
    let quotas = &core.stored_kind(&RESOURCE_QUOTA).resource;
    if quotas.is_empty() {
        return false;
    }
    quotas.snapshot().tree.range(in_namespace(namespace)).next().is_some()
}

impl Charges {
    fn join(&self, core: &Core, namespace: &str, waiting: Waiting) {
        let mut all = self.0.lock();
        if let Some(queue) = all.get_mut(namespace) {
            queue.push(waiting);
            return;
        }
        all.insert(namespace.to_owned(), vec![waiting]);
        let (all, namespace) = (self.0.clone(), namespace.to_owned());
        let store = core.stored_kind(&RESOURCE_QUOTA).group.store.clone();
        tokio::spawn(async move {
            loop {
                let batch = {
                    let mut all = all.lock();
                    let queue = all.get_mut(&namespace).map(std::mem::take).unwrap_or_default();
                    if queue.is_empty() {
                        all.remove(&namespace);
                        return;
                    }
                    let mut batch = queue;
                    let rest = batch.split_off(batch.len().min(BATCH));
                    all.insert(namespace.clone(), rest);
                    batch
                };
                charge(&*store, &namespace, batch).await;
            }
        });
    }
}

/// A quota as the store has it, and what it comes to with the batch.
struct Quota {
    key: bytes::Bytes,
    revision: u64,
    value: Value,
    hard: Amounts,
    counted: Amounts,
    used: Amounts,
    changed: bool,
}

async fn charge(store: &dyn gantry_store::Store, namespace: &str, batch: Vec<Waiting>) {
    let mut outcome =
        Err(Status::service_unavailable("the namespace's quotas are being written by too many at once").into());
    for _ in 0..MAX_TRIES {
        match attempt(store, namespace, &batch).await {
            Ok(Some(done)) => {
                outcome = Ok(done);
                break;
            }
            Ok(None) => {}
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    match outcome {
        // Who asked may be gone: then a recount gives back what it was charged.
        Ok((period, verdicts)) => batch.into_iter().zip(verdicts).for_each(|(waiting, verdict)| {
            let _ = waiting.answer.send(verdict.map(|()| period));
        }),
        Err(failure) => batch.into_iter().for_each(|waiting| {
            let _ = waiting.answer.send(Err(failure.clone()));
        }),
    }
}

type Charged = (u64, Vec<Outcome<()>>);

/// `None`: somebody else wrote a quota first.
async fn attempt(store: &dyn gantry_store::Store, namespace: &str, batch: &[Waiting]) -> Outcome<Option<Charged>> {
    let period = store.range(RangeRequest::key(period_key(namespace))).await.map_err(store_failure)?;
    let period = period.kvs.first().map_or(0, |kv| kv.mod_revision.0);
    let found = store.range(RangeRequest::prefix(RESOURCE_QUOTA.key_prefix(namespace))).await.map_err(store_failure)?;
    let mut quotas = Vec::new();
    for kv in found.kvs {
        let value: Value = serde_json::from_slice(&kv.value).map_err(Status::internal)?;
        quotas.push(Quota {
            hard: amounts(&value["spec"]["hard"]),
            counted: amounts(&value["status"]["hard"]),
            used: amounts(&value["status"]["used"]),
            key: kv.key,
            revision: kv.mod_revision.0,
            value,
            changed: false,
        });
    }
    let verdicts: Vec<Outcome<()>> = batch.iter().map(|waiting| admit(waiting, &mut quotas)).collect();
    let changed: Vec<&Quota> = quotas.iter().filter(|quota| quota.changed).collect();
    if changed.is_empty() {
        return Ok(Some((period, verdicts)));
    }
    let mut txn = Txn { compare: vec![Compare::unchanged(period_key(namespace), Revision(period))], ..Txn::default() };
    for quota in changed {
        txn.compare.push(Compare::unchanged(quota.key.clone(), Revision(quota.revision)));
        let mut value = quota.value.clone();
        value["status"]["used"] = written(&quota.used);
        let bytes = serde_json::to_vec(&value).map_err(Status::internal)?;
        txn.success.push(Op::put(quota.key.clone(), bytes));
    }
    let reply = store.txn(txn).await.map_err(store_failure)?;
    Ok(reply.succeeded.then_some((period, verdicts)))
}

pub(super) fn written(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect::<Map<_, _>>().into()
}

/// Takes the room in all quotas, or in none.
fn admit(waiting: &Waiting, quotas: &mut [Quota]) -> Outcome<()> {
    let refuse = |why: String| Err(Box::new(Status::forbidden(&waiting.kind.resource(), &waiting.name, &why)));
    let usage = of(waiting.kind, &waiting.new);
    let before = waiting.old.as_ref().map(|old| of(waiting.kind, old)).unwrap_or_default();
    let mut takes: Vec<(usize, Amounts)> = Vec::new();
    for (at, quota) in quotas.iter().enumerate() {
        if !in_scope(&quota.value, waiting.kind, &waiting.new) {
            continue;
        }
        let name = str_at(&quota.value, "metadata.name");
        if waiting.old.is_none()
            && let Some(unsaid) = unsaid(waiting.kind, &waiting.new, &quota.hard)
        {
            return refuse(format!("failed quota: {name}: must specify {unsaid}"));
        }
        let mut delta = measured(&usage, &quota.hard);
        for (resource, amount) in &mut delta {
            *amount -= before.get(resource).copied().unwrap_or(Quantity::ZERO);
        }
        delta.retain(|_, amount| !amount.is_zero() && !amount.is_negative());
        if delta.is_empty() {
            continue;
        }
        let unknown: Vec<&str> =
            delta.keys().filter(|key| !quota.counted.contains_key(*key)).map(String::as_str).collect();
        if !unknown.is_empty() {
            return refuse(format!("status unknown for quota: {name}, resources: {}", unknown.join(",")));
        }
        let mut after = quota.used.clone();
        add(&mut after, &delta);
        let over: Vec<&String> = delta.keys().filter(|key| after.get(*key) > quota.hard.get(*key)).collect();
        if !over.is_empty() {
            return refuse(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                listed(&delta, &over),
                listed(&quota.used, &over),
                listed(&quota.hard, &over)
            ));
        }
        takes.push((at, delta));
    }
    if !waiting.dry_run {
        for (at, delta) in takes {
            add(&mut quotas[at].used, &delta);
            quotas[at].changed = true;
        }
    }
    Ok(())
}
