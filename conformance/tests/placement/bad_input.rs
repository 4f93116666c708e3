//! What nobody should ask for: the scheduler says why it does not do it, does not fall, and does not run hot over it.

#![expect(clippy::disallowed_methods, reason = "that nothing happens can only be seen by watching for a while")]

use crate::arena::{Arena, PATIENCE, Server};
use crate::crowd::{Crowd, labelled, pod, with};
use crate::record::Record;
use crate::replay;
use anyhow::ensure;
use gantry_conformance::readings::cpu_ms;
use gantry_conformance::{wait_for, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ALONE: &[&str] = &["--no-leader-election"];
const QUIET: Duration = Duration::from_secs(5);
/// A loop that spins takes a core, or its share of one on a busy machine: half a core is far above what idling costs.
const QUIET_CPU_MS: f64 = 2_500.0;

/// Runs the body with one scheduler, which must be the same process in the end; and quiet, when `quiet`.
fn alone(
    arena: &Arena,
    namespace: &str,
    quiet: bool,
    body: impl FnOnce(&Crowd<'_>, &Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    arena.case(namespace, &["only"], |crowd, record| {
        arena.start_scheduler("only", Server::Steady, ALONE)?;
        let pid = arena.pid("only")?;
        body(crowd, record)?;
        if quiet {
            let (start, before) = (Instant::now(), cpu_ms(pid)?);
            wait_until("a quiet while", QUIET * 2, || start.elapsed() >= QUIET)?;
            let used = cpu_ms(pid)? - before;
            println!("    the scheduler took {used:.0} ms of processor time in {QUIET:?} of quiet");
            ensure!(used < QUIET_CPU_MS, "it runs hot: {used} ms in {QUIET:?}");
        }
        ensure!(arena.pid("only")? == pid);
        // It still places what can be placed.
        crowd.create([pod("well", 10)])?;
        wait_for("a plain pod to be bound", PATIENCE, || {
            ensure!(
                record.pods(crowd.namespace, |pod| pod.name == "well" && !pod.node.is_empty()).len() == 1,
                "not yet"
            );
            Ok(())
        })?;
        replay::judge(&record.changes()?, |_| false).map(drop)
    })
}

fn nodes_with(expressions: Value) -> Value {
    let terms = json!([{"matchExpressions": expressions}]);
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn apart(selector: Value, everywhere: bool, key: &str) -> Value {
    let mut term = json!({"labelSelector": selector, "topologyKey": key});
    if everywhere {
        term["namespaceSelector"] = json!({});
    }
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

pub fn impossible_pods_are_told_why(arena: &Arena) -> anyhow::Result<()> {
    alone(arena, "impossible", false, |crowd, _| {
        let zone = "topology.kubernetes.io/zone";
        let is = |operator: &str| json!({"key": zone, "operator": operator, "values": ["zone-1"]});
        let spread = json!([{"maxSkew": 1, "minDomains": 50, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"name": "domains"}}}]);
        let own = |name: &str| json!({"matchLabels": {"name": name}});
        let near = json!({"labelSelector": own("nobody"), "topologyKey": zone});
        let both = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}});
        crowd.create([
            with(pod("selector", 10), "nodeSelector", json!({"no-such": "label"})),
            with(pod("contradiction", 10), "affinity", nodes_with(json!([is("In"), is("NotIn")]))),
            with(pod("number", 10), "affinity", nodes_with(json!([{"key": zone, "operator": "Gt", "values": ["5"]}]))),
            with(pod("lonely", 10), "affinity", both),
            with(
                with(pod("elsewhere", 10), "nodeSelector", json!({"kubernetes.io/hostname": "no-such-machine"})),
                "priorityClassName",
                json!("production"),
            ),
            pod("huge", 9_000_000),
        ])?;
        for name in ["selector", "contradiction", "number", "lonely", "elsewhere"] {
            crowd.says(name, &["0/100 machines: "])?;
        }
        crowd.says("huge", &["0/100 machines: ", "cpu"])?;
        // More domains are wanted than there are: two go, one to each, and the third waits.
        crowd.create((0..3).map(|n| {
            with(
                labelled(pod(&format!("domain-{n}"), 10), "name", "domains"),
                "topologySpreadConstraints",
                spread.clone(),
            )
        }))?;
        wait_for("one of three to wait", PATIENCE, || {
            let text = crowd.kubectl.path(
                &["pods", "-l", "name=domains"],
                "range .items[*]}{.metadata.name} {.spec.nodeName} {.status.conditions[0].reason}{\"\\n\"}{end",
            )?;
            ensure!(text.matches("hollow-").count() == 2 && text.matches("Unschedulable").count() == 1, "{text}");
            Ok(())
        })
    })
}

