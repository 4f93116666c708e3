//! Why one pod waits, in words. Pure.

use super::machines::{preempting, tables, why};
use super::report::{Gang, Queued, Report, TeamShare, count, victims};
use crate::render::cell;
use gantry_apimachinery::time::{Timestamp, age, human_duration};
use serde_json::Value;

/// What the pod itself says, where no scheduler needs to be asked: as the end of "pod a/b …".
pub fn settled(pod: &Value) -> Option<String> {
    let (phase, node) = (&pod["status"]["phase"], &pod["spec"]["nodeName"]);
    if phase == "Succeeded" || phase == "Failed" {
        return Some(format!("has ended ({}): it needs no machine", cell(phase)));
    }
    if node.is_string() {
        let since = condition(pod).map(|scheduled| format!(" since {}", cell(&scheduled["lastTransitionTime"])));
        return Some(format!("has its machine{}: {}", since.unwrap_or_default(), cell(node)));
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return Some("is being deleted: it gets no machine any more".to_owned());
    }
    let gates = pod["spec"]["schedulingGates"].as_array().into_iter().flatten();
    let gates: Vec<String> = gates.map(|gate| cell(&gate["name"])).collect();
    match gates.as_slice() {
        [] => None,
        [one] => Some(format!(
            "is held back by its scheduling gate {one}: no scheduler looks at it until whoever set it takes it away"
        )),
        many => Some(format!(
            "is held back by its scheduling gates {}: no scheduler looks at it until whoever set them takes them away",
            many.join(", ")
        )),
    }
}

pub fn condition(pod: &Value) -> Option<&Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "PodScheduled")
}

/// The answer in one line, as the end of "pod a/b waits: …".
pub fn verdict(report: &Report) -> String {
    let state = report.queue.as_ref().map_or("", |queue| queue.state.as_str());
    if let Some(room) = &report.making_room {
        let who = victims(&room.victims, room.victims_elsewhere);
        return match (room.victims.len() + room.victims_elsewhere, room.kept_for_seconds) {
            (0, Some(_)) => {
                format!(
                    "no machine has room for it; {} is kept for it while others there end by themselves",
                    room.machine
                )
            }
            (0, None) => format!("room was made for it on {}: it is about to be placed", room.machine),
            _ => format!("{who} on {} must end first, to make way for it", room.machine),
        };
    }
    if let Some(gang) = report.gang.as_ref().filter(|_| state != "Binding")
        && let Some(verdict) = of_gang(gang, report)
    {
        return verdict;
    }
    match report.feasible {
        0 if report.machines == 0 => "there is no machine yet".to_owned(),
        0 => format!("no machine of {} takes it: {}", report.machines, why(report)),
        _ if state == "Binding" => "it was decided on just now: its machine is being written".to_owned(),
        some => format!("{some} of {} would take it now: it is about to be placed", count(report.machines, "machine")),
    }
}

fn of_gang(gang: &Gang, report: &Report) -> Option<String> {
    let Some(min) = gang.min_member else {
        return Some(format!("nobody says how many pods its group {} has: make a PodGroup of that name", gang.name));
    };
    let (min, waiting) = (min as usize, gang.exist - gang.placed);
    if gang.placed >= min {
        return None;
    }
    if gang.exist < min {
        return Some(format!(
            "its group {} starts with {min} pods at once, and {} of them exist",
            gang.name, gang.exist
        ));
    }
    let lacks = match (why(report), report.feasible) {
        (none, _) if none.is_empty() => none,
        (alone, 0) => format!(": {alone}"),
        (next, _) => format!("; the next would not fit: {next}"),
    };
    let needed = min - gang.placed;
    (gang.fit < needed.min(waiting)).then(|| {
        format!(
            "its group {} starts with {min} pods at once, and there is room for {} of them{lacks}",
            gang.name,
            gang.placed + gang.fit
        )
    })
}

/// Everything, the verdict first.
pub fn text(about: &str, pod: &Value, report: &Report, now: Timestamp) -> String {
    let mut parts = vec![format!("{about} waits: {}", verdict(report))];
    parts.extend(tables(report));
    let mut rest = Vec::new();
    if let Some(preemption) = report.preemption.as_ref().filter(|_| report.making_room.is_none()) {
        rest.push(("Preemption", preempting(preemption)));
    }
    if let Some(room) = &report.making_room {
        rest.push((
            "Preemption",
            room.kept_for_seconds.map_or_else(
                || "under way: nobody else gets the room".to_owned(),
                |seconds| {
                    format!("nobody is ended; the machine is kept for {} more", human_duration(seconds.cast_signed()))
                },
            ),
        ));
    }
    rest.extend(report.gang.as_ref().map(|gang| ("Group", group(gang))));
    rest.extend(report.queue.as_ref().map(|queue| ("Queue", queued(queue))));
    rest.extend(report.team.as_ref().map(|team| ("Team", of_team(team))));
    let created = pod["metadata"]["creationTimestamp"].as_str().and_then(|text| Timestamp::parse(text).ok());
    rest.push(("Waits", format!("for {}; band {}, priority {}", age(created, now), report.band, report.priority)));
    let rest: Vec<String> =
        rest.into_iter().map(|(title, line)| format!("{:<12}{line}", format!("{title}:"))).collect();
    parts.push(rest.join("\n"));
    parts.join("\n\n")
}

fn group(gang: &Gang) -> String {
    let needs = match (gang.min_member, gang.has_object) {
        (None, _) => "says nowhere how many it needs".to_owned(),
        (Some(min), true) => format!("needs {min} at once"),
        (Some(min), false) => format!("needs {min} at once, by the label gantry.dev/min-member"),
    };
    let waiting = gang.exist - gang.placed;
    let mut line = format!("{} {needs}; {} exist, {} have a machine", gang.name, gang.exist, gang.placed);
    if waiting > 0 {
        line.push_str(&format!(", {} of the other {waiting} would find a place now", gang.fit));
    }
    line
}

fn queued(queue: &Queued) -> String {
    let within = queue.again_in_seconds.map(|seconds| human_duration(seconds.cast_signed())).unwrap_or_default();
    let state = match queue.state.as_str() {
        "Ready" => "it is looked at as soon as it is its turn".to_owned(),
        "Waiting" => format!("it is looked at again in {within}"),
        "Sleeping" => format!("it sleeps until something happens that could help, {within} at most"),
        "Gang" => "it sleeps until its group is complete".to_owned(),
        _ => "it is being decided".to_owned(),
    };
    let ahead = match queue.ahead {
        0 => "no ready pod goes before it".to_owned(),
        1 => "1 ready pod goes before it".to_owned(),
        many => format!("{many} ready pods go before it"),
    };
    format!("{state}; {ahead}; looked at {} before", count(queue.attempts as usize, "time"))
}

fn of_team(team: &TeamShare) -> String {
    let (verb, whose) = if team.before == 1 { ("has", "its") } else { ("have", "their") };
    let others = team.teams.saturating_sub(1);
    format!(
        "{} has {:.1} % of the cluster by its weight, now and of late; {} of {} {verb} less: {whose} pods go first",
        team.name,
        team.share * 100.0,
        team.before,
        count(others, "other team"),
    )
}
