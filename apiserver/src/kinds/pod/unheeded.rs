//! Names what a pod asks for and no node agent acts on: what is refused, because the pod would be less isolated or behave
//! otherwise than it says, and what is merely weaker than asked, which deserves a warning. Never decides whether a field is
//! well formed.

use crate::kinds::value::{at, items, str_at};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const NOT_SUPPORTED: &str = "not supported yet";
/// What a warning says of a field that is kept and has no effect; other kinds say the same.
pub const NOT_ACTED_UPON: &str = "stored, but not acted upon yet";
/// The volume sources that agents mount, and the one for which a pod waits.
const MOUNTED: [&str; 7] = ["emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected", CLAIM];
const CLAIM: &str = "persistentVolumeClaim";
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A field's path, and why it is refused.
type Refused = Vec<(String, String)>;

/// Refuses a pod that asks for what it would not get.
pub fn refuse(spec: &Value, errors: &mut FieldErrors) {
    refused(spec, "spec").into_iter().for_each(|(path, why)| errors.forbidden(path, why));
}

/// The same for the containers that are added to a running pod.
pub fn refuse_ephemeral(spec: &Value, errors: &mut FieldErrors) {
    let mut all = Refused::new();
    containers(spec, "ephemeralContainers", "spec", &mut all);
    all.into_iter().for_each(|(path, why)| errors.forbidden(path, why));
}

/// What the creator of a pod should know although the pod is accepted.
pub fn weaker(spec: &Value, path: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (position, volume) in items(spec, "volumes").iter().enumerate() {
        if is_given(volume, "emptyDir.sizeLimit") && str_at(volume, "emptyDir.medium") != "Memory" {
            all.push(format!("{path}.volumes[{position}].emptyDir.sizeLimit: {NOT_ACTED_UPON}"));
        }
        if is_given(volume, CLAIM) {
            all.push(format!("{path}.volumes[{position}].{CLAIM}: no volumes are mounted yet; the pod waits"));
        }
    }
    for list in LISTS {
        for (position, container) in items(spec, list).iter().enumerate() {
            if container["resources"]["limits"]["ephemeral-storage"].is_string() {
                let limit = "resources.limits[ephemeral-storage]";
                all.push(format!("{path}.{list}[{position}].{limit}: {NOT_ACTED_UPON}"));
            }
        }
    }
    all
}

/// What the creator of a template should know: which of its fields get its pods refused, and what is weaker than it says.
pub fn in_template(spec: &Value, path: &str) -> Vec<String> {
    let refused = refused(spec, path).into_iter().map(|(path, why)| format!("{path}: {why}; its pods are refused"));
    refused.chain(weaker(spec, path)).collect()
}

fn refused(spec: &Value, path: &str) -> Refused {
    let mut all = Refused::new();
    if spec["hostUsers"] == false {
        refuse_field("hostUsers", path, &mut all);
    }
    for field in ["resources", "resourceClaims", "hostnameOverride"].into_iter().filter(|field| is_given(spec, field)) {
        refuse_field(field, path, &mut all);
    }
    let context = format!("{path}.securityContext");
    if spec["securityContext"]["supplementalGroupsPolicy"] == "Strict" {
        refuse_field("supplementalGroupsPolicy", &context, &mut all);
    }
    security(&spec["securityContext"], &context, &mut all);
    for list in LISTS {
        containers(spec, list, path, &mut all);
    }
    for (position, volume) in items(spec, "volumes").iter().enumerate() {
        if str_at(volume, "emptyDir.medium").starts_with("HugePages") {
            refuse_field("emptyDir.medium", &format!("{path}.volumes[{position}]"), &mut all);
        }
        for source in super::volumes::SOURCES.iter().filter(|source| !MOUNTED.contains(source)) {
            if at(volume, source).is_some() {
                refuse_field(source, &format!("{path}.volumes[{position}]"), &mut all);
            }
        }
    }
    all
}

fn containers(spec: &Value, list: &str, path: &str, all: &mut Refused) {
    for (position, container) in items(spec, list).iter().enumerate() {
        let path = format!("{path}.{list}[{position}]");
        let fields = ["volumeDevices", "restartPolicyRules", "lifecycle.stopSignal", "resources.claims"];
        for field in fields.into_iter().filter(|field| is_given(container, field)) {
            refuse_field(field, &path, all);
        }
        // Of an init container it makes a sidecar, which agents know.
        if list != "initContainers" && is_given(container, "restartPolicy") {
            refuse_field("restartPolicy", &path, all);
        }
        security(&container["securityContext"], &format!("{path}.securityContext"), all);
    }
}