pub fn a_thousand_that_refuse_each_other_cost_nothing(arena: &Arena) -> anyhow::Result<()> {
    const PODS: usize = 1_000;
    alone(arena, "refuse", true, |crowd, record| {
        let selector = json!({"matchLabels": {"app": "alone"}});
        let refusing = |n: usize| labelled(pod(&format!("p-{n}"), 10), "app", "alone");
        let zones = apart(selector, false, "topology.kubernetes.io/zone");
        crowd.create((0..PODS).map(|n| with(refusing(n), "affinity", zones.clone())))?;
        // A selector that matches everything, everywhere: a machine for itself.
        let all = apart(json!({}), true, "kubernetes.io/hostname");
        crowd.create((0..5).map(|n| with(pod(&format!("all-{n}"), 10), "affinity", all.clone())))?;
        wait_for("all but one a zone to be told why they wait", PATIENCE, || {
            let refused =
                record.pods(crowd.namespace, |pod| pod.name.starts_with("p-") && pod.reason == "Unschedulable");
            let alone = record.pods(crowd.namespace, |pod| pod.name.starts_with("all-") && !pod.node.is_empty());
            ensure!(
                (refused.len(), alone.len()) == (PODS - 2, 5),
                "{} are told, {} are alone",
                refused.len(),
                alone.len()
            );
            Ok(())
        })
    })
}

pub fn labels_that_half_of_the_machines_lack(arena: &Arena) -> anyhow::Result<()> {
    alone(arena, "half", false, |crowd, record| {
        let constraint = json!([{"maxSkew": 1, "topologyKey": "half", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}}}]);
        let spread = (0..60).map(|n| {
            with(
                labelled(pod(&format!("s-{n}"), 100), "app", "spread"),
                "topologySpreadConstraints",
                constraint.clone(),
            )
        });
        let near = json!({"labelSelector": {"matchLabels": {"app": "near"}}, "topologyKey": "half"});
        let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}});
        let together =
            (0..60).map(|n| with(labelled(pod(&format!("n-{n}"), 100), "app", "near"), "affinity", near.clone()));
        crowd.create(spread.chain(together))?;
        record.wait_all_bound(crowd.namespace)?;
        let with_label = arena.kubectl.ok(&["get", "nodes", "-l", "half=here", "-o", "name"])?;
        for pod in record.pods(crowd.namespace, |pod| !pod.node.is_empty()) {
            let there = with_label.lines().any(|line| line == format!("node/{}", pod.node));
            ensure!(there, "{} is on {}, which has no such label", pod.name, pod.node);
        }
        Ok(())
    })
}

pub fn quantities_beyond_reason(arena: &Arena) -> anyhow::Result<()> {
    let requests = |name: &str, cpu: &str, memory: &str| {
        let mut one = pod(name, 1);
        one["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": cpu, "memory": memory});
        one
    };
    alone(arena, "quantities", false, |crowd, _| {
        for (n, (cpu, memory)) in [("-1", "1Mi"), ("1", "-5Gi"), ("one", "1Mi"), ("", "1Mi")].into_iter().enumerate() {
            let manifest = requests(&format!("refused-{n}"), cpu, memory).to_string();
            let said = crowd.kubectl.fails(&["create", "-f", "-"], &manifest)?;
            ensure!(said.contains("requests") || said.contains("quantit"), "cpu {cpu:?}, memory {memory:?}: {said}");
        }
        let most = i64::MAX.to_string();
        let mut many = requests("sum", &most, &most);
        let first = many["spec"]["containers"][0].clone();
        many["spec"]["containers"] = (0..4)
            .map(|n| {
                let mut one = first.clone();
                one["name"] = json!(format!("c-{n}"));
                one
            })
            .collect();
        many["spec"]["initContainers"] =
            json!([{"name": "i", "image": "x", "resources": {"requests": {"cpu": most, "memory": "9Ei"}}}]);
        crowd.create([
            requests("cpu", &most, "1Mi"),
            requests("memory", "1m", "9E"),
            requests("power", "1e18", "7Ei"),
            many,
        ])?;
        for name in ["cpu", "memory", "power", "sum"] {
            crowd.says(name, &["0/100 machines: ", "short of"])?;
        }
        Ok(())
    })
}

