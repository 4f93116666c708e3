//! Whether another server can be reached at all, from its Service and EndpointSlices. Decides reasons and texts as Kubernetes words
//! them; whether the server answers is `look`'s.

use super::AVAILABLE;
use crate::custom::set_condition;
use crate::kinds::value::{items, str_at};
use crate::outbound::dial::{Place, port_of};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

/// The verdict that becomes the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub available: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Verdict {
    pub fn passed() -> Self {
        Self { available: true, reason: "Passed", message: "all checks passed".to_owned() }
    }

    pub fn failed(reason: &'static str, message: String) -> Self {
        Self { available: false, reason, message }
    }

    /// The object with this verdict in its status.
    pub fn told(&self, object: &Value, now: Timestamp) -> Value {
        let mut new = object.clone();
        let mut conditions = items(object, "status.conditions").to_vec();
        let status = if self.available { "True" } else { "False" };
        set_condition(&mut conditions, AVAILABLE, status, self.reason, &self.message, now);
        new["status"]["conditions"] = conditions.into();
        new
    }

    pub fn is_told(&self, object: &Value) -> bool {
        let status = if self.available { "True" } else { "False" };
        items(object, "status.conditions").iter().any(|one| {
            let texts = ["type", "status", "reason", "message"].map(|field| str_at(one, field));
            texts == [AVAILABLE, status, self.reason, self.message.as_str()]
        })
    }
}

/// Why nothing can stand behind this Service; `Ok` when something may.
pub fn reachable(place: &Place) -> Result<(), Verdict> {
    reach(&place.namespace, &place.name, place.port, place.service().as_ref(), &place.slices())
}

fn reach(namespace: &str, name: &str, port: u16, service: Option<&Value>, slices: &[Value]) -> Result<(), Verdict> {
    let Some(service) = service else {
        return Err(Verdict::failed("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")));
    };
    // Other types lead somewhere without endpoints of ours.
    if !["", "ClusterIP"].contains(&str_at(service, "spec.type")) {
        return Ok(());
    }
    let Some(port_name) = port_of(service, port).map(|entry| str_at(entry, "name")) else {
        let text = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Err(Verdict::failed("ServicePortError", text));
    };
    if slices.is_empty() {
        let text = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Err(Verdict::failed("EndpointsNotFound", text));
    }
    let active = |slice: &Value| {
        items(slice, "endpoints").iter().any(|one| one["conditions"]["ready"] != false)
            && items(slice, "ports").iter().any(|one| str_at(one, "name") == port_name && one["port"].is_u64())
    };
    if !slices.iter().any(active) {
        let text = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return Err(Verdict::failed("MissingEndpoints", text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_named_as_kubernetes_does() {
        let service = json!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}});
        let slice = |ready: bool, port: &str| json!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}], "ports": [{"name": port, "port": 8443}]});
        let check = |service: Option<&Value>, port: u16, slices: &[Value], expect: &str| {
            let text = match reach("ns", "s", port, service, slices) {
                Ok(()) => String::new(),
                Err(verdict) => format!("{} {}", verdict.reason, verdict.message),
            };
            assert_eq!(text, expect);
        };
        check(None, 443, &[], "ServiceNotFound service/s in \"ns\" is not present");
        check(Some(&service), 80, &[], "ServicePortError service/s in \"ns\" is not listening on port 80");
        check(Some(&service), 443, &[], "EndpointsNotFound cannot find endpointslices for service/s in \"ns\"");
        let missing =
            "MissingEndpoints endpointslices for service/s in \"ns\" have no addresses with port name \"https\"";
        check(Some(&service), 443, &[slice(false, "https")], missing);
        check(Some(&service), 443, &[slice(true, "other")], missing);
        check(Some(&service), 443, &[slice(false, "https"), slice(true, "https")], "");
        let elsewhere = json!({"spec": {"type": "ExternalName", "externalName": "example.org"}});
        check(Some(&elsewhere), 443, &[], "");
    }

    #[test]
    fn the_time_moves_with_the_status_alone() {
        let first = Verdict::failed("ServiceNotFound", "m".into()).told(&json!({}), Timestamp::from_secs(1));
        let second = Verdict::failed("EndpointsNotFound", "n".into());
        assert!(!second.is_told(&first));
        let second_told = second.told(&first, Timestamp::from_secs(9));
        assert!(second.is_told(&second_told));
        let time = |object: &Value| object["status"]["conditions"][0]["lastTransitionTime"].clone();
        assert_eq!(time(&second_told), time(&first));
        let passed = Verdict::passed().told(&second_told, Timestamp::from_secs(9));
        assert_ne!(time(&passed), time(&first));
        assert_eq!(passed["status"]["conditions"].as_array().unwrap().len(), 1);
    }
}
