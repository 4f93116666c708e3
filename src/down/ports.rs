//! Host ports: telling CNI's `portmap` to forget those of our pods, and removing the plugin's shared chains once nobody has
//! ports any more. It never touches chains of ports that somebody else's pods still have.

use super::links::{run, text_of};
use crate::preflight::CNI_BIN_DIR;
use anyhow::Context;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The chains that `portmap` makes with the first port, in the order in which they can go.
const SHARED: [&str; 3] = ["CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"];
/// What the chains of single ports begin with.
const OF_ONE_POD: &str = "-N CNI-DN-";

/// What the plugin has to be told to forget one pod's host ports.
pub struct PortMappings {
    container: String,
    interface: String,
    config: Value,
}

/// From the result that libcni keeps of a pod; `None` for a pod without host ports.
pub fn port_mappings(cached: &Value) -> Option<PortMappings> {
    let ports = cached["capabilityArgs"]["portMappings"].as_array().filter(|ports| !ports.is_empty())?;
    let text = |field: &str| cached[field].as_str().map(str::to_owned);
    let config = json!({"cniVersion": "0.4.0", "name": text("networkName")?, "type": "portmap", "snat": true,
        "runtimeConfig": {"portMappings": ports}});
    Some(PortMappings { container: text("containerId")?, interface: text("ifName")?, config })
}

pub fn forget(pod: &PortMappings) -> anyhow::Result<()> {
    let mut child = Command::new(Path::new(CNI_BIN_DIR).join("portmap"))
        .env("CNI_COMMAND", "DEL")
        .env("CNI_CONTAINERID", &pod.container)
        .env("CNI_NETNS", "")
        .env("CNI_IFNAME", &pod.interface)
        .env("CNI_PATH", CNI_BIN_DIR)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running CNI's portmap")?;
    // Dropped after the write, so that the plugin reads to the end.
    child.stdin.take().context("portmap's input")?.write_all(pod.config.to_string().as_bytes())?;
    let output = child.wait_with_output().context("running CNI's portmap")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(output.status.success(), "removing the host ports of {}: {said}", pod.container);
    Ok(())
}

