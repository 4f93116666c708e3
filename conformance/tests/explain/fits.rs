//! `gantry fits`: whether pods would find machines before they are created.

use crate::asking::{fits, pod, wants};
use anyhow::ensure;
use gantry_conformance::Rehearsal;

/// A Deployment whose pods want this.
fn deployment(requests: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 12, template: {{metadata: \
         {{labels: {{app: web}}}}, spec: {{{}}}}}}}}}\n",
        wants(requests)
    )
}

pub fn replicas_of_a_deployment(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("fits", |kubectl| {
        let web = deployment("cpu: 3");
        let said = fits(r, "fits", &[], &web)?;
        ensure!(said.code == 0, "{}: {}{}", said.code, said.out, said.err);
        said.has(&["Deployment web: all 12 fit, on 6 machines\n", "hollow-00005  2"])?;
        let said = fits(r, "fits", &["--replicas", "200"], &web)?;
        ensure!(said.code == 1 && said.err.contains("188 of 200 do not fit"), "{}: {}", said.code, said.err);
        said.has(&["12 of 200 fit, on 6 machines; the next would not: 6 short of cpu\n"])?;
        said.has(&["short of cpu: wants 3, 1.9 free (1.1 more)\n", "Preemption: would not help"])?;
        let json = fits(r, "fits", &["-o", "json", "--replicas", "13"], &web)?.json()?;
        let fits = &json["result"]["fits"];
        ensure!((&fits["asked"], &fits["fit"]) == (&13.into(), &12.into()), "{json}");
        ensure!(kubectl.path(&["pods"], ".items")? == "[]", "nothing is created");
        Ok(())
    })
}

pub fn what_a_manifest_may_be(r: &Rehearsal) -> anyhow::Result<()> {
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web}}\n";
    let said = fits(r, "default", &[], &format!("{service}---\n{}", deployment("cpu: 1")))?;
    said.has(&["Deployment web: all 12 fit, on "])?;
    let said = fits(r, "default", &[], &format!("{service}---\n{service}"))?;
    ensure!(
        said.code == 2 && said.err.contains("none of Service web, Service web makes pods"),
        "{}: {}",
        said.code,
        said.err
    );
    let said = fits(r, "default", &[], &pod("p", "priorityClassName: none-such"))?;
    ensure!(
        said.code == 2 && said.err.contains("Pod p: there is no PriorityClass none-such"),
        "{}: {}",
        said.code,
        said.err
    );
    let said = fits(r, "default", &[], "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, typo: 1}]}}")?;
    ensure!(said.code == 2 && said.err.contains("spec.template.spec.containers[0]"), "{}: {}", said.code, said.err);
    let daemon = deployment("cpu: 3").replace("Deployment", "DaemonSet").replace("replicas: 12, ", "");
    fits(r, "default", &[], &daemon)?.has(&["DaemonSet web: 6 of 6 machines would take one\n"])
}
