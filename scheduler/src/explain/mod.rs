//! Says in one line why a pod fits nowhere: how many machines refuse it for which reason, the most frequent first, and how
//! far off the nearest one is. Never decides anything.

pub mod report;

use crate::plugins::{Reason, Resource, Trouble};
use crate::schedule::{Refused, Unschedulable};
use crate::snapshot::Snapshot;

/// `0/3 machines: 2 short of cpu: wants 8, 1.4 free on node-2; 1 cordoned`.
pub fn message(snapshot: &Snapshot, none: &Unschedulable) -> String {
    if none.machines == 0 {
        return "0/0 machines: there is no machine yet".to_owned();
    }
    let mut groups: Vec<(&Reason, &Refused)> = none.reasons.iter().collect();
    groups.sort_by_key(|(_, refused)| std::cmp::Reverse(refused.machines));
    let parts: Vec<String> = groups.into_iter().map(|(reason, refused)| part(snapshot, reason, refused)).collect();
    format!("0/{} machines: {}", none.machines, parts.join("; "))
}

fn part(snapshot: &Snapshot, reason: &Reason, refused: &Refused) -> String {
    let (count, what) = (refused.machines, headline(snapshot, reason));
    match (reason, refused.nearest) {
        (Reason::Short { resource, .. }, Some(near)) => {
            let (wants, free) = (amount(snapshot, *resource, near.wants), amount(snapshot, *resource, near.free));
            let most = if count > 1 { format!(" at most, on {}", snapshot.name(near.machine)) } else { String::new() };
            format!("{count} {what}: wants {wants}, {free} free{most}")
        }
        _ => format!("{count} {what}"),
    }
}

/// As the end of "3 machines …".
pub fn headline(snapshot: &Snapshot, reason: &Reason) -> String {
    match reason {
        Reason::Short { resource, .. } => format!("short of {}", resource.name(snapshot)),
        Reason::Held => "whose free room is kept for a pod that waits for it".to_owned(),
        Reason::Kept(resource) => {
            format!("in a zone whose last 1 % of {} is kept for production", resource.name(snapshot))
        }
        Reason::Unschedulable => "cordoned".to_owned(),
        Reason::Taint(taint) => {
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            format!("with taint {}{value}:{} that the pod does not tolerate", taint.key, taint.effect)
        }
        Reason::NodeAffinity => "not matching the pod's node selector or affinity".to_owned(),
        Reason::Port(port) => format!("with host port {port} taken"),
        Reason::Affinity => "without the pods that its affinity asks for".to_owned(),
        Reason::AntiAffinity => "with pods that its anti-affinity avoids".to_owned(),
        Reason::ExistingAntiAffinity => "with pods whose anti-affinity avoids it".to_owned(),
        Reason::Skew(key) => format!("where topology spread over {key} would be too uneven"),
        Reason::NoDomain(key) => format!("without label {key} that topology spread needs"),
        Reason::Claim(name, trouble) => {
            format!("that cannot mount PersistentVolumeClaim {name}: {}", claim_trouble(*trouble))
        }
        Reason::VolumeAffinity(name) => format!("that do not reach the volume of PersistentVolumeClaim {name}"),
        Reason::VolumeZone(name) => format!("outside the zone of the volume of PersistentVolumeClaim {name}"),
        Reason::NoVolume(name) => {
            format!("where PersistentVolumeClaim {name} finds no volume and none can be made")
        }
        Reason::Elsewhere(name, machine) => {
            format!("other than {machine}, on which the volume of PersistentVolumeClaim {name} is being made")
        }
        Reason::Provisioning(machine) => format!("that wait for the volume to be provisioned on {machine}"),
        Reason::ClaimInUse(name) => {
            format!("that cannot mount PersistentVolumeClaim {name}: it is ReadWriteOncePod and another pod uses it")
        }
        Reason::VolumeLimit(driver) => format!("with as many volumes of {driver} as there may be"),
        Reason::Unregistered => "not registered yet".to_owned(),
        Reason::CatchingUp => "whose state is still arriving".to_owned(),
    }
}

