//! `events.k8s.io/v1 Event` from and to the core group's, which is what is stored. Decides which field is which.

use super::Pair;
use serde_json::Value;

pub const PAIR: Pair =
    Pair { group: "events.k8s.io", version: "v1", plural: "events", to_wire, from_wire, label: Some(label) };

/// (core, events.k8s.io)
const FIELDS: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

fn renamed(mut object: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    if let Some(map) = object.as_object_mut() {
        *map = std::mem::take(map)
            .into_iter()
            .map(|(key, value)| (name(&key).map_or(key, str::to_owned), value))
            .collect();
    }
    object["apiVersion"] = api_version.into();
    object
}

fn to_wire(object: Value) -> Value {
    renamed(object, "events.k8s.io/v1", |key| FIELDS.iter().find(|(core, _)| *core == key).map(|(_, new)| *new))
}

fn from_wire(object: Value) -> Value {
    renamed(object, "v1", |key| FIELDS.iter().find(|(_, new)| *new == key).map(|(core, _)| *core))
}

/// The stored event's name of a field that selects.
fn label(field: &str) -> String {
    match field {
        "reportingController" => "reportingComponent".to_owned(),
        field => match field.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None => field.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_change_their_names_and_come_back() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m",
            "reason": "r", "source": {"component": "c"}, "count": 2, "type": "Normal"});
        let new = to_wire(core.clone());
        let expect = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "m",
            "reason": "r", "deprecatedSource": {"component": "c"}, "deprecatedCount": 2, "type": "Normal"});
        assert_eq!(new, expect);
        assert_eq!(from_wire(new), core);
        assert_eq!((label("regarding.name").as_str(), label("reason").as_str()), ("involvedObject.name", "reason"));
    }
}
