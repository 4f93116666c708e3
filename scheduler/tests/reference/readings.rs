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

/// Is the room that a machine may lend to batch, and has not lent yet, free for the zone's reserve?
pub const ZONE_FREE_COUNTS_LENT: bool = true;

/// Must the zone keep its reserve, too, when a pod makes room for itself by preemption?
pub const PREEMPTION_KEEPS_THE_RESERVE: bool = true;