fn claim_trouble(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Missing => "it does not exist",
        Trouble::Foreign => "it does not belong to the pod",
        Trouble::Deleting => "it is being deleted",
        Trouble::Lost => "its volume is lost",
        Trouble::Unbound => "it is not bound to a volume yet",
        Trouble::NoVolume => "its volume does not exist",
    }
}

/// An amount as people write it: `1.4` CPUs, `512Mi`.
pub fn amount(snapshot: &Snapshot, resource: Resource, amount: i64) -> String {
    match resource {
        Resource::Cpu => decimal(amount, 1000),
        Resource::Memory | Resource::Ephemeral => bytes(amount),
        Resource::Other(id) if snapshot.resource_name(id).starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

fn bytes(amount: i64) -> String {
    const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    match UNITS.iter().find(|(_, size)| amount >= *size) {
        Some((unit, size)) => format!("{}{unit}", decimal(amount, *size)),
        None => amount.to_string(),
    }
}

/// With at most one digit after the point, rounded down; below one tenth with three.
fn decimal(amount: i64, unit: i64) -> String {
    let places: u32 = if amount.abs() * 10 < unit { 3 } else { 1 };
    let scale = 10_i128.pow(places);
    let scaled = i128::from(amount) * scale / i128::from(unit);
    let text = format!("{}.{:0width$}", scaled / scale, (scaled % scale).abs(), width = places as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::class::Classes;
    use crate::plugins::testing::{Cluster, changed};
    use crate::schedule;

    fn told(cluster: &mut Cluster, spec: serde_json::Value) -> String {
        let info = cluster.snapshot.adopt(cluster.pod("p", spec));
        let class = Classes::default().of(&mut cluster.snapshot, &info, "");
        message(&cluster.snapshot, &schedule::explain(&cluster.snapshot, &class))
    }

    fn wants(requests: serde_json::Value) -> serde_json::Value {
        json!({"containers": [{"resources": {"requests": requests}}]})
    }

    #[test]
    fn counts_the_most_frequent_first_and_the_nearest_machine() {
        let mut cluster = Cluster::default();
        assert_eq!(told(&mut cluster, json!({})), "0/0 machines: there is no machine yet");
        cluster.machine("a", json!({"status": {"allocatable": {"cpu": "1450m", "memory": "512Mi", "pods": "1"}}}));
        assert_eq!(told(&mut cluster, wants(json!({"cpu": "8"}))), "0/1 machines: 1 short of cpu: wants 8, 1.4 free");
        cluster.machine("b", json!({"status": {"allocatable": {"cpu": "2250m", "memory": "4Gi", "pods": "1"}}}));
        cluster.machine("c", json!({"spec": {"unschedulable": true}}));
        assert_eq!(
            told(&mut cluster, wants(json!({"cpu": "8", "memory": "3Gi"}))),
            "0/3 machines: 2 short of cpu: wants 8, 2.2 free at most, on b; 1 short of memory: wants 3Gi, 512Mi free; \
             1 cordoned"
        );
        assert_eq!(
            told(&mut cluster, wants(json!({"example.com/gpu": "2"}))),
            "0/3 machines: 2 short of example.com/gpu: wants 2, 0 free at most, on a; 1 cordoned"
        );
        let info = changed(cluster.pod("other", json!({})), |spec| spec.requests.pods = 2);
        let info = cluster.snapshot.adopt(info);
        let class = Classes::default().of(&mut cluster.snapshot, &info, "");
        let all = schedule::explain(&cluster.snapshot, &class);
        assert!(message(&cluster.snapshot, &all).starts_with("0/3 machines: 2 short of pods: wants 2, 1 free"));
    }

    #[test]
    fn amounts_are_for_people() {
        let snapshot = Snapshot::default();
        let check = |resource, value: i64, expect: &str| assert_eq!(amount(&snapshot, resource, value), expect);
        check(Resource::Cpu, 8000, "8");
        check(Resource::Cpu, 1450, "1.4");
        check(Resource::Cpu, 50, "0.05");
        check(Resource::Cpu, 0, "0");
        check(Resource::Memory, 1536 << 20, "1.5Gi");
        check(Resource::Memory, 100, "100");
        check(Resource::Pods, 110, "110");
    }
}
