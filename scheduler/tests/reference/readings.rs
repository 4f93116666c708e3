//! Where Kubernetes' documents and its scheduler disagree, or Gantry's own text leaves a choice: which reading the
//! reference takes. Each is one constant, so that another decision is one word.

/// A pod with several required affinity terms: does an existing pod have to match all of them before it counts for
/// any? The API reference only says that the terms' machines are intersected; kube-scheduler counts it when all match.
pub const AFFINITY_COUNTS_PODS_THAT_MATCH_ALL_TERMS: bool = true;

/// The first pod of a group that wants to be near itself may start anywhere while nobody matches. Does a matching pod
/// on a machine without any of the topology keys end that? By the documents any other pod in the cluster does;
/// kube-scheduler counts pods by topology domain and so does not see such a pod.
pub const FIRST_POD_IGNORES_PODS_OUTSIDE_THE_TOPOLOGY: bool = true;

/// A spread constraint with the selector `{}`. "An empty label selector matches all objects", but kube-scheduler counts
/// nobody for it (the incoming pod still counts itself).
pub const EMPTY_SPREAD_SELECTOR_COUNTS_NOBODY: bool = true;

/// A disruption budget with the selector `{}` covers its whole namespace, as policy/v1 says. (kube-scheduler's victim
/// choice passes over such budgets.)
pub const EMPTY_BUDGET_SELECTOR_COVERS_ALL: bool = true;

/// Does a cordoned machine's allocatable count in the zone's total of which 1 % is kept from batch? Its free room does
/// not count in any case.
pub const ZONE_TOTAL_COUNTS_CORDONED: bool = false;

/// Container resources in a status beyond `allocatedResources`: what is actuated, and that an infeasible resize does
/// not count, which kube-scheduler both honours. Gantry compares the request with `allocatedResources` only.
pub const RESIZE_READS_ONLY_ALLOCATED: bool = true;
