//! Field ownership on the write path. Decides which writes are tracked; how ownership is computed is `apimachinery::patch::apply`.

use super::call::Call;
use crate::auth::UserInfo;
use crate::http::Outcome;
use crate::kinds::value::object_mut;
use gantry_apimachinery::kinds::{Kind, StoreGroup};
use gantry_apimachinery::patch::apply::{Writer, merge, merge_upgrading, track_update};
use serde_json::Value;

/// The manager that `kubectl apply --server-side` names itself.
const KUBECTL: &str = "kubectl";

/// The top-level fields that a write through this door neither changes nor owns.
fn ignored(kind: &Kind, subresource: Option<&str>) -> &'static [&'static str] {
    match subresource {
        Some("status") => &["spec", "data", "stringData", "type"],
        _ if kind.has_status() => &["status"],
        _ => &[],
    }
}

fn writer<'a>(call: &'a Call<'_>) -> Writer<'a> {
    Writer {
        manager: &call.options.field_manager,
        subresource: call.subresource.unwrap_or(""),
        now: call.now,
        ignored: ignored(call.kind(), call.subresource),
    }
}

/// Gantry's own agents report at a high rate what nobody else writes: their status and lease writes keep the recorded owners.
pub fn is_agent_report(call: &Call<'_>) -> bool {
    let agent = |user: &UserInfo| {
        user.in_group("system:nodes")
            || matches!(user.username.as_str(), "system:kube-scheduler" | "system:kube-controller-manager")
    };
    (call.subresource == Some("status") || call.kind().store != StoreGroup::State) && agent(call.user)
}

/// Records who owns which field after a create or an update. A server-side apply has done so itself.
pub fn track(call: &Call<'_>, old: Option<&Value>, new: &mut Value) {
    if call.options.apply {
        return;
    }
    if is_agent_report(call) {
        if let Some(kept) = old.and_then(|old| old["metadata"].get("managedFields"))
            && new["metadata"].get("managedFields") != Some(kept)
        {
            new["metadata"]["managedFields"] = kept.clone();
        }
        return;
    }
    track_update(old, new, call.served.schema(), &writer(call));
}

/// The live object (`None`: there is none) after an apply.
pub fn apply(call: &Call<'_>, live: Option<&Value>, applied: &Value) -> Outcome<Value> {
    let mut applied = applied.clone();
    let metadata = &mut applied["metadata"];
    object_mut(metadata);
    if metadata.get("name").is_none() {
        metadata["name"] = call.name.into();
    }
    if call.kind().namespaced && metadata.get("namespace").is_none() {
        metadata["namespace"] = call.namespace.into();
    }
    // The version is a precondition of the write, not a field that the manager owns.
    let version = metadata.as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
    // Fields belong to managers as the request's version names them.
    let live = live.map(|live| call.served.to_wire(live.clone()));
    let (ty, writer) = (call.wire_type(), writer(call));
    let merged = match call.options.force {
        false if writer.manager == KUBECTL => merge_upgrading(live.as_ref(), &applied, ty, &writer),
        force => merge(live.as_ref(), &applied, ty, &writer, force),
    };
    let merged = merged.map_err(gantry_apimachinery::status::Status::from)?;
    let mut merged = call.served.from_wire(merged);
    if let Some(version) = version {
        merged["metadata"]["resourceVersion"] = version;
    }
    Ok(merged)
}
