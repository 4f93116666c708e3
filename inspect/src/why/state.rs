//! What objects say of themselves: conditions, counts, events; and what claims and services lack. Pure.

use super::holds::is_going;
use crate::render::cell;
use serde_json::Value;

/// Conditions that tell of trouble: those that are False, and of `bad` ones (whose name is a trouble) those that are True.
pub fn bad_conditions(object: &Value, bad: &[&str]) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let troubled = conditions.filter(|condition| {
        let name = condition["type"].as_str().unwrap_or_default();
        let names_trouble = bad.contains(&name) || name.ends_with("Failure") || name.ends_with("Pressure");
        condition["status"] == if names_trouble { "True" } else { "False" }
    });
    troubled
        .map(|condition| {
            let since = condition["lastTransitionTime"].as_str().map_or_else(String::new, |at| format!(" since {at}"));
            let why = match condition["message"].as_str().filter(|text| !text.is_empty()) {
                Some(message) => message.to_owned(),
                None => cell(&condition["reason"]),
            };
            format!("{} is {}{since}: {why}", cell(&condition["type"]), cell(&condition["status"]))
        })
        .collect()
}

/// A workload that does not have what it wants yet.
pub fn behind(object: &Value) -> Vec<String> {
    let status = &object["status"];
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let mut told = Vec::new();
    if count(&status["observedGeneration"]) < count(&object["metadata"]["generation"])
        && status["observedGeneration"].is_i64()
    {
        told.push("its controller has not seen its newest version yet".to_owned());
    }
    if object["spec"]["paused"] == true || object["spec"]["suspend"] == true {
        told.push("it is paused by its own spec".to_owned());
    }
    let wanted = [&object["spec"]["replicas"], &status["desiredNumberScheduled"]].into_iter().find_map(Value::as_i64);
    if let Some(wanted) = wanted {
        let ready = count(&status["readyReplicas"]).max(count(&status["numberReady"]));
        if ready < wanted {
            let there = count(&status["replicas"]).max(count(&status["currentNumberScheduled"]));
            told.push(format!("{ready} of {wanted} pods are ready; {there} are there"));
        }
    }
    told
}

/// `a=b,c=d` of plain labels; none for no labels.
pub fn selector(labels: &Value) -> Option<String> {
    let labels = labels.as_object().filter(|labels| !labels.is_empty())?;
    let pairs: Option<Vec<String>> =
        labels.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.map(|pairs| pairs.join(","))
}

pub fn claim(claim: &Value, class: Option<&Value>, pods: &[Value]) -> Vec<String> {
    let mut told = Vec::new();
    let name = cell(&claim["metadata"]["name"]);
    let uses = |pod: &&Value| {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == name.as_str())
    };
    if is_going(claim) {
        let users = pods.iter().filter(uses).map(|pod| format!("pod {} uses it", cell(&pod["metadata"]["name"])));
        told.extend(users);
    }
    if claim["status"]["phase"] != "Pending" {
        return told;
    }
    match (claim["spec"]["storageClassName"].as_str(), class) {
        (None | Some(""), _) => {
            told.push("it names no storage class, so it waits for a volume that somebody makes for it".into())
        }
        (Some(named), None) => told.push(format!("there is no storage class {named}")),
        (Some(named), Some(class)) => {
            let waits = class["volumeBindingMode"] == "WaitForFirstConsumer" && !pods.iter().any(|pod| uses(&pod));
            told.push(match waits {
                true => format!("storage class {named} waits for the first pod that uses it, and there is none"),
                false => format!("{} has not made a volume for it yet", cell(&class["provisioner"])),
            });
        }
    }
    told
}

pub fn service(service: &Value, slices: &[Value], pods: &[Value]) -> Vec<String> {
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
    if service["spec"]["type"] == "ExternalName" || endpoints.clone().any(|endpoint| ready(&endpoint)) {
        return Vec::new();
    }
    if selector(&service["spec"]["selector"]).is_none() {
        return vec!["it has no selector, and nobody made endpoints for it".into()];
    }
    match pods.len() {
        0 => vec!["no pod in its namespace has the labels that it selects".into()],
        all => vec![format!("it selects {all} pods, and none of them is ready")],
    }
}

