//! Query parameters. Decides how they are decoded; their meaning is their reader's.

use super::Outcome;
use gantry_apimachinery::status::Status;
use percent_encoding::percent_decode_str;

/// Decoded `key=value` pairs in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: Option<&str>) -> Self {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| match pair.split_once('=') {
                    Some((key, value)) => (decode(key), decode(value)),
                    None => (decode(pair), String::new()),
                })
                .collect(),
        )
    }

    /// The first value of a key; an empty one counts as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Kubernetes reads `1`, `true` and a bare key as true.
    pub fn flag(&self, key: &str) -> bool {
        self.0.iter().any(|(k, v)| k == key && !matches!(v.as_str(), "0" | "false" | "False" | "FALSE" | "f"))
    }

    pub fn number(&self, key: &str) -> Outcome<Option<i64>> {
        self.get(key)
            .map(|text| {
                text.parse().map_err(|_| {
                    Status::bad_request(format!("invalid query parameter {key}: {text:?} is not a whole number")).into()
                })
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&empty=&limit=5&bare&no=false"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(
            (query.flag("watch"), query.flag("bare"), query.flag("no"), query.flag("other")),
            (true, true, false, false)
        );
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.number("watch").unwrap(), Some(1));
        assert!(query.number("labelSelector").is_err());
    }
}
