//! The audit policy (`audit.k8s.io/v1`): which requests are written down, and how much of them. Decides by the first rule that matches,
//! as Kubernetes does; what no rule matches is not written down.

use crate::auth::UserInfo;
use serde::Deserialize;
use serde_json::Value;

/// How much is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    #[default]
    None,
    /// Who did what, when, with what outcome.
    Metadata,
    /// And what was sent.
    Request,
    /// And what was answered.
    RequestResponse,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// When in a request's life an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    /// Of what lasts: a watch has begun.
    ResponseStarted,
    ResponseComplete,
    /// No request of ours ends so, but a policy may name it.
    Panic,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Rule {
    level: Option<Level>,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Resources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// `None`: nobody could be told.
    pub user: Option<&'a UserInfo>,
    pub verb: &'a str,
    /// For paths that are not resources.
    pub path: Option<&'a str>,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// What the policy says of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
}

impl Verdict {
    pub fn writes(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omit_stages.contains(&stage)
    }
}

impl Policy {
    /// A policy that means something, or what is wrong with it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let policy: Self = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!("it must be audit.k8s.io/v1 Policy, not {} {}", policy.api_version, policy.kind));
        }
        if policy.rules.is_empty() {
            return Err("it has no rules".to_owned());
        }
        for (position, rule) in policy.rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rules[{position}]{why}"))?;
        }
        Ok(policy)
    }

    pub fn verdict(&self, asked: &Asked<'_>) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(asked)) else { return Verdict::default() };
        let mut omit_stages = self.omit_stages.clone();
        omit_stages.extend(&rule.omit_stages);
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Verdict { level: rule.level.unwrap_or_default(), omit_stages, omit_managed_fields }
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        if self.level.is_none() {
            return Err(".level: one of None, Metadata, Request, RequestResponse is needed".to_owned());
        }
        let names_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if names_resources && !self.non_resource_urls.is_empty() {
            return Err(
                ".nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs".to_owned()
            );
        }
        for url in &self.non_resource_urls {
            let star = url.find('*');
            if url != "*" && (!url.starts_with('/') || star.is_some_and(|at| at + 1 != url.len())) {
                return Err(format!(
                    ".nonResourceURLs: {url:?}: must begin with a '/' and may have a '*' at its end alone, or be \"*\""
                ));
            }
        }
        for resources in &self.resources {
            if resources.group.contains('/') {
                return Err(format!(".resources.group: {:?}: a group has no version here", resources.group));
            }
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err(".resources.resourceNames: must be of at least one resource".to_owned());
            }
        }
        Ok(())
    }

    fn matches(&self, asked: &Asked<'_>) -> bool {
        let among = |list: &[String], text: &str| list.iter().any(|one| one == text);
        if !self.users.is_empty() && !asked.user.is_some_and(|user| among(&self.users, &user.username)) {
            return false;
        }
        let in_one = |user: &UserInfo| user.groups.iter().any(|group| among(&self.user_groups, group));
        if !self.user_groups.is_empty() && !asked.user.is_some_and(in_one) {
            return false;
        }
        if !self.verbs.is_empty() && !among(&self.verbs, asked.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            // Objects outside of namespaces are in the namespace "".
            return asked.path.is_none()
                && (self.namespaces.is_empty() || among(&self.namespaces, asked.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|one| one.matches(asked)));
        }
        self.non_resource_urls.is_empty()
            || asked.path.is_some_and(|path| self.non_resource_urls.iter().any(|url| url_matches(url, path)))
    }
}

fn url_matches(url: &str, path: &str) -> bool {
    url.strip_suffix('*').map_or(url == path, |start| path.starts_with(start))
}

