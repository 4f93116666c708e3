//! How values are written in messages: as Go prints them. It decides nothing else.

use serde_json::{Number, Value};

/// Go's `%v` of a float64.
pub(crate) fn float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A limit as it stands beside `value`: for whole numbers it is one, too.
pub(super) fn limit(limit: f64, value: &Number) -> String {
    if value.is_f64() { float(limit) } else { format!("{}", limit as i64) }
}

/// The members of a list of allowed values: texts as they are, others as JSON.
pub(super) fn allowed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
