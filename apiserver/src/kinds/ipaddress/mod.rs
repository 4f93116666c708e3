//! What an IPAddress means to the API: the address that it is named after belongs to one object, and stays with it.

use super::columns::{self, Column};
use super::pod::validate::{name, required};
use super::value::{at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct IpAddress;

const PATH: &str = "spec.parentRef";

impl Strategy for IpAddress {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let Some(parent) = at(new, PATH) else { return errors.required(PATH) };
        name(parent, "group", names::dns1123_subdomain, PATH, errors);
        for field in ["resource", "name"] {
            if required(parent, field, PATH, errors) {
                name(parent, field, names::path_segment, PATH, errors);
            }
        }
        name(parent, "namespace", names::dns1123_label, PATH, errors);
        if old.is_some_and(|old| at(old, PATH) != Some(parent)) {
            errors.immutable(PATH, parent.clone());
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("ParentRef", "Whose address it is.")];
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let parent = at(object, PATH).map(|parent| {
            let (resource, group) = (str_at(parent, "resource"), str_at(parent, "group"));
            let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
            let place = [resource.to_lowercase().as_str(), str_at(parent, "namespace"), str_at(parent, "name")].map(str::to_owned);
            place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        });
        vec![columns::name(object), parent.unwrap_or_else(|| "<none>".to_owned()).into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn an_address_belongs_to_one_object() {
        let of = |parent: Value| json!({"spec": {"parentRef": parent}});
        let good = of(json!({"resource": "services", "namespace": "ns", "name": "web"}));
        assert_eq!(errors(&IpAddress, &good, None), "[]");
        assert_eq!(errors(&IpAddress, &json!({"spec": {}}), None), "spec.parentRef: Required value");
        let expect = "[spec.parentRef.resource: Required value, spec.parentRef.name: Required value]";
        assert_eq!(errors(&IpAddress, &of(json!({})), None), expect);
        let other = of(json!({"resource": "services", "namespace": "ns", "name": "api"}));
        assert!(errors(&IpAddress, &other, Some(&good)).ends_with("field is immutable"));
        assert_eq!(row(&IpAddress, &good), json!(["x", "services/ns/web"]));
        let gateway = of(json!({"group": "x.io", "resource": "Gateways", "name": "g"}));
        assert_eq!(row(&IpAddress, &gateway), json!(["x", "gateways.x.io/g"]));
    }
}
