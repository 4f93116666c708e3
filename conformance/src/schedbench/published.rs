//! The rows that kube-scheduler publishes floors for: how many machines and pods, and below which rate its own benchmark fails.
//! Pure.
//!
//! Counts and floors: kubernetes/kubernetes, `test/integration/scheduler_perf/{misc,affinity,topology_spreading}/performance-config.yaml`.

use super::shapes::{Machine, Pod};

/// What comes and goes while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Churn {
    None,
    /// Five pods a second that must end others.
    Preemptors,
    /// Once a second a machine, a Service and a pod that fits nowhere go and come again.
    Mixed,
}

pub struct Shape {
    /// What `--only` matches.
    pub name: &'static str,
    /// As the suite calls it.
    pub published: &'static str,
    /// Pods a second; the suite may have none.
    pub floor: Option<f64>,
    /// So many times the floor is ours to reach.
    pub goal: f64,
    pub machines: &'static [(u64, Machine)],
    /// Machines take turns in them.
    pub zones: &'static [&'static str],
    /// Namespaces that the pods before are spread over.
    pub namespaces: u64,
    /// Pods that are bound before the measurement.
    pub before: &'static [(u64, Pod)],
    pub measured: (u64, Pod),
    pub churn: Churn,
}

const PLAIN: Shape = Shape {
    name: "",
    published: "",
    floor: None,
    goal: 1.0,
    machines: &[(5_000, Machine::Plain)],
    zones: &[],
    namespaces: 1,
    before: &[],
    measured: (0, Pod::Plain),
    churn: Churn::None,
};
const BASIC: f64 = 3.0;
const RULES: f64 = 10.0;
const ONE_ZONE: &[&str] = &["zone1"];
const THREE_ZONES: &[&str] = &["moon-1", "moon-2", "moon-3"];

