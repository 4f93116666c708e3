//! Reasons of room: too little is free, it is kept for others, or those that hold it must end first.

use crate::asking::{explain, placed, pod, told, wants};
use anyhow::ensure;
use gantry_conformance::rehearsal::{PATIENCE, Rehearsal};
use gantry_conformance::{Kubectl, wait_for};
use rustix::process::Signal;

/// A PriorityClass for one case.
fn with_class(r: &Rehearsal, class: &str, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    r.kubectl.apply(&format!("{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, {class}}}"))?;
    let result = body();
    r.kubectl.ok(&["delete", "priorityclass", "explained"])?;
    result
}

/// Every machine is taken but for a CPU.
fn fill(kubectl: &Kubectl) -> anyhow::Result<()> {
    fill_with(kubectl, |pod| pod)
}

fn fill_with(kubectl: &Kubectl, change: impl Fn(String) -> String) -> anyhow::Result<()> {
    let all: Vec<String> = (0..6).map(|n| change(pod(&format!("filler-{n}"), &wants("cpu: 7")))).collect();
    kubectl.apply(&all.join("---\n"))?;
    (0..6).try_for_each(|n| placed(kubectl, &format!("filler-{n}")).map(drop))
}

/// Nothing is taken any more.
fn clear(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.ok(&["delete", "pods", "--all", "--timeout=60s"]).map(drop)
}

pub fn short_of_cpu(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("cpu", |kubectl| {
        let on = "nodeSelector: {kubernetes.io/hostname: hollow-00000}";
        kubectl.apply(&pod("small", &format!("{on}, {}", wants("cpu: 1500m"))))?;
        placed(kubectl, "small")?;
        kubectl.apply(&pod("large", &wants("cpu: 9, memory: 1Gi")))?;
        let condition = told(kubectl, "large")?;
        ensure!(condition.contains("6 short of cpu: wants 9, 7.9 free at most, on hollow-0000"), "{condition}");
        let said = explain(r, "cpu", "large", &[])?;
        let near = |n: usize| format!("hollow-0000{n}  short of cpu: wants 9, 7.9 free (1.1 more)\n");
        said.has(&["pod cpu/large waits: no machine of 6 takes it: 6 short of cpu\n"])?;
        said.has(&["ResourcesFit  6        6 short of cpu\n", &near(1), &near(2), &near(3)])?;
        ensure!(!said.out.contains("hollow-00000"), "it has less than the others:\n{}", said.out);
        said.has(&["Queue:      it sleeps until something happens that could help", "Team:       cpu has "])?;
        let json = explain(r, "cpu", "large", &["-o", "json"])?.json()?;
        let (about, result) = (&json["about"], &json["result"]);
        ensure!(about == "pod cpu/large" && result["machines"] == 6 && result["feasible"] == 0, "{json}");
        ensure!(explain(r, "cpu", "large", &["-o", "yaml"])?.out.contains("verdict: "));
        let left = kubectl.path(&["placementreviews"], ".items")?;
        ensure!(left == "[]", "questions stay: {left}");
        clear(kubectl)
    })
}

pub fn the_reserve_of_a_zone(r: &Rehearsal) -> anyhow::Result<()> {
    let class = "metadata: {name: explained, labels: {gantry.dev/band: batch}}, value: 10";
    with_class(r, class, || {
        r.kubectl.with_namespace("reserve", |kubectl| {
            let whole = kubectl.path(&["node", "hollow-00000"], ".status.allocatable.cpu")?;
            let batch = |n: usize| {
                pod(&format!("b-{n}"), &format!("priorityClassName: explained, {}", wants(&format!("cpu: {whole}"))))
            };
            // Two of three machines in each zone; the third one's room is more than 99 % of what is left.
            kubectl.apply(&(0..4).map(batch).collect::<Vec<_>>().join("---\n"))?;
            (0..4).try_for_each(|n| placed(kubectl, &format!("b-{n}")).map(drop))?;
            kubectl.apply(&batch(4))?;
            told(kubectl, "b-4")?;
            explain(r, "reserve", "b-4", &[])?.has(&[
                "4 short of cpu; 2 in a zone whose last 1 % of cpu is kept for production\n",
                "ZoneReserve   2 ",
                "  in a zone whose last 1 % of cpu is kept for production\n",
                "band batch, priority 10",
            ])?;
            clear(kubectl)
        })
    })
}

pub fn nobody_of_lower_priority(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("equals", |kubectl| {
        fill(kubectl)?;
        kubectl.apply(&pod("p", &wants("cpu: 2")))?;
        told(kubectl, "p")?;
        explain(r, "equals", "p", &[])?.has(&[
            "6 short of cpu\n",
            "short of cpu: wants 2, 0.9 free (1.1 more)\n",
            "Preemption: would not help: no pod that has a machine is of a lower priority\n",
            "priority 0",
        ])?;
        clear(kubectl)
    })
}

pub fn its_policy_is_never(r: &Rehearsal) -> anyhow::Result<()> {
    with_class(r, "metadata: {name: explained}, value: 1000, preemptionPolicy: Never", || {
        r.kubectl.with_namespace("never", |kubectl| {
            fill(kubectl)?;
            kubectl.apply(&pod("p", &format!("priorityClassName: explained, {}", wants("cpu: 2"))))?;
            told(kubectl, "p")?;
            let words = ["Preemption: would not help: its preemptionPolicy is Never\n", "priority 1000"];
            explain(r, "never", "p", &[])?.has(&words)?;
            clear(kubectl)
        })
    })
}

pub fn those_that_make_way_still_end(r: &Rehearsal) -> anyhow::Result<()> {
    with_class(r, "metadata: {name: explained}, value: 1000", || {
        r.kubectl.with_namespace("room", |kubectl| {
            let grace = "terminationGracePeriodSeconds: ";
            fill_with(kubectl, |pod| pod.replace(&format!("{grace}0"), &format!("{grace}5")))?;
            // Machines that stand still end nobody.
            r.signal("machines", Signal::STOP)?;
            let result = waits_for_victims(r, kubectl);
            r.signal("machines", Signal::CONT)?;
            result?;
            placed(kubectl, "p")?;
            clear(kubectl)
        })
    })
}

fn waits_for_victims(r: &Rehearsal, kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.apply(&pod("p", &format!("priorityClassName: explained, {}", wants("cpu: 2"))))?;
    wait_for("a nomination", PATIENCE, || {
        let node = kubectl.path(&["pod", "p"], ".status.nominatedNodeName")?;
        ensure!(!node.is_empty(), "none yet");
        Ok(())
    })?;
    let said = explain(r, "room", "p", &[])?;
    said.has(&["waits: pod filler-", " must end first, to make way for it\n", "Preemption: under way"])
}
