//! What may be asked of a container's log. Pure: the rules of `PodLogOptions`, worded as Kubernetes words them.

use crate::http::{Outcome, Query};
use gantry_apimachinery::status::{FieldErrors, Status};

const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

/// Refuses options that make no sense.
pub fn check(pod: &str, query: &Query) -> Outcome<()> {
    let mut errors = FieldErrors::new();
    let tail = number(query, "tailLines")?;
    if let Some(lines) = tail.filter(|lines| *lines < 0) {
        errors.invalid("tailLines", lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = number(query, "limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.invalid("limitBytes", bytes, "must be greater than 0");
    }
    let since = number(query, "sinceSeconds")?;
    match since {
        Some(_) if query.get("sinceTime").is_some() => {
            errors.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        Some(seconds) if seconds < 1 => errors.invalid("sinceSeconds", seconds, "must be greater than 0"),
        _ => {}
    }
    if let Some(stream) = query.get("stream") {
        if !STREAMS.contains(&stream) {
            errors.not_supported("stream", stream, &STREAMS);
        } else if stream != "All" && tail.is_some() {
            errors.forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now");
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("PodLogOptions", pod, &errors).into()) }
}

fn number(query: &Query, name: &str) -> Outcome<Option<i64>> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| Status::bad_request(format!("the query's {name} must be a number, not {text:?}")).into())
    };
    query.get(name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let asked = |query: &str, expect: &str| {
            let told = match check("p", &Query::parse(Some(query))) {
                Ok(()) => String::new(),
                Err(status) => format!("{} {}", status.code(), status.message),
            };
            assert_eq!(told, expect, "{query}");
        };
        asked("follow=true&tailLines=0&limitBytes=1&sinceSeconds=1&stream=All", "");
        asked("sinceTime=2026-01-01T00:00:00Z&stream=Stderr", "");
        let invalid = |what: &str| format!("422 PodLogOptions \"p\" is invalid: {what}");
        asked("tailLines=-1", &invalid("tailLines: Invalid value: -1: must be greater than or equal to 0"));
        asked("limitBytes=0", &invalid("limitBytes: Invalid value: 0: must be greater than 0"));
        asked("sinceSeconds=0", &invalid("sinceSeconds: Invalid value: 0: must be greater than 0"));
        asked(
            "stream=both",
            &invalid("stream: Unsupported value: \"both\": supported values: \"All\", \"Stderr\", \"Stdout\""),
        );
        asked("tailLines=x", "400 the query's tailLines must be a number, not \"x\"");
        let both = check("p", &Query::parse(Some("sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z"))).unwrap_err();
        assert!(
            both.message.contains("at most one of `sinceTime` or `sinceSeconds` may be specified"),
            "{}",
            both.message
        );
        let mixed = check("p", &Query::parse(Some("stream=Stdout&tailLines=5"))).unwrap_err();
        assert!(mixed.message.contains("mutually exclusive"), "{}", mixed.message);
    }
}
