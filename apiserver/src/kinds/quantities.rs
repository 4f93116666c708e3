//! Amounts of resources and the names of what is counted, which several kinds check alike. Decides what is well formed; never
//! how much there is.

use gantry_apimachinery::names;
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub const NOT_WHOLE: &str = "must be an integer";

/// The quantity in a JSON string; what is no quantity was refused by the schema.
pub fn read(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// The entries of a map of quantities, such as `hard` or `capacity`.
pub fn entries(map: &Value) -> impl Iterator<Item = (&str, &Value, Quantity)> {
    let all = map.as_object().into_iter().flatten();
    all.filter_map(|(name, value)| Some((name.as_str(), value, read(value)?)))
}

/// Not negative; returns the amount.
pub fn not_negative(value: &Value, path: &str, errors: &mut FieldErrors) -> Option<Quantity> {
    let amount = read(value)?;
    if amount.is_negative() {
        errors.invalid(path, value.clone(), NOT_NEGATIVE);
    }
    Some(amount)
}

/// More than nothing.
pub fn positive(value: &Value, path: &str, errors: &mut FieldErrors) {
    if read(value).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        errors.invalid(path, value.clone(), "must be greater than zero");
    }
}

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// A resource of a vendor, counted in whole units.
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// Names without a domain that some list has; every other name needs a domain.
pub fn resource_name(name: &str, path: &str, standard: impl Fn(&str) -> bool, errors: &mut FieldErrors) {
    if let Err(why) = names::qualified_name(name) {
        errors.invalid(path, name, why);
    } else if !name.contains('/') && !standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}
