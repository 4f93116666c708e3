//! What the levels of the Pod Security Standards ask of a pod, as pure checks. Each finding is worded as Kubernetes words it.

use crate::kinds::value::{at, items, str_at};
use serde_json::Value;

/// From what may do anything to what may do the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

const CAPABILITIES: [&str; 14] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    "",
];
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
const SELINUX: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What the level does not allow, in the order of Kubernetes' checks (by their names).
pub fn violations(pod: &Value, level: Level) -> Vec<String> {
    let mut found = Vec::new();
    if level == Level::Privileged {
        return found;
    }
    let restricted = level == Level::Restricted;
    let containers: Vec<&Value> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| items(&pod["spec"], list))
        .collect();
    let pod = Pod { pod, spec: &pod["spec"], containers };
    if restricted {
        found.extend(pod.allow_privilege_escalation());
    }
    found.extend(pod.app_armor());
    found.extend(if restricted { pod.capabilities_restricted() } else { pod.capabilities_baseline() });
    found.extend(pod.host_namespaces());
    found.extend(pod.host_path_volumes().filter(|_| !restricted));
    found.extend(pod.host_ports());
    found.extend(pod.privileged());
    found.extend(pod.proc_mount());
    if restricted {
        found.extend(pod.restricted_volumes());
        found.extend(pod.run_as_non_root());
        found.extend(pod.run_as_user());
    }
    found.extend(pod.selinux());
    found.extend(if restricted { pod.seccomp_restricted() } else { pod.seccomp_baseline() });
    found.extend(pod.sysctls());
    found.extend(pod.windows_host_process());
    found
}

struct Pod<'a> {
    pod: &'a Value,
    spec: &'a Value,
    containers: Vec<&'a Value>,
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn several<'w>(names: &[&str], one: &'w str, many: &'w str) -> &'w str {
    if names.len() == 1 { one } else { many }
}

