//! Says in one line why a pod fits nowhere: how many machines refuse it for which reason, the most frequent first, and how
//! far off the nearest one is. Never decides anything.

use std::collections::BTreeMap;

use crate::plugins::Reason;
use crate::schedule::Unschedulable;

/// `0/3 machines: 2 short of cpu: wants 8, 1.4 free; 1 cordoned`.
pub fn message(none: &Unschedulable) -> String {
    if none.machines == 0 {
        return "0/0 machines: there is no machine yet".to_owned();
    }
    let mut groups: BTreeMap<String, (usize, Option<(i64, i64)>)> = BTreeMap::new();
    for reason in none.refusals.values().flatten() {
        let (count, nearest) = groups.entry(headline(reason)).or_default();
        *count += 1;
        if let Reason::Short(short) = reason {
            let free = nearest.map_or(short.free, |(_, free)| free.max(short.free));
            *nearest = Some((short.wants, free));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let parts: Vec<String> = groups
        .into_iter()
        .map(|(headline, (count, nearest))| match nearest {
            Some((wants, free)) => {
                let resource = headline.strip_prefix("short of ").unwrap_or(&headline);
                format!("{count} {headline}: wants {}, {} free", amount(resource, wants), amount(resource, free))
            }
            None => format!("{count} {headline}"),
        })
        .collect();
    format!("0/{} machines: {}", none.machines, parts.join("; "))
}

fn headline(reason: &Reason) -> String {
    match reason {
        Reason::Short(short) => format!("short of {}", short.resource),
        Reason::Unschedulable => "cordoned".to_owned(),
        Reason::Taint(taint) => format!("with taint {taint} that the pod does not tolerate"),
        Reason::NodeAffinity => "not matching the pod's node selector or affinity".to_owned(),
        Reason::Port(port) => format!("with host port {port} taken"),
        Reason::Affinity => "without the pods that its affinity asks for".to_owned(),
        Reason::AntiAffinity => "with pods that its anti-affinity avoids".to_owned(),
        Reason::ExistingAntiAffinity => "with pods whose anti-affinity avoids it".to_owned(),
        Reason::Skew(key) => format!("where topology spread over {key} would be too uneven"),
        Reason::NoDomain(key) => format!("without label {key} that topology spread needs"),
        Reason::Claim(name) => format!("that cannot mount PersistentVolumeClaim {name} yet"),
        Reason::Unregistered => "not registered yet".to_owned(),
        Reason::CatchingUp => "whose state is still arriving".to_owned(),
    }
}

/// An amount as people write it: `1.4` CPUs, `512Mi`.
fn amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => decimal(amount, 1000),
        "memory" | "ephemeral-storage" => bytes(amount),
        name if name.starts_with("hugepages-") => bytes(amount),
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
    use super::*;
    use crate::resources::Shortfall;

    fn short(resource: &str, wants: i64, free: i64) -> Reason {
        Reason::Short(Shortfall { resource: resource.into(), wants, free })
    }

    #[test]
    fn counts_the_most_frequent_first_and_the_nearest_machine() {
        let check = |refusals: Vec<Vec<Reason>>, expect: &str| {
            let machines = refusals.len();
            let refusals = refusals.into_iter().enumerate().collect();
            assert_eq!(message(&Unschedulable { machines, refusals, ..Unschedulable::default() }), expect);
        };
        check(vec![], "0/0 machines: there is no machine yet");
        check(vec![vec![short("cpu", 8000, 1400)]], "0/1 machines: 1 short of cpu: wants 8, 1.4 free");
        check(
            vec![
                vec![Reason::Unschedulable],
                vec![short("cpu", 8000, 1400), short("memory", 3 << 30, 1 << 29)],
                vec![short("cpu", 8000, 2250)],
            ],
            "0/3 machines: 2 short of cpu: wants 8, 2.2 free; 1 cordoned; 1 short of memory: wants 3Gi, 512Mi free",
        );
        check(
            vec![vec![Reason::Taint("k=v:NoSchedule".into())], vec![Reason::Port("80/TCP".into())]],
            "0/2 machines: 1 with host port 80/TCP taken; 1 with taint k=v:NoSchedule that the pod does not tolerate",
        );
    }

    #[test]
    fn amounts_are_for_people() {
        let check = |resource: &str, value: i64, expect: &str| assert_eq!(amount(resource, value), expect);
        check("cpu", 8000, "8");
        check("cpu", 1450, "1.4");
        check("cpu", 50, "0.05");
        check("cpu", 0, "0");
        check("memory", 1536 << 20, "1.5Gi");
        check("memory", 100, "100");
        check("example.com/gpu", 2, "2");
        check("pods", 110, "110");
    }
}