pub const SHAPES: &[Shape] = &[
    Shape {
        name: "basic-10k",
        published: "SchedulingBasic/5000Nodes_10000Pods",
        floor: Some(680.0),
        goal: BASIC,
        before: &[(1_000, Pod::Plain)],
        measured: (10_000, Pod::Plain),
        ..PLAIN
    },
    Shape {
        name: "basic-50k",
        published: "SchedulingBasic/5000Nodes_50000Pods",
        floor: Some(810.0),
        goal: BASIC,
        before: &[(5_000, Pod::Plain)],
        measured: (50_000, Pod::Plain),
        ..PLAIN
    },
    Shape {
        name: "spread",
        published: "TopologySpreading/5000Nodes_5000Pods",
        floor: Some(460.0),
        goal: RULES,
        zones: THREE_ZONES,
        before: &[(5_000, Pod::Plain)],
        measured: (5_000, Pod::Spread { required: true }),
        ..PLAIN
    },
    Shape {
        name: "preferred-spread",
        published: "PreferredTopologySpreading/5000Nodes_5000Pods",
        floor: Some(340.0),
        goal: RULES,
        zones: THREE_ZONES,
        before: &[(5_000, Pod::Plain)],
        measured: (5_000, Pod::Spread { required: false }),
        ..PLAIN
    },
    Shape {
        name: "affinity",
        published: "SchedulingPodAffinity/5000Nodes_5000Pods",
        floor: Some(35.0),
        goal: RULES,
        zones: ONE_ZONE,
        before: &[(5_000, Pod::Affinity { required: true })],
        measured: (5_000, Pod::Affinity { required: true }),
        ..PLAIN
    },
    Shape {
        name: "preferred-affinity",
        published: "SchedulingPreferredPodAffinity/5000Nodes_5000Pods",
        floor: Some(90.0),
        goal: RULES,
        before: &[(5_000, Pod::Affinity { required: false })],
        measured: (5_000, Pod::Affinity { required: false }),
        ..PLAIN
    },
    Shape {
        name: "anti-affinity",
        published: "SchedulingPodAntiAffinity/5000Nodes_2000Pods",
        floor: Some(60.0),
        goal: RULES,
        before: &[(1_000, Pod::AntiAffinity { required: true })],
        measured: (2_000, Pod::AntiAffinity { required: true }),
        ..PLAIN
    },
    Shape {
        name: "preferred-anti-affinity",
        published: "SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods",
        floor: Some(90.0),
        goal: RULES,
        before: &[(5_000, Pod::AntiAffinity { required: false })],
        measured: (5_000, Pod::AntiAffinity { required: false }),
        ..PLAIN
    },
    Shape {
        name: "across-affinity",
        published: "SchedulingRequiredPodAffinityWithNSSelector/5000Nodes_2000Pods",
        floor: Some(35.0),
        goal: RULES,
        zones: ONE_ZONE,
        namespaces: 100,
        before: &[(5_000, Pod::AffinityAcross)],
        measured: (2_000, Pod::AffinityAcross),
        ..PLAIN
    },
    Shape {
        name: "across-anti-affinity",
        published: "SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods",
        floor: Some(24.0),
        goal: RULES,
        machines: &[(6_000, Machine::Plain)],
        namespaces: 100,
        before: &[(4_000, Pod::AntiAffinityAcross)],
        measured: (2_000, Pod::AntiAffinityAcross),
        ..PLAIN
    },
    Shape {
        name: "mixed-rules",
        published: "MixedSchedulingBasePod/5000Nodes_5000Pods",
        floor: Some(140.0),
        goal: RULES,
        zones: ONE_ZONE,
        before: &[
            (2_000, Pod::Plain),
            (2_000, Pod::Affinity { required: true }),
            (2_000, Pod::AntiAffinity { required: true }),
            (2_000, Pod::Affinity { required: false }),
            (2_000, Pod::AntiAffinity { required: false }),
        ],
        measured: (5_000, Pod::Plain),
        ..PLAIN
    },
    Shape {
        name: "extended-resources",
        published: "SchedulingWithExtendedResource/5000pods_5000nodes",
        floor: Some(180.0),
        machines: &[(5_000, Machine::Extended)],
        measured: (5_000, Pod::Extended),
        ..PLAIN
    },
    Shape {
        name: "preempting",
        published: "PreemptionBasic/1000Nodes",
        machines: &[(1_000, Machine::Plain)],
        before: &[(4_000, Pod::Low)],
        measured: (1_000, Pod::High),
        ..PLAIN
    },
    Shape {
        name: "preemption",
        published: "PreemptionAsync/5000Nodes",
        floor: Some(570.0),
        before: &[(20_000, Pod::Low)],
        measured: (5_000, Pod::Plain),
        churn: Churn::Preemptors,
        ..PLAIN
    },
    Shape {
        name: "mixed-churn",
        published: "SchedulingWithMixedChurn/5000Nodes_10000Pods",
        floor: Some(710.0),
        measured: (10_000, Pod::Plain),
        churn: Churn::Mixed,
        ..PLAIN
    },
    Shape {
        name: "daemonset",
        published: "SchedulingDaemonset/15000Nodes",
        floor: Some(1_100.0),
        machines: &[(15_000, Machine::Plain), (1, Machine::Chosen)],
        measured: (30_000, Pod::OnChosen),
        ..PLAIN
    },
    Shape {
        name: "one-on-each",
        published: "",
        machines: &[(15_000, Machine::Plain)],
        measured: (15_000, Pod::OnEach),
        ..PLAIN
    },
];

/// A share of a count, and never nothing of something.
pub fn scaled(count: u64, scale: f64) -> u64 {
    if count == 0 { 0 } else { ((count as f64 * scale).round() as u64).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_shape_keeps_something_of_everything() {
        assert_eq!([(0, 0.1), (1, 0.1), (5_000, 0.02), (30_000, 1.0)].map(|(n, s)| scaled(n, s)), [0, 1, 100, 30_000]);
    }

    #[test]
    fn names_differ_and_no_rule_is_impossible() {
        for (at, shape) in SHAPES.iter().enumerate() {
            assert!(SHAPES[..at].iter().all(|other| other.name != shape.name), "{}", shape.name);
            let machines: u64 = shape.machines.iter().map(|(count, _)| count).sum();
            let alone = |(count, pod): &(u64, Pod)| match pod {
                Pod::AntiAffinity { required: true } | Pod::AntiAffinityAcross | Pod::Extended | Pod::OnEach => *count,
                _ => 0,
            };
            let apart = shape.before.iter().map(alone).sum::<u64>() + alone(&shape.measured);
            assert!(apart <= machines, "{}: {apart} pods need a machine each", shape.name);
        }
    }
}
