//! What a run found, for people and for machines: a table by area, failures, JUnit, JSON, Markdown. It formats only.

use crate::behaviour::State;
use crate::run::{Outcome, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the verdict means, given what the catalogue says of the behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Passed,
    /// Said to pass, and does not: the run fails.
    Failed,
    Pending,
    /// Said not to pass, and does.
    Promotable,
    Skipped,
}

pub fn standing(outcome: &Outcome) -> Standing {
    match (&outcome.verdict, &outcome.behaviour.state) {
        (Verdict::Skipped(_), _) => Standing::Skipped,
        (Verdict::Holds, State::Passes) => Standing::Passed,
        (Verdict::Holds, State::Pending(_)) => Standing::Promotable,
        (Verdict::Broken(_), State::Passes) => Standing::Failed,
        (Verdict::Broken(_), State::Pending(_)) => Standing::Pending,
    }
}

const COLUMNS: [(&str, Standing); 5] = [
    ("passed", Standing::Passed),
    ("failed", Standing::Failed),
    ("pending", Standing::Pending),
    ("passes now", Standing::Promotable),
    ("skipped", Standing::Skipped),
];

fn counts<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> [usize; 5] {
    let mut counts = [0; 5];
    for outcome in outcomes {
        counts[standing(outcome) as usize] += 1;
    }
    counts
}

fn by_area(outcomes: &[Outcome]) -> BTreeMap<&str, Vec<&Outcome>> {
    let mut areas = BTreeMap::<&str, Vec<&Outcome>>::new();
    for outcome in outcomes {
        areas.entry(&outcome.behaviour.area).or_default().push(outcome);
    }
    areas
}

/// Held, of all that were run.
fn score(counts: [usize; 5]) -> String {
    let [passed, failed, pending, promotable, _] = counts;
    format!("{}/{}", passed + promotable, passed + failed + pending + promotable)
}

/// The table by area.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("{:<16}{:>10}", "area", "holds");
    for (name, _) in COLUMNS {
        write!(text, "{name:>12}").expect("a String takes everything");
    }
    let areas = by_area(outcomes);
    let rows = areas.iter().map(|(area, all)| (*area, counts(all.iter().copied())));
    for (area, counts) in rows.chain([("all", counts(outcomes))]) {
        write!(text, "\n{area:<16}{:>10}", score(counts)).expect("a String takes everything");
        for count in counts {
            let shown = if count == 0 { "-".to_owned() } else { count.to_string() };
            write!(text, "{shown:>12}").expect("a String takes everything");
        }
    }
    text
}

/// One failure: what the behaviour says, what was asked, what was expected, what came.
pub fn failure(outcome: &Outcome) -> Option<String> {
    let Verdict::Broken(failure) = &outcome.verdict else { return None };
    let mut text = format!("{}: {}\n  asked     {}", outcome.behaviour.id, outcome.behaviour.says, failure.what);
    for line in &failure.unmet {
        write!(text, "\n  unmet     {line}").expect("a String takes everything");
    }
    if !failure.got.is_empty() {
        write!(text, "\n  got       {}", failure.got).expect("a String takes everything");
    }
    Some(text)
}

pub fn json(outcomes: &[Outcome], server: &str) -> Value {
    let one = |outcome: &Outcome| {
        let behaviour = &outcome.behaviour;
        let mut value = json!({
            "id": behaviour.id, "area": behaviour.area, "owner": behaviour.owner, "says": behaviour.says, "from": behaviour.from,
            "standing": format!("{:?}", standing(outcome)).to_lowercase(), "milliseconds": outcome.took.as_millis() as u64,
        });
        if let State::Pending(why) = &behaviour.state {
            value["pending"] = json!(why);
        }
        if let Verdict::Broken(failure) = &outcome.verdict {
            value["failure"] = json!({"asked": failure.what, "unmet": failure.unmet, "got": failure.got});
        }
        value
    };
    json!({"server": server, "behaviours": outcomes.iter().map(one).collect::<Vec<_>>()})
}

