//! What an APIService means to the API: its name, its bounds, and what `kubectl get` shows. Decides what is well formed; whether the
//! server behind it answers is found out in `aggregation`.

use super::value::{at, bool_at, default, i64_at, items, str_at};
use super::{Column, Ctx, Strategy, columns};
use crate::aggregation::{AVAILABLE, local_condition};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Service", "The reference to the service that hosts this API endpoint."),
    Column::text("Available", "Whether this service is available."),
    Column::AGE,
];

pub struct ApiService;

impl Strategy for ApiService {
    fn defaults(&self, object: &mut Value) {
        if at(object, "spec.service").is_some() {
            default(&mut object["spec"]["service"], "port", 443);
        }
    }

    fn prepare_create(&self, object: &mut Value, ctx: &Ctx) {
        if at(object, "spec.service").is_none() {
            object["status"] = json!({"conditions": [local_condition(ctx.now)]});
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return conditions(new, errors);
        }
        identity(new, errors);
        let mut within = |field: &str, most: i64| {
            let value = i64_at(&new["spec"], field).unwrap_or(0);
            if !(1..=most).contains(&value) {
                errors.invalid(format!("spec.{field}"), value, format!("must be positive and less than {most}"));
            }
        };
        within("groupPriorityMinimum", 20_000);
        within("versionPriority", 1_000);
        match at(new, "spec.service") {
            None => local(&new["spec"], errors),
            Some(service) => remote(&new["spec"], service, errors),
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let service = match at(object, "spec.service") {
            Some(service) => format!("{}/{}", str_at(service, "namespace"), str_at(service, "name")),
            None => "Local".to_owned(),
        };
        let found = items(object, "status.conditions").iter().find(|condition| str_at(condition, "type") == AVAILABLE);
        let available = found.map_or_else(
            || "Unknown".to_owned(),
            |condition| match (str_at(condition, "status"), str_at(condition, "reason")) {
                ("True", _) => "True".to_owned(),
                (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
        );
        vec![columns::name(object), service.into(), available.into(), columns::age(object, now)]
    }
}

/// Name, group and version, which say the same.
fn identity(new: &Value, errors: &mut FieldErrors) {
    let (group, version, name) =
        (str_at(new, "spec.group"), str_at(new, "spec.version"), str_at(new, "metadata.name"));
    let wanted = format!("{version}.{group}");
    // What is no path segment was said already.
    if name != wanted && names::path_segment(name).is_ok() {
        errors.invalid("metadata.name", name, format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"));
    }
    if group.is_empty() && version != "v1" {
        errors.required_because("spec.group", "only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty()
        && let Err(why) = names::dns1123_subdomain(group)
    {
        errors.invalid("spec.group", group, why);
    }
    if let Err(why) = names::dns1035_label(version) {
        errors.invalid("spec.version", version, why);
    }
}

fn local(spec: &Value, errors: &mut FieldErrors) {
    let bundle = STANDARD.decode(str_at(spec, "caBundle")).unwrap_or_default();
    if !bundle.is_empty() {
        let shown = format!("{} bytes", bundle.len());
        errors.invalid("spec.caBundle", shown, "local APIServices may not have a caBundle");
    }
    if bool_at(spec, "insecureSkipTLSVerify") {
        errors.invalid(
            "spec.insecureSkipTLSVerify",
            true,
            "local APIServices may not have insecureSkipTLSVerify",
        );
    }
}

fn remote(spec: &Value, service: &Value, errors: &mut FieldErrors) {
    for field in ["namespace", "name"] {
        if str_at(service, field).is_empty() {
            errors.required(format!("spec.service.{field}"));
        }
    }
    let port = i64_at(service, "port").unwrap_or(0);
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid("spec.service.port", port, why);
    }
    if bool_at(spec, "insecureSkipTLSVerify") && !str_at(spec, "caBundle").is_empty() {
        errors.invalid("spec.insecureSkipTLSVerify", true, "may not be true if caBundle is present");
    }
}

fn conditions(new: &Value, errors: &mut FieldErrors) {
    for (position, condition) in items(new, "status.conditions").iter().enumerate() {
        let status = str_at(condition, "status");
        if !["True", "False", "Unknown"].contains(&status) {
            let path = format!("status.conditions[{position}].status");
            errors.not_supported(path, status, &["True", "False", "Unknown"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{created, defaulted, errors, errors_of, row};

    fn service(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"metadata": {"name": "v1.example.org"}, "spec": {"group": "example.org", "version": "v1",
            "groupPriorityMinimum": 1000, "versionPriority": 10, "service": {"namespace": "n", "name": "s"}}});
        change(&mut object);
        defaulted(&ApiService, &object)
    }

    fn local(object: &mut Value) {
        object["spec"].as_object_mut().unwrap().remove("service");
    }

    #[test]
    fn what_is_local_is_available_from_the_start() {
        assert_eq!(service(|_| {})["spec"]["service"]["port"], 443);
        assert_eq!(created(&ApiService, &service(|_| {})).get("status"), None);
        let status = created(&ApiService, &service(local))["status"].clone();
        assert_eq!(
            status,
            json!({"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": "1970-01-01T00:16:40Z",
                "reason": "Local", "message": "Local APIServices are always available"}]})
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            assert_eq!(errors(&ApiService, &service(change), None), expect);
        };
        check(&|_| {}, "[]");
        check(&local, "[]");
        check(
            &|o| o["metadata"]["name"] = "odd".into(),
            "metadata.name: Invalid value: \"odd\": must be `spec.version+\".\"+spec.group`: \"v1.example.org\"",
        );
        check(
            &|o| o["spec"]["groupPriorityMinimum"] = 20_001.into(),
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
        );
        check(
            &|o| o["spec"]["versionPriority"] = 0.into(),
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
        );
        check(&|o| o["spec"]["service"]["name"] = "".into(), "spec.service.name: Required value");
        check(
            &|o| o["spec"]["service"]["port"] = 0.into(),
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        );
        let both = |o: &mut Value| {
            o["spec"]["caBundle"] = "eA==".into();
            o["spec"]["insecureSkipTLSVerify"] = true.into();
        };
        check(&both, "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present");
        check(
            &|o| {
                local(o);
                both(o);
            },
            "[spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle, \
             spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify]",
        );
        let core = |o: &mut Value| {
            o["metadata"]["name"] = "v2.".into();
            o["spec"]["version"] = "v2".into();
            o["spec"]["group"] = "".into();
        };
        check(&core, "spec.group: Required value: only v1 may have an empty group and it better be legacy kube");
        let odd = json!({"status": {"conditions": [{"type": "Available", "status": "Maybe"}]}});
        assert_eq!(
            errors_of(&ApiService, &odd, None, Some("status")),
            "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\""
        );
    }

    #[test]
    fn the_row_says_where_and_whether() {
        assert_eq!(row(&ApiService, &created(&ApiService, &service(local))), json!(["x", "Local", "True", "5s"]));
        let mut remote = service(|_| {});
        assert_eq!(row(&ApiService, &remote), json!(["x", "n/s", "Unknown", "5s"]));
        remote["status"] =
            json!({"conditions": [{"type": "Available", "status": "False", "reason": "ServiceNotFound"}]});
        assert_eq!(row(&ApiService, &remote), json!(["x", "n/s", "False (ServiceNotFound)", "5s"]));
    }
}
