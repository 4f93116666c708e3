//! The slim forms of what the scheduler reads: only the fields that a decision looks at. Never interprets them.

use std::collections::BTreeMap;

use gantry_apimachinery::labels::LabelSelector;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Deserializer};

pub type Amounts = BTreeMap<String, Quantity>;

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

macro_rules! projection {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(#[serde(deserialize_with = "nullable")] $(#[$attr])* pub $field: $ty,)*
        }
    )*};
}

macro_rules! object {
    ($($name:ident)*) => {$(
        impl Object for $name {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}

projection! {
    Pod { metadata: ObjectMeta, spec: PodSpec, status: PodStatus, }
    PodSpec {
        node_name: String,
        scheduler_name: String,
        scheduling_gates: Vec<Named>,
        priority: i64,
        priority_class_name: String,
        preemption_policy: String,
        containers: Vec<Container>,
        init_containers: Vec<Container>,
        overhead: Amounts,
        host_network: bool,
        node_selector: BTreeMap<String, String>,
        affinity: Affinity,
        tolerations: Vec<Toleration>,
        topology_spread_constraints: Vec<SpreadConstraint>,
        volumes: Vec<Volume>,
        resources: ContainerResources,
        termination_grace_period_seconds: Option<i64>,
    }
    Volume { name: String, persistent_volume_claim: Option<Claim>, ephemeral: Option<Ephemeral>, }
    Claim { claim_name: String, }
    Ephemeral {}
    PodStatus {
        phase: String,
        conditions: Vec<Condition>,
        nominated_node_name: String,
        start_time: Option<Timestamp>,
        container_statuses: Vec<ContainerStatus>,
        init_container_statuses: Vec<ContainerStatus>,
    }
    ContainerStatus { name: String, allocated_resources: Amounts, resources: ContainerResources, }
    Named { name: String, }
    Condition {
        r#type: String,
        status: String,
        reason: String,
        message: String,
        last_transition_time: Option<Timestamp>,
    }
    Container { name: String, image: String, restart_policy: String, resources: ContainerResources, ports: Vec<ContainerPort>, }
    ContainerResources { requests: Amounts, }
    ContainerPort { host_port: u16, container_port: u16, protocol: String, #[serde(rename = "hostIP")] host_ip: String, }
    Affinity { node_affinity: NodeAffinity, pod_affinity: PodAffinity, pod_anti_affinity: PodAffinity, }
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
        preferred_during_scheduling_ignored_during_execution: Vec<PreferredNodeTerm>,
    }
    NodeSelector { node_selector_terms: Vec<NodeSelectorTerm>, }
    NodeSelectorTerm { match_expressions: Vec<NodeRequirement>, match_fields: Vec<NodeRequirement>, }
    #[derive(Eq, PartialOrd, Ord, Hash)]
    NodeRequirement { key: String, operator: String, values: Vec<String>, }
    PreferredNodeTerm { weight: i64, preference: NodeSelectorTerm, }
    PodAffinity {
        required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
        preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodAffinityTerm>,
    }
    PodAffinityTerm {
        label_selector: Option<LabelSelector>,
        namespaces: Vec<String>,
        namespace_selector: Option<LabelSelector>,
        topology_key: String,
        match_label_keys: Vec<String>,
        mismatch_label_keys: Vec<String>,
    }
    WeightedPodAffinityTerm { weight: i64, pod_affinity_term: PodAffinityTerm, }
    #[derive(Eq, PartialOrd, Ord, Hash)]
    Toleration { key: String, operator: String, value: String, effect: String, }
    SpreadConstraint {
        max_skew: i64,
        topology_key: String,
        when_unsatisfiable: String,
        label_selector: Option<LabelSelector>,
        min_domains: Option<i64>,
        node_affinity_policy: String,
        node_taints_policy: String,
        match_label_keys: Vec<String>,
    }
    Node { metadata: ObjectMeta, spec: NodeSpec, status: NodeStatus, }
    NodeSpec { unschedulable: bool, taints: Vec<Taint>, }
    NodeStatus { allocatable: Amounts, images: Vec<NodeImage>, }
    NodeImage { names: Vec<String>, size_bytes: i64, }
    #[derive(Eq, PartialOrd, Ord, Hash)]
    Taint { key: String, value: String, effect: String, }
    NodeAllocation {
        metadata: ObjectMeta,
        writes: u64,
        bound: u64,
        by: String,
        node_at: u64,
        capacity_at: u64,
    }
    PriorityClass { metadata: ObjectMeta, value: i64, global_default: bool, preemption_policy: String, }
    Namespace { metadata: ObjectMeta, }
    PodGroup { metadata: ObjectMeta, spec: PodGroupSpec, status: PodGroupStatus, }
    PodGroupStatus { phase: String, scheduled: u32, conditions: Vec<Condition>, }
    PodGroupSpec { min_member: u32, schedule_timeout_seconds: Option<u32>, }
    BatchCapacity { metadata: ObjectMeta, spec: BatchCapacitySpec, }
    BatchCapacitySpec { lendable: Amounts, }
    PodDisruptionBudget { metadata: ObjectMeta, spec: BudgetSpec, status: BudgetStatus, }
    PlacementReview { metadata: ObjectMeta, spec: ReviewSpec, status: ReviewStatus, }
    ReviewSpec { pod_name: String, template: Option<PodTemplate>, replicas: i64, }
    ReviewStatus { phase: String, }
    PodTemplate { metadata: ObjectMeta, spec: PodSpec, }
    BudgetSpec { selector: Option<LabelSelector>, }
    BudgetStatus { disruptions_allowed: i64, }
    PersistentVolumeClaim { metadata: ObjectMeta, spec: ClaimSpec, status: Phase, }
    ClaimSpec {
        access_modes: Vec<String>,
        storage_class_name: String,
        volume_mode: String,
        volume_name: String,
        volume_attributes_class_name: String,
        selector: Option<LabelSelector>,
        resources: ContainerResources,
    }
    Phase { phase: String, }
    PersistentVolume { metadata: ObjectMeta, spec: VolumeSpec, status: Phase, }
    VolumeSpec {
        access_modes: Vec<String>,
        capacity: Amounts,
        storage_class_name: String,
        volume_mode: String,
        volume_attributes_class_name: String,
        claim_ref: Option<ClaimRef>,
        csi: Option<CsiSource>,
        node_affinity: VolumeAffinity,
    }
    ClaimRef { namespace: String, name: String, uid: String, }
    CsiSource { driver: String, volume_handle: String, }
    VolumeAffinity { required: Option<NodeSelector>, }
    StorageClass {
        metadata: ObjectMeta,
        provisioner: String,
        volume_binding_mode: String,
        allowed_topologies: Vec<TopologyTerm>,
    }
    TopologyTerm { match_label_expressions: Vec<TopologyRequirement>, }
    TopologyRequirement { key: String, values: Vec<String>, }
    CsiNode { metadata: ObjectMeta, spec: CsiNodeSpec, }
    CsiNodeSpec { drivers: Vec<CsiDriver>, }
    CsiDriver { name: String, allocatable: VolumeCount, }
    VolumeCount { count: Option<i64>, }
}

object! {
    Pod Node NodeAllocation PriorityClass Namespace PodGroup BatchCapacity PodDisruptionBudget PlacementReview
    PersistentVolumeClaim PersistentVolume StorageClass CsiNode
}

impl Pod {
    /// Its containers have ended: it takes no room.
    pub fn is_ended(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.r#type == kind)
    }
}