/// What a pod's and a container's context have in common.
fn security(context: &Value, path: &str, all: &mut Refused) {
    if !matches!(str_at(context, "appArmorProfile.type"), "" | "RuntimeDefault" | "Unconfined") {
        refuse_field("appArmorProfile", path, all);
    }
    if is_given(context, "seLinuxOptions") {
        refuse_field("seLinuxOptions", path, all);
    }
}

fn refuse_field(field: &str, path: &str, all: &mut Refused) {
    all.push((format!("{path}.{field}"), NOT_SUPPORTED.to_owned()));
}

/// Present, and not empty.
fn is_given(object: &Value, field: &str) -> bool {
    match at(object, field) {
        None => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(spec: &Value) -> Vec<String> {
        refused(spec, "spec").into_iter().map(|(path, why)| format!("{path}: {why}")).collect()
    }

    #[test]
    fn what_no_agent_acts_on_is_refused() {
        let check = |spec: Value, fields: &[&str]| {
            let expect: Vec<String> = fields.iter().map(|field| format!("spec.{field}: not supported yet")).collect();
            assert_eq!(texts(&spec), expect, "{spec}");
        };
        check(json!({"hostUsers": false}), &["hostUsers"]);
        check(json!({"resources": {"limits": {"cpu": "1"}}}), &["resources"]);
        check(json!({"resourceClaims": [{"name": "gpu"}]}), &["resourceClaims"]);
        check(json!({"hostnameOverride": "x"}), &["hostnameOverride"]);
        let strict = json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}});
        check(strict, &["securityContext.supplementalGroupsPolicy"]);
        let labelled = json!({"securityContext": {"seLinuxOptions": {"level": "s0"}}});
        check(labelled.clone(), &["securityContext.seLinuxOptions"]);
        let own = json!({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}});
        check(own.clone(), &["securityContext.appArmorProfile"]);
        check(
            json!({"containers": [own], "ephemeralContainers": [labelled]}),
            &["containers[0].securityContext.appArmorProfile", "ephemeralContainers[0].securityContext.seLinuxOptions"],
        );
        check(json!({"containers": [{}, {"volumeDevices": [{"name": "v"}]}]}), &["containers[1].volumeDevices"]);
        check(json!({"containers": [{"restartPolicy": "Never"}]}), &["containers[0].restartPolicy"]);
        let rules = json!({"initContainers": [{"restartPolicyRules": [{"action": "Restart"}]}]});
        check(rules, &["initContainers[0].restartPolicyRules"]);
        check(
            json!({"containers": [{"lifecycle": {"stopSignal": "SIGUSR1"}}]}),
            &["containers[0].lifecycle.stopSignal"],
        );
        check(
            json!({"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]}),
            &["containers[0].resources.claims"],
        );
        check(json!({"volumes": [{"emptyDir": {"medium": "HugePages-2Mi"}}]}), &["volumes[0].emptyDir.medium"]);
        check(
            json!({"volumes": [{"ephemeral": {"volumeClaimTemplate": {}}}, {"nfs": {"server": "s", "path": "/"}}]}),
            &["volumes[0].ephemeral", "volumes[1].nfs"],
        );
    }

    #[test]
    fn what_agents_act_on_or_do_anyway_is_accepted() {
        let spec = json!({"hostUsers": true, "runtimeClassName": "gvisor", "resources": {}, "resourceClaims": [],
            "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}, "supplementalGroupsPolicy": "Merge",
                "seLinuxOptions": {}},
            "initContainers": [{"restartPolicy": "Always"}],
            "containers": [{"securityContext": {"appArmorProfile": {"type": "Unconfined"}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}],
            "volumes": [{"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]});
        assert!(texts(&spec).is_empty(), "{:?}", texts(&spec));
        assert!(in_template(&spec, "spec").is_empty());
    }

    #[test]
    fn what_is_weaker_is_said() {
        let spec = json!({"volumes": [{"emptyDir": {"sizeLimit": "1Gi"}}, {"persistentVolumeClaim": {"claimName": "c"}}],
            "containers": [{"resources": {"limits": {"ephemeral-storage": "1Gi"}}}]});
        let expect = [
            "spec.volumes[0].emptyDir.sizeLimit: stored, but not acted upon yet",
            "spec.volumes[1].persistentVolumeClaim: no volumes are mounted yet; the pod waits",
            "spec.containers[0].resources.limits[ephemeral-storage]: stored, but not acted upon yet",
        ];
        assert_eq!(weaker(&spec, "spec"), expect);
        let template = in_template(&json!({"hostUsers": false}), "spec.template.spec");
        assert_eq!(template, ["spec.template.spec.hostUsers: not supported yet; its pods are refused"]);
    }
}
