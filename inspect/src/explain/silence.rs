//! What is said when no scheduler answered: who should have, and what the pod last heard. Pure.

use super::ask::Lease;
use super::pod::condition;
use crate::render::cell;
use gantry_apimachinery::time::{Timestamp, human_duration};
use serde_json::Value;
use std::time::Duration;

const NAME: &str = "kube-system/kube-scheduler";

pub fn said(lease: &Lease, pod: Option<&Value>, patience: Duration, now: Timestamp) -> String {
    let mut lines = vec![format!("no scheduler answered within {}", human_duration(patience.as_secs().cast_signed()))];
    lines.push(match lease {
        Lease::Hidden => format!("who should have, you may not see: the Lease {NAME} says it"),
        Lease::Missing => format!("there is no Lease {NAME}: no scheduler ever led (that of `gantry up` needs none)"),
        Lease::Seen(lease) => holder(lease, now),
    });
    if let Some(pod) = pod {
        lines.push(match condition(pod) {
            Some(scheduled) if scheduled["message"].is_string() => {
                format!("the pod's condition says: {}", cell(&scheduled["message"]))
            }
            _ => "the pod's conditions say nothing: no scheduler has looked at it".to_owned(),
        });
        let named = &pod["spec"]["schedulerName"];
        if named.is_string() && named != super::USUAL {
            lines.push(format!("the pod asks for the scheduler {}", cell(named)));
        }
    }
    lines.join("\n  ")
}

fn holder(lease: &Value, now: Timestamp) -> String {
    let spec = &lease["spec"];
    let who = spec["holderIdentity"].as_str().unwrap_or_default();
    if who.is_empty() {
        return format!("nobody holds the Lease {NAME}: no scheduler leads");
    }
    let renewed = spec["renewTime"].as_str().and_then(|text| Timestamp::parse(text).ok());
    let Some(renewed) = renewed else { return format!("the Lease {NAME} is held by {who}, and was never renewed") };
    let (since, lasts) = (now.since(renewed), spec["leaseDurationSeconds"].as_u64().unwrap_or(0));
    let ago = human_duration(since.as_secs().cast_signed());
    let meaning = if since.as_secs() > lasts {
        "that is too long ago: it has stopped, or does not reach the API server"
    } else {
        "it leads, and is busy or does not answer questions"
    };
    format!("the Lease {NAME} is held by {who}, renewed {ago} ago (it lasts {lasts}s): {meaning}")
}
