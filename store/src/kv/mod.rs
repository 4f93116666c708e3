//! The key-value service: a `Store` offered over gRPC, and a `Store` that uses one. It only translates.

mod convert;
mod remote;
mod service;

pub use remote::RemoteStore;
pub use service::KvService;