/// A machine that nobody runs; only these pods go there.
fn paper(crowd: &Crowd<'_>, cpu: &str) -> anyhow::Result<()> {
    let taint = json!([{"key": "paper", "effect": "NoSchedule"}]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "paper", "labels": {"paper": "yes"}}, "spec": {"taints": taint}});
    crowd.kubectl.ok_with(&["create", "-f", "-"], &node.to_string())?;
    shrink(crowd, cpu)
}

fn shrink(crowd: &Crowd<'_>, cpu: &str) -> anyhow::Result<()> {
    let has = json!({"cpu": cpu, "memory": "8Gi", "pods": "20"});
    let status = json!({"status": {"capacity": has, "allocatable": has}}).to_string();
    crowd.kubectl.ok(&["patch", "node", "paper", "--subresource=status", "--type=merge", "-p", &status]).map(drop)
}

fn on_paper(name: &str) -> Value {
    let one = with(pod(name, 1_000), "nodeSelector", json!({"paper": "yes"}));
    with(one, "tolerations", json!([{"operator": "Exists"}]))
}

fn with_paper(crowd: &Crowd<'_>, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let result = body();
    crowd.kubectl.ok(&["delete", "node", "paper"])?;
    result
}

pub fn a_machine_that_shrinks(arena: &Arena) -> anyhow::Result<()> {
    alone(arena, "shrinks", true, |crowd, record| {
        paper(crowd, "4")?;
        with_paper(crowd, || {
            let placed = |name: &str| -> anyhow::Result<()> {
                wait_for(&format!("{name} to be placed"), PATIENCE, || {
                    ensure!(
                        record.pods(crowd.namespace, |pod| pod.name == name && pod.node == "paper").len() == 1,
                        "not yet"
                    );
                    Ok(())
                })
            };
            crowd.create((0..4).map(|n| on_paper(&format!("p-{n}"))))?;
            (0..4).try_for_each(|n| placed(&format!("p-{n}")))?;
            shrink(crowd, "2")?;
            crowd.create([on_paper("more")])?;
            crowd.says("more", &["short of cpu"])?;
            // Nobody is ended because the machine has less; the next one comes when enough have gone.
            ensure!(record.bound(crowd.namespace) == 4);
            crowd.kubectl.ok(&["delete", "pod", "p-0", "p-1", "--grace-period=0", "--force"])?;
            crowd.says("more", &["short of cpu"])?;
            crowd.kubectl.ok(&["delete", "pod", "p-2", "--grace-period=0", "--force"])?;
            placed("more")?;
            shrink(crowd, "0")?;
            crowd.create([on_paper("none")])?;
            crowd.says("none", &["short of cpu"])
        })
    })
}

pub fn an_allocation_edited_by_hand(arena: &Arena) -> anyhow::Result<()> {
    alone(arena, "by-hand", true, |crowd, record| {
        paper(crowd, "4")?;
        with_paper(crowd, || {
            crowd.create([on_paper("before")])?;
            record.wait_all_bound(crowd.namespace)?;
            // Whoever tries is refused, an administrator as well.
            for edit in [
                r#"{"writes": 0}"#,
                r#"{"bound": 9000000000, "by": "Node"}"#,
                r#"{"status": {"requested": {"cpu": "-5"}}}"#,
                r#"{"writes": -1, "nodeAt": 99999999999}"#,
            ] {
                let said =
                    crowd.kubectl.fails(&["patch", "nodeallocation", "paper", "--type=merge", "-p", edit], "")?;
                ensure!(said.contains("MethodNotAllowed"), "{edit}: {said}");
            }
            let said = crowd.kubectl.fails(&["delete", "nodeallocation", "paper"], "")?;
            ensure!(said.contains("MethodNotAllowed"), "{said}");
            crowd.create([on_paper("after"), on_paper("after-2")])?;
            record.wait_all_bound(crowd.namespace)?;
            crowd.create((0..3).map(|n| on_paper(&format!("many-{n}"))))?;
            wait_for("four in all, as the machine has room for", PATIENCE, || {
                let told = record.pods(crowd.namespace, |pod| pod.reason == "Unschedulable").len();
                ensure!(
                    (record.bound(crowd.namespace), told) == (4, 2),
                    "{} are placed, {told} are told why not",
                    record.bound(crowd.namespace)
                );
                Ok(())
            })
        })
    })
}
