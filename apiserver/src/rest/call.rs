//! One request to a resource, as its verb's code sees it. Decides how write options are read; never what a verb does.

use super::stored::Stored;
use crate::audit::Record;
use crate::auth::UserInfo;
use crate::core::{Core, store_failure};
use crate::http::{Outcome, Query};
use crate::kinds::Ctx;
use crate::served::Served;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use gantry_store::RangeRequest;
use parking_lot::Mutex;
use std::sync::Arc;

/// What happens with unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options that writes share.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    /// Server-side apply takes fields over from other managers.
    pub force: bool,
    /// This is a server-side apply: it keeps its own record of owners.
    pub apply: bool,
}

impl WriteOptions {
    /// `agent`: the `User-Agent` header; its first part names the manager when the client does not.
    pub fn read(query: &Query, agent: &str) -> Outcome<Self> {
        let bad = |what: &str, value: &str, allowed: &str| {
            Status::bad_request(format!("{what}: Unsupported value: {value:?}: supported values: {allowed}"))
        };
        let mut dry_run = false;
        for value in query.all("dryRun").filter(|value| !value.is_empty()) {
            if value != "All" {
                return Err(bad("dryRun", value, "\"All\"").into());
            }
            dry_run = true;
        }
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => return Err(bad("fieldValidation", other, "\"Ignore\", \"Strict\", \"Warn\"").into()),
        };
        let manager = query.get("fieldManager").unwrap_or_else(|| agent.split('/').next().unwrap_or(""));
        if manager.len() > 128 || manager.chars().any(char::is_control) {
            return Err(Status::bad_request("fieldManager: must be at most 128 printable characters").into());
        }
        let field_manager = if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() };
        Ok(Self { dry_run, field_manager, field_validation, force: query.flag("force"), apply: false })
    }
}

pub struct Call<'a> {
    pub core: &'a Core,
    pub served: &'a Arc<Served>,
    pub namespace: &'a str,
    pub name: &'a str,
    pub subresource: Option<&'a str>,
    pub user: &'a UserInfo,
    pub options: WriteOptions,
    pub now: Timestamp,
    pub entropy: u64,
    /// Texts for the `Warning` header.
    pub warnings: Mutex<Vec<String>>,
    /// What the audit log tells of the request.
    pub audit: Option<&'a Record>,
}

impl Call<'_> {
    /// The kind as the request names it.
    pub fn kind(&self) -> &'static Kind {
        self.served.kind
    }

    /// The store key of an object of that name.
    pub fn key(&self, name: &str) -> String {
        self.served.resource.kind.key(self.namespace, name)
    }

    /// The object as the store has it now, in its stored form.
    pub async fn live(&self) -> Outcome<Option<Stored>> {
        let key = self.key(self.name);
        let reply = self.served.group.store.range(RangeRequest::key(key)).await.map_err(store_failure)?;
        reply.kvs.into_iter().next().map(|kv| Stored::read(kv.value, kv.mod_revision.0)).transpose()
    }

    pub fn ctx(&self) -> Ctx<'_> {
        Ctx {
            now: self.now,
            user: self.user,
            subresource: self.subresource,
            entropy: self.entropy,
            dry_run: self.options.dry_run,
        }
    }

    pub fn warn(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(texts);
    }

    /// Adds to what the audit log tells.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        if let Some(record) = self.audit {
            record.annotate(key, value);
        }
    }

    pub fn path(&self, name: &str) -> String {
        if self.kind().namespaced { format!("{}/{name}", self.namespace) } else { name.to_owned() }
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.kind().resource(), self.name)
    }

    /// Another call on the same resource for one object of it, as a collection's delete makes.
    pub fn on<'b>(&'b self, namespace: &'b str, name: &'b str) -> Call<'b> {
        Call {
            core: self.core,
            served: self.served,
            namespace,
            name,
            subresource: self.subresource,
            user: self.user,
            options: self.options.clone(),
            now: self.now,
            entropy: self.entropy,
            warnings: Mutex::default(),
            audit: self.audit,
        }
    }
}
