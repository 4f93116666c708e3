//! Reasons that other pods are, and pods that do not wait for this scheduler at all.

use crate::asking::{explain, labelled, placed, pod, told, waits, wants};
use anyhow::ensure;
use gantry_conformance::rehearsal::{PATIENCE, Rehearsal};
use gantry_conformance::{Kubectl, wait_for};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Affinity of this kind to pods with a label.
fn rule(kind: &str, app: &str) -> String {
    let term = format!("labelSelector: {{matchLabels: {{app: {app}}}}}, topologyKey: {ZONE}");
    format!("affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{term}}}]}}}}")
}

pub fn pods_to_be_apart_from(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("apart", |kubectl| {
        let spec = rule("podAntiAffinity", "a");
        for name in ["first", "second"] {
            kubectl.apply(&labelled(name, "app: a", &spec))?;
            placed(kubectl, name)?;
        }
        kubectl.apply(&labelled("third", "app: a", &spec))?;
        told(kubectl, "third")?;
        explain(r, "apart", "third", &[])?.has(&[
            "no machine of 6 takes it: 6 with pods that its anti-affinity avoids\n",
            "PodAffinity  6 ",
            "hollow-00000  with pods that its anti-affinity avoids\n",
        ])
    })
}

pub fn pods_to_be_near_to_do_not_exist(r: &Rehearsal) -> anyhow::Result<()> {
    let words = ["no machine of 6 takes it: 6 without the pods that its affinity asks for\n"];
    waits(r, "near", &rule("podAffinity", "nobody"), &words)
}

fn spread(key: &str, more: &str) -> String {
    format!(
        "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: DoNotSchedule, \
         labelSelector: {{matchLabels: {{app: s}}}}{more}}}]"
    )
}

pub fn spread_would_be_too_uneven(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("spread", |kubectl| {
        let spec = format!("nodeSelector: {{{ZONE}: zone-1}}, {}", spread(ZONE, ", nodeAffinityPolicy: Ignore"));
        kubectl.apply(&labelled("first", "app: s", &spec))?;
        placed(kubectl, "first")?;
        kubectl.apply(&labelled("second", "app: s", &spec))?;
        told(kubectl, "second")?;
        explain(r, "spread", "second", &[])?.has(&[
            "3 where topology spread over topology.kubernetes.io/zone would be too uneven",
            "NodeAffinity  3 ",
            "Spread        3 ",
        ])
    })
}

pub fn no_machine_has_the_key_of_the_spread(r: &Rehearsal) -> anyhow::Result<()> {
    waits(r, "row", &spread("acme.io/row", ""), &["6 without label acme.io/row that topology spread needs\n"])
}

pub fn a_claim(r: &Rehearsal) -> anyhow::Result<()> {
    let spec = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]";
    waits(r, "claim", spec, &["6 that cannot mount PersistentVolumeClaim data: it does not exist\n", "Claims  6 "])
}

/// A PodGroup and pods of it.
fn gang(kubectl: &Kubectl, needs: usize, pods: usize, spec: &str) -> anyhow::Result<()> {
    kubectl.apply(&format!(
        "{{apiVersion: gantry.dev/v1, kind: PodGroup, metadata: {{name: g}}, spec: {{minMember: {needs}}}}}"
    ))?;
    let member = |n| labelled(&format!("g-{n}"), "gantry.dev/pod-group: g", spec);
    kubectl.apply(&(0..pods).map(member).collect::<Vec<_>>().join("---\n"))?;
    wait_for("the last word on the group", PATIENCE, || {
        // Whoever came last knows how many there are.
        let message = told(kubectl, &format!("g-{}", pods - 1))?;
        let is_last = if pods < needs {
            message.contains(&format!("{pods} of the {needs}"))
        } else {
            message.contains("at once")
        };
        ensure!(is_last, "{message}");
        Ok(())
    })
}

pub fn a_gang_that_is_incomplete(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("few", |kubectl| {
        gang(kubectl, 3, 2, &wants("cpu: 1"))?;
        explain(r, "few", "g-0", &[])?.has(&[
            "waits: its group g starts with 3 pods at once, and 2 of them exist\n",
            "Group:      g needs 3 at once; 2 exist, 0 have a machine, 2 of the other 2 would find a place now\n",
            "Queue:      it sleeps until its group is complete",
        ])
    })
}

pub fn a_gang_that_is_too_large(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("many", |kubectl| {
        gang(kubectl, 7, 7, &wants("cpu: 6"))?;
        explain(r, "many", "g-0", &[])?.has(&[
            "waits: its group g starts with 7 pods at once, and there is room for 6 of them; the next would not fit: 6 short of cpu\n",
            "Group:      g needs 7 at once; 7 exist, 0 have a machine, 6 of the other 7 would find a place now\n",
        ])
    })
}

/// What the scheduler itself answers, without what the program knows by itself.
fn answer(kubectl: &Kubectl, name: &str) -> anyhow::Result<String> {
    let question = format!(
        "{{apiVersion: gantry.dev/v1, kind: PlacementReview, metadata: {{name: {name}}}, spec: {{podName: {name}}}}}"
    );
    kubectl.apply(&question)?;
    wait_for("an answer", PATIENCE, || {
        let message = kubectl.path(&["placementreview", name], ".status.message")?;
        ensure!(!message.is_empty(), "none yet");
        Ok(message)
    })
}

pub fn gates(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("gates", |kubectl| {
        kubectl.apply(&pod("p", "schedulingGates: [{name: acme.io/quota}, {name: acme.io/paid}]"))?;
        let words = "pod gates/p is held back by its scheduling gates acme.io/quota, acme.io/paid: ";
        explain(r, "gates", "p", &[])?.has(&[words])?;
        let message = answer(kubectl, "p")?;
        ensure!(message.starts_with(words), "{message}");
        Ok(())
    })
}

pub fn another_scheduler(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("theirs", |kubectl| {
        kubectl.apply(&pod("p", "schedulerName: theirs"))?;
        let words = "pod theirs/p is left to the scheduler theirs, which its schedulerName asks for; this one is default-scheduler";
        wait_for("the scheduler to know the pod", PATIENCE, || explain(r, "theirs", "p", &[])?.has(&[words]))
    })
}

pub fn one_that_has_its_machine(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("placed", |kubectl| {
        kubectl.apply(&pod("p", &wants("cpu: 1")))?;
        let node = placed(kubectl, "p")?;
        explain(r, "placed", "p", &[])?.has(&["pod placed/p has its machine since 20", &format!(": {node}\n")])?;
        let message = answer(kubectl, "p")?;
        ensure!(message == format!("pod placed/p has its machine: {node}"), "{message}");
        Ok(())
    })
}

pub fn one_that_does_not_exist(r: &Rehearsal) -> anyhow::Result<()> {
    let mut command = r.gantry(&["explain", "pod/nobody", "-n", "default"])?;
    let said = crate::asking::run(command.arg("--kubeconfig").arg(crate::asking::admin(r)), "")?;
    ensure!(said.code == 1 && said.err.contains("pods \"nobody\" not found"), "{}: {}", said.code, said.err);
    let mut command = r.gantry(&["explain", "deployment", "web"])?;
    let said = crate::asking::run(command.arg("--kubeconfig").arg(crate::asking::admin(r)), "")?;
    ensure!(said.code == 2 && said.err.contains("only pods are explained"), "{}: {}", said.code, said.err);
    Ok(())
}
