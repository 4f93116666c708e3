//! What is said of machines: which filter removed how many, which come nearest, and where replicas would go. Pure.

use super::report::{Preempting, Report, count, victims};
use super::template::Found;
use crate::render::columns;

/// Filters by which machines are chosen, not found wanting: a DaemonSet has no pods there.
const CHOOSING: &[&str] = &["Taints", "NodeAffinity", "Unschedulable"];

/// The answer to `gantry fits` in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub verdict: String,
    /// Why not all fit, for the last line on standard error.
    pub lacks: Option<String>,
}

pub fn judge(found: &Found, report: &Report) -> Judged {
    let fits = report.fits.clone().unwrap_or_default();
    if found.is_daemon {
        let verdict = format!("{} of {} would take one", report.feasible, count(report.machines, "machine"));
        let wanting = report.filters.iter().filter(|f| !CHOOSING.contains(&f.filter.as_str())).map(|f| f.removed);
        let wanting: usize = wanting.sum();
        let lacks = if report.feasible == 0 {
            Some("no machine would take one".to_owned())
        } else {
            (wanting > 0).then(|| format!("{} that it chooses would not take one", count(wanting, "machine")))
        };
        return Judged { verdict, lacks };
    }
    let on = format!("on {}", count(fits.machines, "machine"));
    match (fits.fit, fits.asked - fits.fit.min(fits.asked)) {
        (1, 0) => Judged { verdict: format!("it fits, {on}"), lacks: None },
        (all, 0) => Judged { verdict: format!("all {all} fit, {on}"), lacks: None },
        (0, left) => {
            let none = if left == 1 { "it does not fit".to_owned() } else { format!("none of {left} fits") };
            Judged { verdict: format!("{none}: {}", why(report)), lacks: Some(none) }
        }
        (fit, left) => {
            let verdict = format!("{fit} of {} fit, {on}; the next would not: {}", fits.asked, why(report));
            let verb = if left == 1 { "does" } else { "do" };
            Judged { verdict, lacks: Some(format!("{left} of {} {verb} not fit", fits.asked)) }
        }
    }
}

/// Everything about replicas, the verdict first.
pub fn text(about: &str, judged: &Judged, report: &Report) -> String {
    let fits = report.fits.clone().unwrap_or_default();
    let mut parts = vec![format!("{about}: {}", judged.verdict)];
    if !fits.on.is_empty() {
        let rows: Vec<Vec<String>> =
            fits.on.iter().map(|taking| vec![taking.machine.clone(), taking.replicas.to_string()]).collect();
        let mut table = columns(&["machine".to_owned(), "pods".to_owned()], &rows);
        if fits.machines > fits.on.len() {
            table.push_str(&format!("\nand {} with fewer", count(fits.machines - fits.on.len(), "more machine")));
        }
        parts.push(table);
    }
    parts.extend(tables(report));
    if let Some(preemption) = &report.preemption {
        parts.push(format!("Preemption: {}", preempting(preemption)));
    }
    parts.join("\n\n")
}

/// Why no machine takes it, in one line.
pub fn why(report: &Report) -> String {
    if report.machines == 0 {
        return "there is no machine yet".to_owned();
    }
    let mut reasons: Vec<_> = report.filters.iter().flat_map(|filter| &filter.reasons).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.machines));
    reasons.iter().map(|reason| format!("{} {}", reason.machines, reason.reason)).collect::<Vec<_>>().join("; ")
}

/// The filters and the nearest machines, where there is something to say of them.
pub fn tables(report: &Report) -> Vec<String> {
    let mut tables = Vec::new();
    let row = |words: [&str; 3]| words.map(str::to_owned).to_vec();
    if !report.filters.is_empty() {
        let filters = report.filters.iter().map(|filter| {
            let reasons = filter.reasons.iter().map(|reason| format!("{} {}", reason.machines, reason.reason));
            row([&filter.filter, &filter.removed.to_string(), &reasons.collect::<Vec<_>>().join("; ")])
        });
        tables.push(columns(&row(["filter", "removed", "why"]), &filters.collect::<Vec<_>>()));
    }
    if !report.nearest.is_empty() {
        let mut rows = Vec::new();
        for near in &report.nearest {
            for (at, lack) in near.lacks.iter().enumerate() {
                rows.push(vec![if at == 0 { near.machine.clone() } else { String::new() }, lack.clone()]);
            }
        }
        tables.push(columns(&["nearest".to_owned(), "is".to_owned()], &rows));
    }
    tables
}

/// As the end of "Preemption: …".
pub fn preempting(preemption: &Preempting) -> String {
    if !preemption.possible {
        return format!("would not help: {}", preemption.why);
    }
    let who = victims(&preemption.victims, preemption.victims_elsewhere);
    format!("would help: ending {who} on {}", preemption.machine.as_deref().unwrap_or("a machine"))
}
