//! Which priority level and flow a request belongs to: Kubernetes' suggested flow schemas, as code. Decides nothing else.

use crate::auth::UserInfo;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelName {
    Exempt,
    System,
    NodeHigh,
    LeaderElection,
    WorkloadHigh,
    WorkloadLow,
    GlobalDefault,
    CatchAll,
}

impl LevelName {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::System => "system",
            Self::NodeHigh => "node-high",
            Self::LeaderElection => "leader-election",
            Self::WorkloadHigh => "workload-high",
            Self::WorkloadLow => "workload-low",
            Self::GlobalDefault => "global-default",
            Self::CatchAll => "catch-all",
        }
    }
}

/// What classification reads.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub user: &'a UserInfo,
    pub group: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    /// A health probe or another path outside the API's resources.
    pub path: Option<&'a str>,
}

/// The level, and the number of the flow inside it (user or namespace).
pub fn classify(request: &Request) -> (LevelName, u64) {
    let user = request.user;
    let health = request.path.is_some_and(|path| ["/healthz", "/livez", "/readyz"].iter().any(|p| path.starts_with(p)));
    if health || user.in_group("system:masters") {
        return (LevelName::Exempt, 0);
    }
    let is_node = user.in_group("system:nodes");
    let lease = request.group == "coordination.k8s.io";
    let controller = matches!(user.username.as_str(), "system:kube-scheduler" | "system:kube-controller-manager");
    let service_account = user.in_group("system:serviceaccounts");
    let system_namespace = request.namespace == "kube-system";
    let (level, by_namespace) = match () {
        () if is_node && (lease || request.resource == "nodes") => (LevelName::NodeHigh, false),
        () if is_node => (LevelName::System, false),
        () if lease && (controller || (service_account && system_namespace)) => (LevelName::LeaderElection, false),
        () if controller => (LevelName::WorkloadHigh, true),
        () if user.in_group("system:serviceaccounts:kube-system") => (LevelName::WorkloadHigh, true),
        () if service_account => (LevelName::WorkloadLow, false),
        () if user.in_group("system:authenticated") => (LevelName::GlobalDefault, false),
        () => (LevelName::CatchAll, false),
    };
    let mut hasher = DefaultHasher::new();
    user.username.hash(&mut hasher);
    if by_namespace {
        request.namespace.hash(&mut hasher);
    }
    (level, hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_find_their_level() {
        let check = |user: &str, groups: &[&str], group: &str, resource: &str, expect: LevelName| {
            let user = UserInfo::new(user, groups);
            let request = Request { user: &user, group, resource, namespace: "kube-system", path: None };
            assert_eq!(classify(&request).0, expect, "{user:?} {resource}");
        };
        check("root", &["system:masters"], "", "pods", LevelName::Exempt);
        check("system:node:a", &["system:nodes"], "coordination.k8s.io", "leases", LevelName::NodeHigh);
        check("system:node:a", &["system:nodes"], "", "nodes", LevelName::NodeHigh);
        check("system:node:a", &["system:nodes"], "", "pods", LevelName::System);
        check("system:kube-scheduler", &[], "coordination.k8s.io", "leases", LevelName::LeaderElection);
        check("system:kube-scheduler", &[], "", "pods", LevelName::WorkloadHigh);
        check("system:serviceaccount:a:b", &["system:serviceaccounts"], "", "pods", LevelName::WorkloadLow);
        check("jane", &[], "", "pods", LevelName::GlobalDefault);
    }
}