impl<'a> Pod<'a> {
    /// The names of the containers that do.
    fn who(&self, does: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|container| does(container)).map(|container| str_at(container, "name")).collect()
    }

    /// `container "a"`, `containers "a", "b"`.
    fn named(names: &[&str]) -> String {
        format!("{} {}", several(names, "container", "containers"), quoted(names))
    }

    fn is_windows(&self) -> bool {
        str_at(self.spec, "os.name") == "windows"
    }

    fn allow_privilege_escalation(&self) -> Option<String> {
        if self.is_windows() {
            return None;
        }
        let bad = self.who(|c| at(c, "securityContext.allowPrivilegeEscalation") != Some(&Value::Bool(false)));
        (!bad.is_empty()).then(|| {
            format!(
                "allowPrivilegeEscalation != false ({} must set securityContext.allowPrivilegeEscalation=false)",
                Self::named(&bad)
            )
        })
    }

    fn app_armor(&self) -> Option<String> {
        let allowed = |kind: &str| ["", "RuntimeDefault", "Localhost"].contains(&kind);
        let mut where_from = Vec::new();
        let kind = str_at(self.spec, "securityContext.appArmorProfile.type");
        if !allowed(kind) {
            where_from.push(format!("pod must not set AppArmor profile type to {kind:?}"));
        }
        let bad = self.who(|c| !allowed(str_at(c, "securityContext.appArmorProfile.type")));
        if !bad.is_empty() {
            where_from.push(format!("{} must not set AppArmor profile type to \"Unconfined\"", Self::named(&bad)));
        }
        for (key, value) in self.pod["metadata"]["annotations"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or("");
            let fine = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
            if key.starts_with(APPARMOR) && !fine {
                where_from.push(format!("annotation must not set AppArmor profile type to {key}={value:?}"));
            }
        }
        (!where_from.is_empty()).then(|| {
            format!(
                "forbidden AppArmor {} ({})",
                if where_from.len() == 1 { "profile" } else { "profiles" },
                where_from.join(" and ")
            )
        })
    }

    fn capabilities_baseline(&self) -> Option<String> {
        let mut added: Vec<&str> = Vec::new();
        let bad = self.who(|c| {
            items(c, "securityContext.capabilities.add")
                .iter()
                .any(|one| !CAPABILITIES.contains(&one.as_str().unwrap_or("")))
        });
        for container in &self.containers {
            for one in items(container, "securityContext.capabilities.add").iter().filter_map(Value::as_str) {
                if !CAPABILITIES.contains(&one) && !added.contains(&one) {
                    added.push(one);
                }
            }
        }
        added.sort_unstable();
        (!bad.is_empty()).then(|| {
            format!(
                "non-default capabilities ({} must not include {} in securityContext.capabilities.add)",
                Self::named(&bad),
                quoted(&added)
            )
        })
    }

    fn capabilities_restricted(&self) -> Option<String> {
        if self.is_windows() {
            return None;
        }
        let keeps = self.who(|c| !items(c, "securityContext.capabilities.drop").iter().any(|one| one == "ALL"));
        let adds =
            self.who(|c| items(c, "securityContext.capabilities.add").iter().any(|one| one != "NET_BIND_SERVICE"));
        let mut parts = Vec::new();
        if !keeps.is_empty() {
            parts.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", Self::named(&keeps)));
        }
        if !adds.is_empty() {
            let mut names: Vec<&str> = self
                .containers
                .iter()
                .flat_map(|c| items(c, "securityContext.capabilities.add"))
                .filter_map(Value::as_str)
                .filter(|one| *one != "NET_BIND_SERVICE")
                .collect();
            names.sort_unstable();
            names.dedup();
            parts.push(format!(
                "{} must not include {} in securityContext.capabilities.add",
                Self::named(&adds),
                quoted(&names)
            ));
        }
        (!parts.is_empty()).then(|| format!("unrestricted capabilities ({})", parts.join("; ")))
    }

    fn host_namespaces(&self) -> Option<String> {
        let set: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
            .iter()
            .filter(|field| self.spec[**field] == true)
            .map(|field| format!("{field}=true"))
            .collect();
        (!set.is_empty()).then(|| format!("host namespaces ({})", set.join(", ")))
    }

    fn host_path_volumes(&self) -> Option<String> {
        let names: Vec<&str> = self.volumes_with(|source| source == "hostPath");
        (!names.is_empty())
            .then(|| format!("hostPath volumes ({} {})", several(&names, "volume", "volumes"), quoted(&names)))
    }

    fn volumes_with(&self, bad: impl Fn(&str) -> bool) -> Vec<&'a str> {
        let source = |volume: &Value| volume.as_object().and_then(|map| map.keys().find(|key| *key != "name").cloned());
        let volumes = items(self.spec, "volumes").iter();
        volumes
            .filter(|volume| source(volume).is_some_and(|kind| bad(&kind)))
            .map(|volume| str_at(volume, "name"))
            .collect()
    }

    fn host_ports(&self) -> Option<String> {
        let used = |c: &Value| -> Vec<u64> {
            items(c, "ports").iter().filter_map(|port| port["hostPort"].as_u64()).filter(|port| *port != 0).collect()
        };
        let bad = self.who(|c| !used(c).is_empty());
        let mut ports: Vec<u64> = self.containers.iter().flat_map(|c| used(c)).collect();
        ports.sort_unstable();
        ports.dedup();
        let shown: Vec<String> = ports.iter().map(u64::to_string).collect();
        (!bad.is_empty()).then(|| {
            let word = if shown.len() == 1 { "hostPort" } else { "hostPorts" };
            format!("hostPort ({} {} {word} {})", Self::named(&bad), several(&bad, "uses", "use"), shown.join(", "))
        })
    }

    fn privileged(&self) -> Option<String> {
        let bad = self.who(|c| at(c, "securityContext.privileged") == Some(&Value::Bool(true)));
        (!bad.is_empty())
            .then(|| format!("privileged ({} must not set securityContext.privileged=true)", Self::named(&bad)))
    }

    fn proc_mount(&self) -> Option<String> {
        // In a user namespace of its own, a pod's /proc says nothing of others.
        if self.spec["hostUsers"] == false {
            return None;
        }
        let bad = self.who(|c| !["", "Default"].contains(&str_at(c, "securityContext.procMount")));
        let kinds: Vec<&str> = self
            .containers
            .iter()
            .map(|c| str_at(c, "securityContext.procMount"))
            .filter(|kind| !["", "Default"].contains(kind))
            .collect();
        (!bad.is_empty()).then(|| {
            format!(
                "procMount ({} must not set securityContext.procMount to {})",
                Self::named(&bad),
                quoted(&kinds[..1])
            )
        })
    }

    fn restricted_volumes(&self) -> Option<String> {
        let allowed = |kind: &str| VOLUMES.contains(&kind);
        let names = self.volumes_with(|kind| !allowed(kind));
        let mut kinds: Vec<String> = items(self.spec, "volumes")
            .iter()
            .filter_map(|volume| volume.as_object()?.keys().find(|key| *key != "name").cloned())
            .filter(|kind| !allowed(kind))
            .collect();
        kinds.sort();
        kinds.dedup();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            let (volumes, uses) = if names.len() == 1 { ("volume", "uses") } else { ("volumes", "use") };
            let word = several(&kinds, "type", "types");
            format!(
                "restricted volume types ({volumes} {} {uses} restricted volume {word} {})",
                quoted(&names),
                quoted(&kinds)
            )
        })
    }

    fn run_as_non_root(&self) -> Option<String> {
        let of = |value: &Value| at(value, "securityContext.runAsNonRoot").and_then(Value::as_bool);
        let pod = of(self.spec);
        let wrong = self.who(|c| of(c) == Some(false));
        if pod == Some(false) {
            return Some("runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)".to_owned());
        }
        if !wrong.is_empty() {
            return Some(format!(
                "runAsNonRoot != true ({} must not set securityContext.runAsNonRoot=false)",
                Self::named(&wrong)
            ));
        }
        let unset = self.who(|c| of(c).is_none());
        (pod.is_none() && !unset.is_empty()).then(|| {
            format!("runAsNonRoot != true (pod or {} must set securityContext.runAsNonRoot=true)", Self::named(&unset))
        })
    }

    fn run_as_user(&self) -> Option<String> {
        let root = |value: &Value| at(value, "securityContext.runAsUser").and_then(Value::as_i64) == Some(0);
        let mut parts = Vec::new();
        if root(self.spec) {
            parts.push("pod".to_owned());
        }
        let bad = self.who(root);
        if !bad.is_empty() {
            parts.push(Self::named(&bad));
        }
        (!parts.is_empty()).then(|| format!("runAsUser=0 ({} must not set runAsUser=0)", parts.join(" and ")))
    }

    fn seccomp_baseline(&self) -> Option<String> {
        let bad = |value: &Value| str_at(value, "securityContext.seccompProfile.type") == "Unconfined";
        let mut parts = Vec::new();
        if bad(self.spec) {
            parts.push("pod".to_owned());
        }
        let names = self.who(bad);
        if !names.is_empty() {
            parts.push(Self::named(&names));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "seccompProfile ({} must not set securityContext.seccompProfile.type to \"Unconfined\")",
                parts.join(" and ")
            )
        })
    }

    fn seccomp_restricted(&self) -> Option<String> {
        if self.is_windows() {
            return None;
        }
        let of = |value: &Value| str_at(value, "securityContext.seccompProfile.type").to_owned();
        let good = |kind: &str| ["RuntimeDefault", "Localhost"].contains(&kind);
        let pod = of(self.spec);
        let mut parts = Vec::new();
        if !pod.is_empty() && !good(&pod) {
            parts.push(format!("pod must not set securityContext.seccompProfile.type to {pod:?}"));
        }
        let wrong = self.who(|c| !of(c).is_empty() && !good(&of(c)));
        if !wrong.is_empty() {
            parts.push(format!(
                "{} must not set securityContext.seccompProfile.type to \"Unconfined\"",
                Self::named(&wrong)
            ));
        }
        if parts.is_empty() {
            let unset = self.who(|c| of(c).is_empty());
            if good(&pod) || unset.is_empty() {
                return None;
            }
            parts.push(format!(
                "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
                Self::named(&unset)
            ));
        }
        Some(format!("seccompProfile ({})", parts.join("; ")))
    }

    fn selinux(&self) -> Option<String> {
        let mut bad: Vec<String> = Vec::new();
        for value in std::iter::once(self.spec).chain(self.containers.iter().copied()) {
            let options = &value["securityContext"]["seLinuxOptions"];
            let kind = str_at(options, "type");
            if !SELINUX.contains(&kind) {
                bad.push(format!("type {kind:?}"));
            }
            for field in ["user", "role"] {
                if !str_at(options, field).is_empty() {
                    bad.push(format!("{field} may not be set"));
                }
            }
        }
        bad.dedup();
        (!bad.is_empty())
            .then(|| format!("seLinuxOptions (forbidden securityContext.seLinuxOptions: {})", bad.join("; ")))
    }

    fn sysctls(&self) -> Option<String> {
        let all = items(self.spec, "securityContext.sysctls").iter().map(|one| str_at(one, "name"));
        let bad: Vec<&str> = all.filter(|name| !SYSCTLS.contains(name)).collect();
        (!bad.is_empty()).then(|| format!("forbidden sysctls ({})", bad.join(", ")))
    }

    fn windows_host_process(&self) -> Option<String> {
        let sets = |value: &Value| at(value, "securityContext.windowsOptions.hostProcess") == Some(&Value::Bool(true));
        let mut parts = Vec::new();
        if sets(self.spec) {
            parts.push("pod".to_owned());
        }
        let names = self.who(sets);
        if !names.is_empty() {
            parts.push(Self::named(&names));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "hostProcess ({} must not set securityContext.windowsOptions.hostProcess=true)",
                parts.join(" and ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: Value) -> Value {
        json!({ "spec": spec })
    }

    #[test]
    fn an_ordinary_pod_is_baseline_and_told_what_restricted_wants() {
        let plain = pod(json!({"containers": [{"name": "c"}]}));
        assert!(violations(&plain, Level::Baseline).is_empty());
        let expect = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
            unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
            runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
            seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
        assert_eq!(violations(&plain, Level::Restricted).join(", "), expect);
        let hardened = pod(
            json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}),
        );
        assert!(violations(&hardened, Level::Restricted).is_empty());
    }

    #[test]
    fn each_baseline_check_finds_its_own() {
        let check = |spec: Value, expect: &str| assert_eq!(violations(&pod(spec), Level::Baseline).join(", "), expect);
        let with = |context: Value| json!({"containers": [{"name": "c", "securityContext": context}]});
        check(
            with(json!({"privileged": true})),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        );
        check(
            with(json!({"capabilities": {"add": ["SYS_ADMIN", "KILL"]}})),
            "non-default capabilities (container \"c\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add)",
        );
        check(json!({"hostNetwork": true, "hostPID": true}), "host namespaces (hostNetwork=true, hostPID=true)");
        check(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "hostPath volumes (volume \"v\")");
        check(
            json!({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}),
            "hostPort (container \"c\" uses hostPort 80)",
        );
        check(
            with(json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        );
        check(
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}),
            "forbidden sysctls (kernel.msgmax)",
        );
        check(
            with(json!({"procMount": "Unmasked"})),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        );
    }

    #[test]
    fn restricted_volumes_and_users() {
        let spec = json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0, "seccompProfile": {"type": "Localhost"}},
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}], "containers": []});
        assert_eq!(
            violations(&pod(spec), Level::Restricted).join(", "),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\"), runAsUser=0 (pod must not set runAsUser=0)"
        );
    }
}