/// The newest warnings, newest first.
pub fn warnings(events: &[Value], most: usize) -> Vec<String> {
    let when = |event: &Value| {
        let times = ["lastTimestamp", "eventTime", "firstTimestamp"].into_iter();
        times.filter_map(|key| event[key].as_str()).next().unwrap_or_default().to_owned()
    };
    let mut bad: Vec<&Value> = events.iter().filter(|event| event["type"] == "Warning").collect();
    bad.sort_by_key(|event| std::cmp::Reverse(when(event)));
    let line = |event: &&Value| format!("{} {}: {}", when(event), cell(&event["reason"]), cell(&event["message"]));
    bad.iter().take(most).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_that_tell_of_trouble() {
        let object = json!({"status": {"conditions": [
            {"type": "Available", "status": "False", "reason": "Few", "message": "too few pods", "lastTransitionTime": "t"},
            {"type": "Progressing", "status": "True", "reason": "Fine"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"},
            {"type": "DiskPressure", "status": "False"}]}});
        let expect = ["Available is False since t: too few pods", "ReplicaFailure is True: exceeded quota"];
        assert_eq!(bad_conditions(&object, &[]), expect);
    }

    #[test]
    fn workloads_tell_what_they_lack() {
        let object = json!({"metadata": {"generation": 3}, "spec": {"replicas": 3, "paused": true},
                            "status": {"observedGeneration": 2, "readyReplicas": 1, "replicas": 2}});
        let expect = [
            "its controller has not seen its newest version yet",
            "it is paused by its own spec",
            "1 of 3 pods are ready; 2 are there",
        ];
        assert_eq!(behind(&object), expect);
        assert!(behind(&json!({"spec": {"replicas": 1}, "status": {"readyReplicas": 1}})).is_empty());
        assert!(behind(&json!({"kind": "Job", "spec": {}, "status": {}})).is_empty());
    }

    #[test]
    fn claims_and_services_tell_what_they_wait_for() {
        let pending = |class: Value| json!({"metadata": {"name": "c"}, "spec": {"storageClassName": class}, "status": {"phase": "Pending"}});
        let user =
            json!({"metadata": {"name": "p"}, "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}});
        let class = json!({"provisioner": "acme", "volumeBindingMode": "WaitForFirstConsumer"});
        assert_eq!(claim(&pending(json!("fast")), None, &[]), ["there is no storage class fast"]);
        assert_eq!(
            claim(&pending(json!("fast")), Some(&class), &[])[0],
            "storage class fast waits for the first pod that uses it, and there is none"
        );
        assert_eq!(
            claim(&pending(json!("fast")), Some(&class), std::slice::from_ref(&user)),
            ["acme has not made a volume for it yet"]
        );
        assert!(claim(&pending(Value::Null), None, &[])[0].starts_with("it names no storage class"));
        let going = json!({"metadata": {"name": "c", "deletionTimestamp": "t"}, "status": {"phase": "Bound"}});
        assert_eq!(claim(&going, None, &[user]), ["pod p uses it"]);

        let web = json!({"spec": {"selector": {"app": "web"}}});
        let slice = |ready: bool| json!({"endpoints": [{"conditions": {"ready": ready}}]});
        assert_eq!(service(&web, &[], &[]), ["no pod in its namespace has the labels that it selects"]);
        assert_eq!(service(&web, &[slice(false)], &[json!({})]), ["it selects 1 pods, and none of them is ready"]);
        assert!(service(&web, &[slice(true)], &[]).is_empty());
        assert_eq!(service(&json!({"spec": {}}), &[], &[]), ["it has no selector, and nobody made endpoints for it"]);
    }

    #[test]
    fn the_newest_warnings_are_told() {
        let event = |kind: &str, at: &str| json!({"type": kind, "reason": "R", "message": at, "lastTimestamp": at});
        let events = [event("Warning", "1"), event("Normal", "2"), event("Warning", "3"), event("Warning", "2")];
        assert_eq!(warnings(&events, 2), ["3 R: 3", "2 R: 2"]);
    }
}
