//! Server-side apply, and the ownership of fields that every write tracks in `metadata.managedFields`.
//!
//! It decides the merged object, who owns which field afterwards, and which fields conflict. It never validates the result
//! and never talks to a store. Rules: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>.

mod at;
mod diff;
mod field_set;
mod managed;
mod merging;
#[cfg(test)]
mod tests;

pub use field_set::{FieldSet, FieldSetError, Step};

use crate::schema::Type;
use crate::status::{Cause, Details, Reason, Status};
use crate::time::Timestamp;
use at::At;
use managed::{Operation, WriterId};
use serde_json::Value;
use std::fmt;

/// Who writes, through which door.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Top-level fields that this door does not write (`status` through the object, `spec` through its status): they are
    /// neither changed nor owned.
    pub ignored: &'a [&'a str],
}

/// A field that the applied object sets to another value than its owner did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as messages name it: `"kubectl-client-side-apply" using apps/v1`.
    pub owner: String,
    /// `.spec.replicas`
    pub path: String,
}

/// Why an object could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields. The client forces, or gives the fields up.
    Conflicts(Vec<Conflict>),
    /// The applied object cannot be merged. The request is at fault.
    Invalid(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => f.write_str(what),
            Self::Conflicts(conflicts) => match conflicts.as_slice() {
                [one] => write!(f, "Apply failed with 1 conflict: conflict with {}: {}", one.owner, one.path),
                all => {
                    write!(f, "Apply failed with {} conflicts: ", all.len())?;
                    let mut owner = None;
                    for c in all {
                        if owner != Some(&c.owner) {
                            let separator = if owner.is_some() { "\n" } else { "" };
                            write!(f, "{separator}conflicts with {}:", c.owner)?;
                            owner = Some(&c.owner);
                        }
                        write!(f, "\n- {}", c.path)?;
                    }
                    Ok(())
                }
            },
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Status {
        let message = error.to_string();
        let ApplyError::Conflicts(conflicts) = error else { return Status::bad_request(message) };
        let cause = |c: Conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", c.owner),
            field: c.path,
        };
        let causes = conflicts.into_iter().map(cause).collect();
        Status::failure(Reason::Conflict, message, Some(Details { causes, ..Details::default() }))
    }
}

/// Applies `applied` to `live` (`None` creates) on behalf of `writer`.
///
/// The result carries the new `managedFields`; it is `live` itself, times included, when nothing changed. With `force`,
/// fields owned by others change hands; without it they are conflicts, unless their value is already the applied one: then
/// both own them.
pub fn merge(
    live: Option<&Value>,
    applied: &Value,
    ty: Type<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    if applied["metadata"].get("managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApplyError::Invalid("metadata.managedFields must be nil".to_owned()));
    }
    let at = At::root(ty);
    let applied = managed::without(applied, writer.ignored);
    merging::check_lists(&applied, at, &mut String::new()).map_err(ApplyError::Invalid)?;

    let mut managers = managed::of_apply(live, &applied);
    if let Some(live) = live
        && managers.is_empty()
    {
        managers.adopt_all(live, at);
    }
    let id = WriterId::new(writer, Operation::Apply, &applied);
    let owned = FieldSet::of(&applied, at);
    let given_up = managers.fields(&id);

    let empty = Value::Object(serde_json::Map::new());
    let old = managed::without(live.unwrap_or(&empty), &[]);
    let mut new = merging::merge(&old, &applied, at);
    if let Some(given_up) = given_up {
        let kept = managers.union_without(&id).union(&owned);
        merging::prune(&mut new, given_up, &kept, at);
    }

    if live.is_some() {
        let diff = diff::between(&old, &new, at);
        let conflicts = managers.conflicts(&id, &diff);
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        managers.take_from_others(&id, &diff);
    }
    let unchanged = old == new;
    let same_owners = !managers.set(&id, owned.without_identity(), (!unchanged).then_some(writer.now), writer.now);
    match live {
        Some(live) if unchanged && same_owners => Ok(live.clone()),
        _ => {
            managers.write_to(&mut new);
            Ok(new)
        }
    }
}

/// [`merge`] without force, for `kubectl`, which may come from client-side apply: what the object's last applied configuration
/// (`kubectl.kubernetes.io/last-applied-configuration`) has is its own already, whoever the owner is said to be.
pub fn merge_upgrading(
    live: Option<&Value>,
    applied: &Value,
    ty: Type<'_>,
    writer: &Writer<'_>,
) -> Result<Value, ApplyError> {
    let outcome = merge(live, applied, ty, writer, false);
    let Err(ApplyError::Conflicts(conflicts)) = &outcome else { return outcome };
    let last = live.and_then(|live| live["metadata"]["annotations"][LAST_APPLIED].as_str());
    let Some(last) = last.and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return outcome };
    let own = FieldSet::of(&last, At::root(ty)).paths();
    let others: Vec<Conflict> = conflicts.iter().filter(|conflict| !own.contains(&conflict.path)).cloned().collect();
    if others.is_empty() { merge(live, applied, ty, writer, true) } else { Err(ApplyError::Conflicts(others)) }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether two versions differ at most in when their owners last wrote: such a write is not worth a version.
pub fn equal_but_times(a: &Value, b: &Value) -> bool {
    let (Value::Object(x), Value::Object(y)) = (a, b) else { return a == b };
    // Metadata last: a write that means something differs elsewhere, and that is found for less.
    x.len() == y.len()
        && x.iter().filter(|(name, _)| *name != "metadata").all(|(name, v)| y.get(name) == Some(v))
        && equal_metadata(&a["metadata"], &b["metadata"])
}

fn equal_metadata(a: &Value, b: &Value) -> bool {
    let (Value::Object(x), Value::Object(y)) = (a, b) else { return a == b };
    let timeless = |list: &Value| {
        let mut list = list.as_array().cloned().unwrap_or_default();
        list.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| {
            entry.remove("time");
        });
        // Entries are kept in the order of their times.
        list.sort_by_key(Value::to_string);
        list
    };
    let (mine, others) = (&a["managedFields"], &b["managedFields"]);
    x.len() == y.len()
        && x.iter().filter(|(name, _)| *name != "managedFields").all(|(name, v)| y.get(name) == Some(v))
        && (mine == others || timeless(mine) == timeless(others))
}

/// Records in `new.metadata.managedFields` that `writer` changed `live` (`None`: created it) into `new`.
///
/// A client may edit `managedFields` itself by sending them: those then count instead of `live`'s. `[{}]` forgets all owners.
pub fn track_update(live: Option<&Value>, new: &mut Value, ty: Type<'_>, writer: &Writer<'_>) {
    let at = At::root(ty);
    let mut managers = managed::of_update(live, new, writer);
    let id = WriterId::new(writer, Operation::Update, new);
    if live.is_none() && managers.is_empty() && new["metadata"].get("managedFields").is_none() {
        let owned = FieldSet::json_of_new(new, at, writer.ignored);
        return managed::write_creator(new, &id, owned, writer.now);
    }
    let empty = Value::Object(serde_json::Map::new());
    let old = live.unwrap_or(&empty);
    let mut diff = diff::between(old, new, at);
    diff.ignore(writer.ignored);
    if !diff.is_empty() {
        managers.take_from_others(&id, &diff);
        let before = managers.fields(&id).cloned().unwrap_or_default();
        let owned = before.difference(&diff.removed).union(&diff.changed).without_identity();
        let touched = (!diff.changed.is_empty()).then_some(writer.now);
        managers.set(&id, owned, touched, writer.now);
        managers.cap_updates();
    }
    managers.write_to(new);
}
