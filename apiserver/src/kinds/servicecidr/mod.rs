//! What a ServiceCIDR means to the API: one range of addresses for each family, which stay, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::network::{self, Cidr};
use super::value::items;
use super::{Ctx, Strategy, conditions};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct ServiceCidr;

const PATH: &str = "spec.cidrs";
const FAMILIES: usize = 2;

impl Strategy for ServiceCidr {
    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            for (position, condition) in items(new, "status.conditions").iter().enumerate() {
                conditions::validate(condition, &format!("status.conditions[{position}]"), errors);
            }
            return;
        }
        let texts = items(new, PATH);
        match old {
            None => ranges(texts, errors),
            // A second family may come later.
            Some(old) if items(old, PATH).len() == 1 && texts.len() == FAMILIES && texts[0] == items(old, PATH)[0] => {
                ranges(texts, errors);
            }
            Some(old) if items(old, PATH) != texts => errors.immutable(PATH, texts.to_vec()),
            Some(_) => {}
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("CIDRs", "The ranges of addresses."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let ranges = items(object, PATH).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        vec![columns::name(object), ranges.into(), columns::age(object, now)]
    }
}

fn ranges(texts: &[Value], errors: &mut FieldErrors) {
    if texts.is_empty() {
        return errors.required_because(PATH, "at least one CIDR required");
    }
    if texts.len() > FAMILIES {
        return errors.invalid(PATH, texts.to_vec(), "may only hold up to 2 values");
    }
    let mut all: Vec<Cidr> = vec![];
    for (position, text) in texts.iter().enumerate() {
        let (text, path) = (text.as_str().unwrap_or_default(), format!("{PATH}[{position}]"));
        let Some(range) = network::cidr(text, &path, errors) else { continue };
        if range.canonical().to_string() != text {
            errors.invalid(path, text, format!("must be in canonical form ({:?})", range.canonical().to_string()));
        }
        all.push(range);
    }
    if let [first, second] = all.as_slice()
        && first.address.is_ipv4() == second.address.is_ipv4()
    {
        errors.invalid(PATH, texts.to_vec(), "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};

    #[test]
    fn one_range_for_each_family_which_stays() {
        let ranges = |cidrs: Value| json!({"spec": {"cidrs": cidrs}});
        let check = |cidrs: Value, expect: &str| {
            let text = errors(&ServiceCidr, &ranges(cidrs), None);
            assert!(text.starts_with(expect), "{text}");
        };
        check(json!(["10.96.0.0/16", "2001:db8::/108"]), "[]");
        check(json!([]), "spec.cidrs: Required value: at least one CIDR required");
        check(json!(["10.96.0.1/16"]), "spec.cidrs[0]: Invalid value: \"10.96.0.1/16\": must be in canonical form (\"10.96.0.0/16\")");
        check(json!(["10.96.0.0/16", "10.97.0.0/16"]), "spec.cidrs: Invalid value: [\"10.96.0.0/16\",\"10.97.0.0/16\"]: may specify no more");
        check(json!(["a", "b", "c"]), "spec.cidrs: Invalid value: [\"a\",\"b\",\"c\"]: may only hold up to 2 values");
        let old = ranges(json!(["10.96.0.0/16"]));
        assert_eq!(errors(&ServiceCidr, &ranges(json!(["10.96.0.0/16", "2001:db8::/108"])), Some(&old)), "[]");
        let expect = "spec.cidrs: Invalid value: [\"10.97.0.0/16\"]: field is immutable";
        assert_eq!(errors(&ServiceCidr, &ranges(json!(["10.97.0.0/16"])), Some(&old)), expect);
        assert_eq!(row(&ServiceCidr, &old), json!(["x", "10.96.0.0/16", "5s"]));
    }
}
