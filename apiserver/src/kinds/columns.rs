//! Table columns and the cells that most kinds share. Decides how ages and counts read; never which columns a kind has.

use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

/// One column of a `meta.k8s.io/v1 Table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `date`, `boolean`, `number`.
    pub kind: &'static str,
    /// `name` marks the column that `kubectl get -o name`-like printers use; otherwise empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always printed, 1 with `-o wide`.
    pub priority: u8,
}

impl Column {
    pub const NAME: Self =
        Self { name: "Name", kind: "string", format: "name", description: "Name must be unique within a namespace.", priority: 0 };
    pub const AGE: Self =
        Self { name: "Age", kind: "string", format: "", description: "Time since the object was created.", priority: 0 };

    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "string", format: "", description, priority: 0 }
    }
    pub const fn number(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "integer", format: "", description, priority: 0 }
    }
    pub const fn wide(self) -> Self {
        Self { name: self.name, kind: self.kind, format: self.format, description: self.description, priority: 1 }
    }
}

pub const NAME_AGE: &[Column] = &[Column::NAME, Column::AGE];

pub fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// Time since creation as kubectl prints it; `<unknown>` without a creation time.
pub fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now)
}

/// Time since an RFC 3339 string.
pub fn since(time: &Value, now: Timestamp) -> Value {
    let parsed = time.as_str().and_then(|text| Timestamp::parse(text).ok());
    match parsed {
        Some(then) => Value::from(human_duration(now.seconds() - then.seconds())),
        None => Value::from("<unknown>"),
    }
}

/// `-o wide` and describe show durations in at most two units, finer while they are short (kubectl's `HumanDuration`).
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1..=0 => "0s".into(),
        1..=119 => format!("{seconds}s"),
        120..=599 => two(minutes, "m", seconds % 60, "s"),
        600..=10_799 => format!("{minutes}m"),
        10_800..=28_799 => two(hours, "h", minutes % 60, "m"),
        28_800..=172_799 => format!("{hours}h"),
        172_800..=691_199 => two(days, "d", hours % 24, "h"),
        691_200..=63_071_999 => format!("{days}d"),
        63_072_000..=252_287_999 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// `key=value,…` or `<none>`, as label and selector columns read.
pub fn labels(map: &Value) -> Value {
    let text = map
        .as_object()
        .map(|pairs| pairs.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect::<Vec<_>>().join(","))
        .unwrap_or_default();
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations_read_like_kubectl() {
        let rows = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
        ];
        for (seconds, expect) in rows {
            assert_eq!(human_duration(seconds), expect, "{seconds}");
        }
    }
}