/// One suite per area; a pending behaviour counts as skipped there.
pub fn junit(outcomes: &[Outcome]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (area, all) in by_area(outcomes) {
        let [_, failed, pending, _, skipped] = counts(all.iter().copied());
        let (tests, skipped) = (all.len(), pending + skipped);
        writeln!(text, "  <testsuite name=\"{area}\" tests=\"{tests}\" failures=\"{failed}\" skipped=\"{skipped}\">")
            .expect("a String takes everything");
        for outcome in all {
            let seconds = outcome.took.as_secs_f64();
            write!(text, "    <testcase classname=\"{area}\" name=\"{}\" time=\"{seconds:.3}\"", outcome.behaviour.id)
                .expect("a String takes everything");
            let inside = match standing(outcome) {
                Standing::Passed | Standing::Promotable => String::new(),
                Standing::Failed => format!("<failure>{}</failure>", escape(&failure(outcome).unwrap_or_default())),
                Standing::Pending | Standing::Skipped => "<skipped/>".to_owned(),
            };
            text.push_str(&if inside.is_empty() { "/>\n".to_owned() } else { format!(">{inside}</testcase>\n") });
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn escape(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control() || *c == '\n').collect::<String>();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The score by area, and what is pending with its reason.
pub fn markdown(outcomes: &[Outcome], version: &str) -> String {
    let mut text = format!(
        "Against {version}: {} behaviours hold.\n\n| area | holds | pending |\n|---|---|---|\n",
        score(counts(outcomes))
    );
    for (area, all) in by_area(outcomes) {
        let counts = counts(all.iter().copied());
        writeln!(text, "| {area} | {} | {} |", score(counts), counts[Standing::Pending as usize])
            .expect("a String takes everything");
    }
    let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
    for outcome in outcomes.iter().filter(|outcome| standing(outcome) == Standing::Pending) {
        if let State::Pending(why) = &outcome.behaviour.state {
            reasons.entry(why).or_default().push(&outcome.behaviour.id);
        }
    }
    if !reasons.is_empty() {
        text.push_str("\n| pending | why |\n|---|---|\n");
    }
    for (why, ids) in reasons {
        let ids: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
        writeln!(text, "| {} | {why} |", ids.join(", ")).expect("a String takes everything");
    }
    text
}

const BEGIN: &str = "<!-- score: begin -->\n";
const END: &str = "<!-- score: end -->";

/// The page with the score between its two marks replaced.
pub fn into_page(page: &str, score: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{score}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{Behaviour, Body, Need};
    use crate::exchange::Failure;
    use std::sync::Arc;
    use std::time::Duration;

    fn outcome(id: &str, state: State, verdict: Verdict) -> Outcome {
        let behaviour = Behaviour {
            id: id.into(),
            area: "lists".into(),
            says: "it holds".into(),
            from: "f".into(),
            owner: "o".into(),
            state,
            needs: [].into(),
            alone: false,
            cases: Vec::new(),
            body: Body::Steps(Vec::new()),
            cleanup: Vec::new(),
        };
        Outcome { behaviour: Arc::new(behaviour), verdict, took: Duration::from_millis(1500) }
    }

    fn some() -> Vec<Outcome> {
        let broken =
            || Verdict::Broken(Failure { what: "GET /x".into(), unmet: vec!["a < b".into()], got: "{}".into() });
        let pending = || State::Pending("soon".into());
        vec![
            outcome("a.a", State::Passes, Verdict::Holds),
            outcome("a.b", State::Passes, broken()),
            outcome("a.c", pending(), broken()),
            outcome("a.d", pending(), Verdict::Holds),
            outcome("a.e", State::Passes, Verdict::Skipped(Need::Nodes)),
        ]
    }

    #[test]
    fn every_standing_is_counted() {
        use Standing::{Failed, Passed, Pending, Promotable, Skipped};
        assert_eq!(some().iter().map(standing).collect::<Vec<_>>(), [Passed, Failed, Pending, Promotable, Skipped]);
        let text = table(&some());
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["all", "2/4", "1", "1", "1", "1", "1"]);
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_failure_says_what_was_asked_and_what_came() {
        let all = some();
        assert_eq!(failure(&all[1]).unwrap(), "a.b: it holds\n  asked     GET /x\n  unmet     a < b\n  got       {}");
        assert_eq!(failure(&all[0]), None);
    }

    #[test]
    fn machines_get_the_same() {
        let text = junit(&some());
        assert!(text.contains("tests=\"5\" failures=\"1\" skipped=\"2\"") && text.contains("a &lt; b"), "{text}");
        assert!(text.contains("name=\"a.a\" time=\"1.500\"/>"), "{text}");
        let value = json(&some(), "s");
        assert_eq!(
            (&value["behaviours"][2]["pending"], &value["behaviours"][2]["standing"]),
            (&json!("soon"), &json!("pending"))
        );
        let page = markdown(&some(), "v1");
        assert!(page.contains("| lists | 2/4 | 1 |") && page.contains("| `a.c` | soon |"), "{page}");
        let whole = into_page("x\n<!-- score: begin -->\nold\n<!-- score: end -->\ny", "new\n").unwrap();
        assert_eq!(whole, "x\n<!-- score: begin -->\nnew\n<!-- score: end -->\ny");
        assert_eq!(into_page("x", "new"), None);
    }
}