/// Called after our own ports are forgotten. `before` is what stood before this node's first start: it stays.
pub fn forget_shared_chains(before: &[String]) -> anyhow::Result<()> {
    for (program, family) in [("iptables", "ip"), ("ip6tables", "ip6")] {
        let table = format!("{family} nat");
        // iptables is asked only about a table that is there, so that asking makes none.
        if !nat_objects()?.contains(&table) {
            continue;
        }
        let list = || {
            let output = run(program, &["-t", "nat", "-S"])?;
            anyhow::ensure!(output.status.success(), "{program} -t nat -S: {}", text_of(&output));
            Ok::<_, anyhow::Error>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        // A table that iptables cannot read is not of its making.
        let Ok(rules) = list() else { continue };
        if rules.contains(OF_ONE_POD) {
            continue;
        }
        for steps in removals(&rules, &|chain| !before.contains(&format!("{table} {chain}"))) {
            let mut words = vec!["-t", "nat"];
            words.extend(steps.iter().map(String::as_str));
            let output = run(program, &words)?;
            anyhow::ensure!(output.status.success(), "{program} {}: {}", words.join(" "), text_of(&output));
        }
        // The table that iptables made for them: it makes it again whenever somebody has a rule.
        if !before.contains(&table) && list()?.lines().all(|line| line.starts_with("-P ")) && is_bare(&table)? {
            run("nft", &["delete", "table", family, "nat"])?;
        }
    }
    Ok(())
}

/// The tables `nat` of this network namespace and the chains in them, as `ip nat` and `ip nat CHAIN`. Asks nft, because
/// iptables may make what it is asked about.
pub fn nat_objects() -> anyhow::Result<Vec<String>> {
    let mut found = vec![];
    for list in ["tables", "chains"] {
        let output = run("nft", &["list", list])?;
        anyhow::ensure!(output.status.success(), "nft list {list}: {}", text_of(&output));
        found.extend(nat_objects_in(&String::from_utf8_lossy(&output.stdout)));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn nat_objects_in(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut table = None;
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["table", family @ ("ip" | "ip6"), "nat", ..] => {
                table = Some(format!("{family} nat"));
                found.extend(table.clone());
            }
            ["table", ..] => table = None,
            ["chain", name, ..] => found.extend(table.as_ref().map(|table| format!("{table} {name}"))),
            _ => {}
        }
    }
    found
}

/// Whether a table has no chains but those that iptables makes itself.
fn is_bare(table: &str) -> anyhow::Result<bool> {
    let chains = nat_objects()?;
    let chains = chains.iter().filter_map(|name| name.strip_prefix(table)?.strip_prefix(' '));
    Ok(chains.into_iter().all(|chain| ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"].contains(&chain)))
}

/// The arguments that take the jumps to the shared chains away, then the chains.
fn removals(rules: &str, ours: &dyn Fn(&str) -> bool) -> Vec<Vec<String>> {
    let chains = || SHARED.iter().filter(|chain| ours(chain));
    let jumps = rules.lines().filter(|line| line.starts_with("-A ") && !line.starts_with("-A CNI-"));
    let jumps = jumps.filter(|line| chains().any(|chain| line.contains(&format!("-j {chain}"))));
    let mut steps: Vec<Vec<String>> = jumps.map(|line| words(&line.replacen("-A", "-D", 1))).collect();
    let there = || chains().filter(|chain| rules.lines().any(|line| line == format!("-N {chain}")));
    for flag in ["-F", "-X"] {
        steps.extend(there().map(|chain| vec![flag.to_owned(), (*chain).to_owned()]));
    }
    steps
}

/// Words as iptables prints them: only comments are quoted, and hold no quotes.
fn words(line: &str) -> Vec<String> {
    let quoted = |(index, part): (usize, &str)| match index % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    };
    line.split('"').enumerate().flat_map(quoted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_with_host_ports_have_some_to_forget() {
        let cached = |ports: Value| {
            json!({"containerId": "c1", "ifName": "eth0", "networkName": "gantry",
                "capabilityArgs": {"portMappings": ports}})
        };
        assert!(port_mappings(&cached(json!([]))).is_none() && port_mappings(&cached(Value::Null)).is_none());
        let call = port_mappings(&cached(json!([{"hostPort": 80}]))).unwrap();
        assert_eq!((call.container.as_str(), call.interface.as_str()), ("c1", "eth0"));
        assert_eq!(call.config["runtimeConfig"], json!({"portMappings": [{"hostPort": 80}]}));
    }

    #[test]
    fn jumps_go_before_the_chains_that_they_lead_to() {
        let rules = "-P PREROUTING ACCEPT\n-N CNI-HOSTPORT-DNAT\n-N CNI-HOSTPORT-MASQ\n-N OTHER\n\
            -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT\n-A PREROUTING -j OTHER\n\
            -A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j CNI-HOSTPORT-MASQ\n\
            -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE\n";
        let steps: Vec<String> = removals(rules, &|_| true).iter().map(|words| words.join("|")).collect();
        assert_eq!(
            steps,
            [
                "-D|PREROUTING|-m|addrtype|--dst-type|LOCAL|-j|CNI-HOSTPORT-DNAT",
                "-D|POSTROUTING|-m|comment|--comment|CNI portfwd requiring masquerade|-j|CNI-HOSTPORT-MASQ",
                "-F|CNI-HOSTPORT-DNAT",
                "-F|CNI-HOSTPORT-MASQ",
                "-X|CNI-HOSTPORT-DNAT",
                "-X|CNI-HOSTPORT-MASQ",
            ]
        );
        assert!(removals("-P PREROUTING ACCEPT\n", &|_| true).is_empty());
        assert!(removals(rules, &|_| false).is_empty(), "somebody else had them first");
    }

    #[test]
    fn only_the_nat_tables_count() {
        let listed = "table inet gantry {\n\tchain services {\n\t}\n}\ntable ip nat {\n\tchain PREROUTING {\n\t\t\
            type nat hook prerouting priority dstnat; policy accept;\n\t}\n\tchain CNI-HOSTPORT-DNAT {\n\t}\n}\n\
            table ip6 nat {\n}\ntable ip filter {\n\tchain INPUT {\n\t}\n}\n";
        let expect = ["ip nat", "ip nat PREROUTING", "ip nat CNI-HOSTPORT-DNAT", "ip6 nat"];
        assert_eq!(nat_objects_in(listed), expect);
        assert_eq!(nat_objects_in("table ip nat\ntable ip6 nat\ntable inet x\n"), ["ip nat", "ip6 nat"]);
    }
}
