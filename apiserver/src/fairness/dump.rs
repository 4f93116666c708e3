//! The queues as tables of text, as Kubernetes' debug endpoints print them. Decides columns; changes nothing.

use super::Fairness;
use super::level::Tag;
use super::queues::{Job, Micros};
use crate::http::{Query, Target, Verb};
use crate::pipeline::attributes;
use gantry_apimachinery::fields::FieldSelector;
use gantry_apimachinery::time::Timestamp;

/// How Go writes no time at all.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// `what`: the last step of the path. `None` when there is no such table.
pub fn dump(fairness: &Fairness, what: &str, query: &Query) -> Option<String> {
    let rows = match what {
        "dump_priority_levels" => levels(fairness),
        "dump_queues" => queues(fairness),
        "dump_requests" => {
            requests(fairness, query.get("includeRequestDetails").is_some_and(|value| !value.is_empty()))
        }
        _ => return None,
    };
    Some(table(&rows))
}

type Row = Vec<String>;

fn row(cells: &[&str]) -> Row {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn levels(fairness: &Fairness) -> Vec<Row> {
    let mut rows = vec![row(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ])];
    for level in &fairness.active.load().levels {
        rows.push(level.level.look(|queues, _| {
            let active = queues.queues().filter(|(_, queue)| !queue.waiting.is_empty()).count();
            let idle = queues.executing() + queues.waiting() == 0;
            let counts = queues.counts;
            let mut row = vec![level.spec.name.to_string(), active.to_string(), idle.to_string(), "false".to_owned()];
            row.extend([queues.waiting(), queues.executing()].map(|n| n.to_string()));
            let more = [counts.dispatched, counts.rejected, counts.timed_out, counts.cancelled];
            row.extend(more.map(|n| n.to_string()));
            row
        }));
    }
    rows
}

/// The queues that are in use: one that is not has nothing to show.
fn queues(fairness: &Fairness) -> Vec<Row> {
    let mut rows = vec![row(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ])];
    for level in &fairness.active.load().levels {
        level.level.look(|queues, _| {
            for (at, queue) in queues.queues() {
                let mut row = vec![level.spec.name.to_string(), at.to_string()];
                row.extend([queue.waiting.len(), queue.executing, queue.seats_in_use].map(|n| n.to_string()));
                row.push(seat_seconds(queue.clock));
                row.extend([queue.waiting_seats; 2].map(|n| n.to_string()));
                row.push(seat_seconds(queues.work_waiting(queue)));
                rows.push(row);
            }
        });
    }
    rows
}

fn seat_seconds(micros: u64) -> String {
    format!("{:.8}ss", micros as f64 / 1e6)
}

/// Those that wait, and those that run (with no index in their queue).
fn requests(fairness: &Fairness, details: bool) -> Vec<Row> {
    let mut head = row(&[
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ]);
    if details {
        let more = ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
        head.extend(row(&more));
    }
    let mut rows = vec![head];
    for level in &fairness.active.load().levels {
        level.level.look(|queues, _| {
            for (id, job) in queues.jobs() {
                let queue = queues.queues().find(|(at, _)| Some(*at) == job.queue).map(|(_, queue)| queue);
                let place = queue.and_then(|queue| queue.waiting.iter().position(|other| *other == id));
                rows.push(request(&level.spec.name, job, place, details));
            }
        });
    }
    rows
}

fn request(level: &str, job: &Job<Tag>, place: Option<usize>, details: bool) -> Row {
    let Job { tag, seats, queue, arrived, started, .. } = job;
    let query = Query::parse(tag.uri.query());
    let target = Target::parse(&tag.method, tag.uri.path(), &query);
    let selector = FieldSelector::everything();
    let what = match &target {
        Target::Resource { verb, path } => attributes(verb.map_or("", Verb::as_str), path, &selector),
        Target::NonResource { .. } => Default::default(),
    };
    let number = |n: Option<usize>| n.map_or_else(|| "-1".to_owned(), |n| n.to_string());
    let mut row = vec![level.to_owned(), tag.schema.name.to_string(), number(*queue), number(place)];
    row.push(shown(tag.schema.distinguish(&tag.user, what.namespace)));
    row.push(tag.came.to_micro_string());
    let last = if tag.work.after_us > 0 { *seats } else { 0 };
    row.extend([seats.to_string(), last.to_string(), after(tag.work.after_us)]);
    row.push(started.map_or_else(|| NEVER.to_owned(), |started| later(tag.came, started.saturating_sub(*arrived))));
    if details {
        let verb = match &target {
            Target::Resource { .. } => what.verb.to_owned(),
            Target::NonResource { .. } => tag.method.as_str().to_lowercase(),
        };
        let version = match &target {
            Target::Resource { path, .. } if path.group.is_empty() => path.version.clone(),
            Target::Resource { path, .. } => format!("{}/{}", path.group, path.version),
            Target::NonResource { .. } => String::new(),
        };
        row.extend([shown(&tag.user), verb, shown(tag.uri.path()), shown(what.namespace), shown(what.name)]);
        row.extend([shown(&version), shown(what.resource), shown(what.subresource)]);
    }
    row
}

/// What a client chose must not look like another line.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn later(came: Timestamp, by: Micros) -> String {
    Timestamp::from_micros(came.micros().saturating_add_unsigned(by)).to_micro_string()
}

/// As Go writes durations of less than a second.
fn after(micros: Micros) -> String {
    match micros {
        0 => "0s".to_owned(),
        1..1_000 => format!("{micros}µs"),
        _ => format!("{}ms", micros as f64 / 1e3),
    }
}

/// Columns of equal width, parted by commas.
fn table(rows: &[Row]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, (cell, width)): (usize, (&String, &usize))| {
            let last = column + 1 == row.len();
            if last { cell.clone() } else { format!("{:<w$}", format!("{cell},"), w = width + 1) }
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        text.push_str(&cells.join(" "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let text = table(&[row(&["Name", "N"]), row(&["longer-name", "12"])]);
        assert_eq!(text, "Name,        N\nlonger-name, 12\n");
    }

    #[test]
    fn durations_read_as_go_writes_them() {
        assert_eq!([0, 7, 1_500, 20_000].map(after), ["0s", "7µs", "1.5ms", "20ms"]);
    }
}
