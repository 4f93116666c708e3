//! Who goes for whom, and on which machine.

use serde_json::json;

use super::*;
use crate::class::Classes;
use crate::plugins::testing::{Cluster, changed, cpu, pod};
use crate::schedule::explain;

fn runs(cluster: &mut Cluster, name: &str, machine: &str, amount: &str, priority: i64, class: &str) {
    let info = changed(pod("ns", name, "", name, cpu(amount)), |spec| {
        (spec.priority, spec.class) = (priority, class.into());
    });
    cluster.place(info, machine);
}

fn chosen(
    cluster: &mut Cluster,
    amount: &str,
    priority: i64,
    class: &str,
    budgets: &[Budget],
) -> Option<(String, Vec<String>)> {
    let info = changed(pod("ns", "new", "", "", cpu(amount)), |spec| {
        (spec.priority, spec.class) = (priority, class.into());
    });
    let info = cluster.snapshot.adopt(info);
    let class = Classes::default().of(&mut cluster.snapshot, &info, "");
    let none = explain(&cluster.snapshot, &class);
    let found = preempt(&cluster.snapshot, &class, &none.curable, budgets, 0)?;
    let name = cluster.snapshot.name(found.machine).to_owned();
    Some((name, found.victims.iter().map(|v| v.name.to_string()).collect()))
}

fn two_machines() -> Cluster {
    let mut cluster = Cluster::default();
    for (name, band) in [("prod", "production"), ("batch", "batch"), ("best", "best-effort")] {
        cluster.snapshot.class_applied(name, Some(band));
    }
    for name in ["a", "b"] {
        cluster.machine(name, json!({"status": {"allocatable": {"cpu": "4", "pods": "9"}}}));
    }
    cluster
}

fn full() -> Cluster {
    let mut cluster = two_machines();
    runs(&mut cluster, "a-high", "a", "2", 50, "");
    runs(&mut cluster, "a-low", "a", "2", 1, "");
    runs(&mut cluster, "b-mid", "b", "3", 20, "");
    runs(&mut cluster, "b-low", "b", "1", 1, "");
    cluster
}

fn expected(machine: &str, victims: &[&str]) -> Option<(String, Vec<String>)> {
    Some((machine.to_owned(), victims.iter().map(|n| (*n).to_owned()).collect()))
}

#[test]
fn the_least_important_and_fewest_go() {
    let check = |amount: &str, priority: i64, expect: Option<(&str, &[&str])>| {
        let got = chosen(&mut full(), amount, priority, "", &[]);
        assert_eq!(got, expect.and_then(|(m, v)| expected(m, v)), "{amount} at {priority}");
    };
    check("2", 100, Some(("a", &["a-low"])));
    check("3", 100, Some(("b", &["b-mid"])));
    check("4", 30, Some(("b", &["b-mid", "b-low"])));
    check("4", 1, None);
    check("5", 100, None);
}

#[test]
fn production_does_not_go_for_production() {
    let mut cluster = two_machines();
    for name in ["a", "b"] {
        runs(&mut cluster, &format!("{name}-prod"), name, "4", 1, "prod");
    }
    assert_eq!(chosen(&mut cluster, "2", 100, "prod", &[]), None);
}

#[test]
fn a_number_lifts_no_pod_out_of_its_band() {
    let check = |running: (&str, i64), new: (&str, i64), goes: bool| {
        let mut cluster = two_machines();
        for name in ["a", "b"] {
            runs(&mut cluster, &format!("{name}-old"), name, "4", running.1, running.0);
        }
        assert_eq!(chosen(&mut cluster, "2", new.1, new.0, &[]).is_some(), goes, "{new:?} for {running:?}");
    };
    check(("prod", 1), ("batch", 1_000_000_000), false);
    check(("prod", 1), ("", 1_000_000_000), false);
    check(("prod", 1), ("", 2_000_000_000), true);
    check(("", 1_000), ("prod", 1), true);
    check(("", 0), ("batch", 5), false);
    check(("batch", 1_000), ("", 0), true);
    check(("batch", 1_000), ("batch", 1_001), true);
    check(("best", 1_000), ("batch", 0), true);
    check(("", 2_000_000_000), ("prod", 1_000_000), false);
    check(("", 2_000_000_000), ("", 2_000_001_000), true);
}

#[test]
fn production_takes_few_before_unimportant_ones() {
    let mut cluster = two_machines();
    runs(&mut cluster, "a-1", "a", "2", -10_000, "best");
    runs(&mut cluster, "a-2", "a", "2", -10_000, "best");
    runs(&mut cluster, "b-1", "b", "4", -1_000, "batch");
    assert_eq!(chosen(&mut cluster, "4", 1_000_000, "prod", &[]), expected("b", &["b-1"]));
    assert_eq!(chosen(&mut cluster, "4", 0, "", &[]), expected("a", &["a-1", "a-2"]), "Kubernetes has it so");
    assert_eq!(chosen(&mut cluster, "2", 1_000_000, "prod", &[]), expected("a", &["a-2"]), "one of a lower band");
}

#[test]
fn budgets_are_respected_where_they_can_be() {
    let budget = |app: &str, allowed: i64| {
        let selector = Selector::from_map(&std::collections::BTreeMap::from([("app".to_owned(), app.to_owned())]));
        Budget { namespace: "ns".into(), selector, allowed }
    };
    let protected = [budget("a-low", 0)];
    assert_eq!(chosen(&mut full(), "2", 100, "", &protected), expected("b", &["b-mid"]), "no budget is broken");
    assert_eq!(chosen(&mut full(), "2", 100, "", &[budget("a-low", 1)]), expected("a", &["a-low"]));
    let all = [budget("a-low", 0), budget("a-high", 0), budget("b-mid", 0), budget("b-low", 0)];
    assert_eq!(chosen(&mut full(), "2", 100, "", &all), expected("a", &["a-low"]), "where it cannot, as without");
}
