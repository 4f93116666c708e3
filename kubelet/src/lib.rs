//! The node agent: runs the pods that the API binds to this machine, reports them, and keeps them running when the
//! control plane is away. It never decides which pods exist.

pub mod api;
pub mod cgroup;
pub mod pod;
pub mod runtime;
