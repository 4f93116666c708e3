//! The verbs on stored objects. Each file decides one verb; none knows HTTP beyond the query.

pub mod call;
pub mod commit;
pub mod create;
pub mod decode;
pub mod delete;
pub mod get;
pub mod list;
mod list_body;
pub mod meta;
pub mod output;
pub mod ownership;
pub mod patch;
mod report;
pub mod stored;
pub mod update;
pub mod watch;