impl Resources {
    fn matches(&self, asked: &Asked<'_>) -> bool {
        if self.group != asked.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.iter().any(|name| name == asked.name) {
            return false;
        }
        self.resources.iter().any(|one| match one.split_once('/') {
            None => one == "*" || (one == asked.resource && asked.subresource.is_empty()),
            Some(("*", sub)) => !asked.subresource.is_empty() && sub == asked.subresource,
            Some((resource, "*")) => resource == asked.resource,
            Some((resource, sub)) => resource == asked.resource && sub == asked.subresource,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(rules: Value) -> Policy {
        Policy::read(&json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, "omitStages": ["RequestReceived"]})).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = policy(json!([
            {"level": "None", "users": ["system:kube-proxy"], "verbs": ["watch"], "resources": [{"group": "", "resources": ["endpoints", "services"]}]},
            {"level": "None", "nonResourceURLs": ["/healthz*", "/version"]},
            {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"]}]},
            {"level": "Request", "resources": [{"group": "", "resources": ["pods/*"]}, {"group": "apps", "resources": ["*/scale"]}], "omitManagedFields": true},
            {"level": "RequestResponse", "userGroups": ["ops"], "namespaces": ["prod", ""], "omitStages": ["ResponseStarted"]},
            {"level": "Request", "resources": [{"group": "batch", "resources": ["jobs"], "resourceNames": ["night"]}]},
            {"level": "Metadata", "resources": [{"group": "policy"}]},
        ]));
        let (proxy, jane) = (UserInfo::new("system:kube-proxy", &[]), UserInfo::new("jane", &["ops"]));
        let check = |asked: Asked<'_>, expect: Level| assert_eq!(policy.verdict(&asked).level, expect, "{asked:?}");
        let of =
            |resource, subresource| Asked { verb: "get", resource, subresource, namespace: "n", ..Asked::default() };
        check(Asked { user: Some(&proxy), verb: "watch", ..of("services", "") }, Level::None);
        check(Asked { path: Some("/healthz/ping"), verb: "get", user: Some(&jane), ..Asked::default() }, Level::None);
        check(Asked { path: Some("/version/x"), verb: "get", ..Asked::default() }, Level::None);
        check(of("secrets", ""), Level::Metadata);
        check(of("serviceaccounts", "token"), Level::Metadata);
        check(of("serviceaccounts", ""), Level::None);
        check(of("pods", "exec"), Level::Request);
        check(of("pods", ""), Level::Request);
        check(Asked { group: "apps", ..of("deployments", "scale") }, Level::Request);
        check(Asked { group: "apps", ..of("deployments", "") }, Level::None);
        check(Asked { user: Some(&jane), namespace: "prod", ..of("services", "") }, Level::RequestResponse);
        check(Asked { user: Some(&jane), namespace: "", ..of("nodes", "") }, Level::RequestResponse);
        check(Asked { user: Some(&jane), ..of("services", "") }, Level::None);
        check(Asked { group: "batch", name: "night", ..of("jobs", "") }, Level::Request);
        check(Asked { group: "batch", name: "day", ..of("jobs", "") }, Level::None);
        check(Asked { group: "policy", ..of("anything", "status") }, Level::Metadata);

        let verdict = policy.verdict(&Asked { user: Some(&jane), namespace: "prod", ..of("services", "") });
        assert!(!verdict.writes(Stage::RequestReceived) && !verdict.writes(Stage::ResponseStarted));
        assert!(verdict.writes(Stage::ResponseComplete) && !verdict.omit_managed_fields);
        assert!(policy.verdict(&of("pods", "")).omit_managed_fields);
        assert!(!policy.verdict(&of("none", "")).writes(Stage::ResponseComplete));
    }

    #[test]
    fn a_policy_that_means_nothing_is_refused() {
        let check = |rules: Value, expect: &str| {
            let said = Policy::read(&json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
                .err()
                .unwrap();
            assert!(said.starts_with(expect), "{said}");
        };
        check(json!([]), "it has no rules");
        check(json!([{}]), "rules[0].level: ");
        check(json!([{"level": "All"}]), "unknown variant `All`");
        check(json!([{"level": "None", "verb": ["get"]}]), "unknown field `verb`");
        let both = json!([{"level": "None", "namespaces": ["a"], "nonResourceURLs": ["/x"]}]);
        check(both, "rules[0].nonResourceURLs: rules cannot apply to both");
        check(json!([{"level": "None", "nonResourceURLs": ["/a*b"]}]), "rules[0].nonResourceURLs: \"/a*b\"");
        check(json!([{"level": "None", "nonResourceURLs": ["x"]}]), "rules[0].nonResourceURLs: \"x\"");
        check(json!([{"level": "None", "resources": [{"group": "apps/v1"}]}]), "rules[0].resources.group: ");
        let unnamed = json!([{"level": "None", "resources": [{"group": "", "resourceNames": ["a"]}]}]);
        check(unnamed, "rules[0].resources.resourceNames: ");
        assert!(Policy::read(&json!({"apiVersion": "v1", "kind": "Policy"})).is_err());
    }
}
