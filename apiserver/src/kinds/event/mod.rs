//! What an Event means to the API: it stands in the namespace of what it is about, and reads as one line. It never decides how
//! long it lives.

use super::value::{at, i64_at, str_at};
use super::{Column, Ctx, Selectable, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct Event;

impl Strategy for Event {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let (namespace, about) = (str_at(new, "metadata.namespace"), str_at(new, "involvedObject.namespace"));
        let fits = if about.is_empty() { matches!(namespace, "default" | "kube-system") } else { about == namespace };
        if !fits {
            errors.invalid("involvedObject.namespace", about, "does not match event.namespace");
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Last Seen", "Time since it was last seen."),
            Column::text("Type", "Normal or Warning."),
            Column::text("Reason", "Why, in one word."),
            Column::text("Object", "What it is about."),
            Column::text("Subobject", "The part of the object that it is about.").wide(),
            Column::text("Source", "Who reported it.").wide(),
            Column::text("Message", "What happened."),
            Column::text("First Seen", "Time since it was first seen.").wide(),
            Column::text("Count", "How often it was seen.").wide(),
            Column { priority: 1, ..Column::NAME },
        ];
        COLUMNS
    }

    fn row(&self, event: &Value, now: Timestamp) -> Vec<Value> {
        let first = at(event, "firstTimestamp").or_else(|| at(event, "eventTime")).unwrap_or(&Value::Null);
        let last = at(event, "series.lastObservedTime").or_else(|| at(event, "lastTimestamp")).unwrap_or(first);
        let count = i64_at(event, "series.count").or_else(|| i64_at(event, "count")).filter(|n| *n > 0).unwrap_or(1);
        vec![
            columns::since(last, now),
            event["type"].clone(),
            event["reason"].clone(),
            target(event).into(),
            str_at(event, "involvedObject.fieldPath").into(),
            source(event).into(),
            str_at(event, "message").trim().into(),
            columns::since(first, now),
            count.into(),
            columns::name(event),
        ]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[
            Selectable::path("involvedObject.kind"),
            Selectable::path("involvedObject.namespace"),
            Selectable::path("involvedObject.name"),
            Selectable::path("involvedObject.uid"),
            Selectable::path("involvedObject.apiVersion"),
            Selectable::path("involvedObject.resourceVersion"),
            Selectable::path("involvedObject.fieldPath"),
            Selectable::path("reason"),
            Selectable::path("reportingComponent"),
            Selectable::alias("source", "source.component"),
            Selectable::path("type"),
        ];
        FIELDS
    }
}

fn target(event: &Value) -> String {
    let kind = str_at(event, "involvedObject.kind").to_lowercase();
    match str_at(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let (component, host) = match str_at(event, "source.component") {
        "" => (str_at(event, "reportingComponent"), str_at(event, "reportingInstance")),
        component => (component, str_at(event, "source.host")),
    };
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn it_stands_beside_what_it_is_about() {
        let check = |namespace: &str, about: &str, fits: bool| {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
            assert_eq!(errors(&Event, &event, None) == "[]", fits, "{namespace} {about}");
        };
        check("a", "a", true);
        check("a", "b", false);
        check("default", "", true);
        check("a", "", false);
    }

    #[test]
    fn old_and_new_events_read_alike() {
        let old = json!({
            "type": "Normal", "reason": "Pulled", "message": " ok\n", "count": 3, "source": {"component": "kubelet", "host": "n"},
            "firstTimestamp": "1970-01-01T00:00:01Z", "lastTimestamp": "1970-01-01T00:00:12Z",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        });
        assert_eq!(
            row(&Event, &old),
            json!(["3s", "Normal", "Pulled", "pod/p", "spec.containers{c}", "kubelet, n", "ok", "14s", 3, "x"])
        );
        let new = json!({
            "type": "Warning", "reason": "Failed", "message": "no", "reportingComponent": "c", "reportingInstance": "i",
            "eventTime": "1970-01-01T00:00:05.500000Z", "involvedObject": {"kind": "Node"},
            "series": {"count": 9, "lastObservedTime": "1970-01-01T00:00:14.000000Z"},
        });
        assert_eq!(row(&Event, &new), json!(["1s", "Warning", "Failed", "node", "", "c, i", "no", "10s", 9, "x"]));
    }
}
