//! Nothing is created in a namespace that is not there or is going away. Decides that inside the create's own transaction, so that
//! a namespace's end cannot race a create.

use super::Effects;
use crate::http::Outcome;
use crate::kinds::value::at;
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{NAMESPACE, StoreGroup};
use gantry_apimachinery::status::{Cause, Status};
use gantry_store::{Compare, Revision};

pub async fn must_live(call: &Call<'_>, attempt: u32, effects: &mut Effects) -> Outcome<()> {
    if !call.kind().namespaced {
        return Ok(());
    }
    let cached = if attempt == 0 { call.core.cached(&NAMESPACE, "", call.namespace) } else { None };
    let (revision, deleting) = match cached.filter(|namespace| !namespace.deleting) {
        Some(namespace) => (namespace.revision, false),
        None => match call.core.live(&NAMESPACE, "", call.namespace).await? {
            Some(stored) => (stored.revision, at(&stored.value, "metadata.deletionTimestamp").is_some()),
            None => return Err(Status::not_found("namespaces", call.namespace).into()),
        },
    };
    if deleting {
        return Err(terminating(call).into());
    }
    // Leases and Events live in other stores: for them the check above is all there is, and they expire or are swept.
    if call.kind().store == StoreGroup::State {
        effects.compare.push(Compare::unchanged(NAMESPACE.key("", call.namespace), Revision(revision)));
    }
    Ok(())
}

fn terminating(call: &Call<'_>) -> Status {
    let namespace = call.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&call.kind().resource(), call.name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
