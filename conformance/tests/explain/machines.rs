//! Reasons that machines themselves are: there are none, they are closed, or they are not of the right kind.

use crate::asking::{explain, placed, pod, told, waits};
use gantry_conformance::Rehearsal;

/// The last case: afterwards there is none for others either.
pub fn there_is_none(r: &Rehearsal) -> anyhow::Result<()> {
    r.kill("machines")?;
    r.kubectl.ok(&["delete", "nodes", "--all"])?;
    waits(r, "nowhere", "", &["waits: there is no machine yet\n", "Preemption: would not help"])
}

pub fn all_are_cordoned(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.ok(&["cordon", "-l", "gantry.dev/machine-class"])?;
    let words = ["no machine of 6 takes it: 6 cordoned\n", "Unschedulable  6        6 cordoned\n", "  cordoned\n"];
    let result = waits(r, "cordoned", "", &words);
    r.kubectl.ok(&["uncordon", "-l", "gantry.dev/machine-class"])?;
    result
}

pub fn none_has_the_label_of_the_selector(r: &Rehearsal) -> anyhow::Result<()> {
    let words = [
        "no machine of 6 takes it: 6 not matching the pod's node selector or affinity\n",
        "NodeAffinity  6 ",
        "hollow-00000  without label disk=ssd, which the pod asks for\n",
        "Preemption: would not help: no pod that has a machine is of a lower priority\n",
    ];
    waits(r, "selector", "nodeSelector: {disk: ssd, gantry.dev/machine-class: plain}", &words)
}

pub fn none_matches_the_affinity(r: &Rehearsal) -> anyhow::Result<()> {
    let term = "matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-7, zone-8]}]";
    let spec = format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{{term}}}]}}}}}}"
    );
    waits(r, "affine", &spec, &["without topology.kubernetes.io/zone in (zone-7, zone-8), which the pod asks for\n"])
}

pub fn a_taint_is_not_tolerated(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.ok(&["taint", "nodes", "--all", "team=red:NoSchedule"])?;
    let words = [
        "no machine of 6 takes it: 6 with taint team=red:NoSchedule that the pod does not tolerate\n",
        "Taints  6 ",
        "hollow-00000  with taint team=red:NoSchedule that the pod does not tolerate\n",
    ];
    let result = waits(r, "tainted", "", &words);
    r.kubectl.ok(&["taint", "nodes", "--all", "team-"])?;
    result
}

pub fn none_has_the_device(r: &Rehearsal) -> anyhow::Result<()> {
    let words = [
        "no machine of 6 takes it: 6 short of example.com/fpga\n",
        "ResourcesFit  6        6 short of example.com/fpga\n",
        "hollow-00000  short of example.com/fpga: wants 2, 0 free (2 more)\n",
    ];
    waits(r, "device", &crate::asking::wants("example.com/fpga: 2"), &words)
}

pub fn a_host_port_is_taken(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("port", |kubectl| {
        let on = |name: &str| {
            let port = "containers: [{name: c, image: 'i:1', ports: [{containerPort: 80, hostPort: 8080}]}]";
            pod(name, &format!("nodeSelector: {{kubernetes.io/hostname: hollow-00003}}, {port}"))
        };
        kubectl.apply(&on("first"))?;
        placed(kubectl, "first")?;
        kubectl.apply(&on("second"))?;
        told(kubectl, "second")?;
        let words = ["1 with host port 8080/TCP taken", "hollow-00003  with host port 8080/TCP taken\n"];
        explain(r, "port", "second", &[])?.has(&words)
    })
}
