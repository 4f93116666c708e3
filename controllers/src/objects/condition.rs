//! Conditions: a statement about an object with the time at which its truth last changed. Decides when that time moves;
//! never which conditions an object has.

use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The union of the fields that the kinds' conditions have. Absent ones are not written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Condition {
    /// A condition whose truth changed at `now`.
    pub fn new(kind: &str, status: &str, reason: &str, message: impl Into<String>, now: Timestamp) -> Self {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: Some(now.truncated_to_secs()),
            ..Self::default()
        }
    }

    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// Puts `new` in the place of the condition of its type. One of the same status and reason stays as it is, so that an
/// unchanged statement is never rewritten; one of the same status keeps its transition time.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) {
    let known = |old: &Condition| old.kind == new.kind && old.status == new.status && old.reason == new.reason;
    if !conditions.iter().any(known) {
        replace_condition(conditions, new);
    }
}

/// The same for a condition whose message counts something, and has to be right.
pub fn replace_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions.iter_mut().find(|c| c.kind == new.kind) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let at = Timestamp::from_secs;
        let mut have = vec![Condition::new("A", "True", "X", "m", at(1))];
        set_condition(&mut have, Condition::new("A", "True", "X", "other words", at(2)));
        assert_eq!(have, vec![Condition::new("A", "True", "X", "m", at(1))]);
        replace_condition(&mut have, Condition::new("A", "True", "X", "m", at(3)));
        assert_eq!(have, vec![Condition::new("A", "True", "X", "m", at(1))]);
        let mut counted = have.clone();
        replace_condition(&mut counted, Condition::new("A", "True", "X", "fewer", at(3)));
        assert_eq!(counted, vec![Condition::new("A", "True", "X", "fewer", at(1))]);
        set_condition(&mut have, Condition::new("A", "True", "Y", "m", at(3)));
        assert_eq!((have[0].reason.as_str(), have[0].last_transition_time), ("Y", Some(at(1))));
        set_condition(&mut have, Condition::new("A", "False", "Y", "m", at(4)));
        assert_eq!(have[0].last_transition_time, Some(at(4)));
        set_condition(&mut have, Condition::new("B", "True", "", "", at(5)));
        assert_eq!(have.len(), 2);
    }
}
