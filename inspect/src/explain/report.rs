//! The scheduler's answer as it is read here. What a newer scheduler says beyond this is passed over.

use serde::Deserialize;

macro_rules! read {
    ($($name:ident { $($field:ident: $ty:ty,)* })*) => {$(
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(pub $field: $ty,)*
        }
    )*};
}

read! {
    Report {
        machines: usize,
        feasible: usize,
        filters: Vec<Filtered>,
        nearest: Vec<Near>,
        preemption: Option<Preempting>,
        making_room: Option<MakingRoom>,
        queue: Option<Queued>,
        team: Option<TeamShare>,
        gang: Option<Gang>,
        band: String,
        priority: i64,
        fits: Option<Fits>,
    }
    Filtered { filter: String, removed: usize, reasons: Vec<Counted>, }
    Counted { reason: String, machines: usize, }
    Near { machine: String, lacks: Vec<String>, }
    Preempting { possible: bool, why: String, machine: Option<String>, victims: Vec<String>, victims_elsewhere: usize, }
    MakingRoom { machine: String, victims: Vec<String>, victims_elsewhere: usize, kept_for_seconds: Option<u64>, }
    Queued { state: String, ahead: usize, attempts: u32, again_in_seconds: Option<u64>, message: String, }
    TeamShare { name: String, share: f64, before: usize, teams: usize, }
    Gang { name: String, min_member: Option<u32>, has_object: bool, exist: usize, placed: usize, fit: usize, }
    Fits { asked: usize, fit: usize, machines: usize, on: Vec<Taking>, next: Option<String>, }
    Taking { machine: String, replicas: usize, }
}

/// `1 pod`, `3 pods`.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// `pods a, b and 2 pods of other namespaces`.
pub fn victims(named: &[String], elsewhere: usize) -> String {
    let own = match named {
        [] => String::new(),
        [one] => format!("pod {one}"),
        many => format!("pods {}", many.join(", ")),
    };
    let others =
        if elsewhere == 0 { String::new() } else { format!("{} of other namespaces", count(elsewhere, "pod")) };
    match (own.as_str(), others.as_str()) {
        ("", "") => "no pod".to_owned(),
        (own, "") => own.to_owned(),
        ("", others) => others.to_owned(),
        (own, others) => format!("{own} and {others}"),
    }
}
