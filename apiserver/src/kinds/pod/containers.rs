//! Decides whether a pod's containers are valid: names, images, ports, environment, mounts, probes, hooks, resources.

use super::validate::{at_least, between, exactly_one, if_set_one_of, one_of, required, unique};
use crate::kinds::value::{at, bool_at, i64_at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["FallbackToLogsOnError", "File"];
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const HOOKS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const MAX_ID: i64 = i32::MAX as i64;

/// All three lists. `volumes` are the names that mounts may refer to.
pub fn validate(spec: &Value, path: &str, volumes: &[&str], errors: &mut FieldErrors) {
    if items(spec, "containers").is_empty() {
        errors.required(format!("{path}.containers"));
    }
    let mut seen = vec![];
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (position, container) in items(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{position}]");
            identity(container, &path, &mut seen, errors);
            common(container, &path, volumes, spec["hostNetwork"] == true, errors);
            match list {
                "initContainers" => init_rules(container, &path, errors),
                "ephemeralContainers" => ephemeral_rules(container, &path, errors),
                _ => {}
            }
            probes(container, &path, errors);
        }
    }
}

fn identity<'a>(container: &'a Value, path: &str, seen: &mut Vec<&'a str>, errors: &mut FieldErrors) {
    let (name, image) = (str_at(container, "name"), str_at(container, "image"));
    if required(container, "name", path, errors)
        && let Err(why) = names::dns1123_label(name)
    {
        errors.invalid(format!("{path}.name"), name, why);
    }
    unique(seen, name, &format!("{path}.name"), errors);
    if image.trim() != image {
        errors.invalid(format!("{path}.image"), image, "must not have leading or trailing whitespace");
    } else {
        required(container, "image", path, errors);
    }
}

fn common(container: &Value, path: &str, volumes: &[&str], host_network: bool, errors: &mut FieldErrors) {
    one_of(container, "imagePullPolicy", path, PULL_POLICIES, errors);
    one_of(container, "terminationMessagePolicy", path, MESSAGE_POLICIES, errors);
    ports(container, path, host_network, errors);
    environment(container, path, errors);
    mounts(container, path, volumes, errors);
    resources(&container["resources"], &format!("{path}.resources"), errors);
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = at(&container["lifecycle"], hook) {
            let path = format!("{path}.lifecycle.{hook}");
            exactly_one(handler, HOOKS, &path, "handler type", errors);
            self::handler(handler, &path, errors);
        }
    }
    let (context, path) = (&container["securityContext"], format!("{path}.securityContext"));
    between(context, "runAsUser", 0, MAX_ID, &path, errors);
    between(context, "runAsGroup", 0, MAX_ID, &path, errors);
    if context["allowPrivilegeEscalation"] == false && context["privileged"] == true {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(path, context.clone(), why);
    }
}

fn init_rules(container: &Value, path: &str, errors: &mut FieldErrors) {
    if_set_one_of(container, "restartPolicy", path, &["Always"], errors);
    if container["restartPolicy"] == "Always" {
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if at(container, field).is_some() {
            errors.forbidden(
                format!("{path}.{field}"),
                "may not be set for init containers without restartPolicy=Always",
            );
        }
    }
}

fn ephemeral_rules(container: &Value, path: &str, errors: &mut FieldErrors) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "ports"] {
        if at(container, field).is_some() {
            errors.forbidden(format!("{path}.{field}"), "cannot be set for an Ephemeral Container");
        }
    }
    if container["resources"].as_object().is_some_and(|resources| !resources.is_empty()) {
        errors.forbidden(format!("{path}.resources"), "cannot be set for an Ephemeral Container");
    }
}

fn ports(container: &Value, path: &str, host_network: bool, errors: &mut FieldErrors) {
    let mut seen = vec![];
    for (position, port) in items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{position}]");
        let name = str_at(port, "name");
        if let Some(Err(why)) = (!name.is_empty()).then(|| names::port_name(name)) {
            errors.invalid(format!("{path}.name"), name, why);
        }
        unique(&mut seen, name, &format!("{path}.name"), errors);
        match i64_at(port, "containerPort").unwrap_or(0) {
            0 => errors.required(format!("{path}.containerPort")),
            _ => between(port, "containerPort", 1, 65_535, &path, errors),
        }
        if i64_at(port, "hostPort").is_some_and(|host| host != 0) {
            between(port, "hostPort", 1, 65_535, &path, errors);
            if host_network && port["hostPort"] != port["containerPort"] {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(format!("{path}.hostPort"), port["hostPort"].clone(), why);
            }
        }
        one_of(port, "protocol", &path, PROTOCOLS, errors);
    }
}

fn environment(container: &Value, path: &str, errors: &mut FieldErrors) {
    for (position, variable) in items(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{position}]");
        let name = str_at(variable, "name");
        if required(variable, "name", &path, errors)
            && let Err(why) = names::env_var_name(name)
        {
            errors.invalid(format!("{path}.name"), name, why);
        }
        if let Some(source) = at(variable, "valueFrom") {
            variable_source(variable, source, &format!("{path}.valueFrom"), errors);
        }
    }
    for (position, source) in items(container, "envFrom").iter().enumerate() {
        let path = format!("{path}.envFrom[{position}]");
        match (at(source, "configMapRef"), at(source, "secretRef")) {
            (Some(_), Some(_)) => errors.invalid(path, "", "may not have more than one field specified at a time"),
            (None, None) => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            (Some(map), None) => {
                required(map, "name", &format!("{path}.configMapRef"), errors);
            }
            (None, Some(secret)) => {
                required(secret, "name", &format!("{path}.secretRef"), errors);
            }
        }
    }
}

fn variable_source(variable: &Value, source: &Value, path: &str, errors: &mut FieldErrors) {
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
    let set: Vec<&str> = kinds.into_iter().filter(|kind| at(source, kind).is_some()).collect();
    match set.as_slice() {
        [] => {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            errors.invalid(path, "", why);
        }
        [_] if !str_at(variable, "value").is_empty() => {
            errors.invalid(path, "", "may not be specified when `value` is not empty");
        }
        ["fieldRef"] => field_ref(&source["fieldRef"], &format!("{path}.fieldRef"), errors),
        ["resourceFieldRef"] => {
            required(&source["resourceFieldRef"], "resource", &format!("{path}.resourceFieldRef"), errors);
        }
        [kind] => {
            let path = format!("{path}.{kind}");
            required(&source[*kind], "name", &path, errors);
            if required(&source[*kind], "key", &path, errors)
                && let Err(why) = names::config_key(str_at(&source[*kind], "key"))
            {
                errors.invalid(format!("{path}.key"), str_at(&source[*kind], "key"), why);
            }
        }
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn field_ref(reference: &Value, path: &str, errors: &mut FieldErrors) {
    const FIELDS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if !required(reference, "fieldPath", path, errors) {
        return;
    }
    let field = str_at(reference, "fieldPath");
    let keyed = ["metadata.annotations['", "metadata.labels['"].iter().any(|start| field.starts_with(start));
    if !(FIELDS.contains(&field) || keyed && field.ends_with("']")) {
        errors.not_supported(format!("{path}.fieldPath"), field, FIELDS);
    }
}

fn mounts(container: &Value, path: &str, volumes: &[&str], errors: &mut FieldErrors) {
    let mut seen = vec![];
    for (position, mount) in items(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{position}]");
        let name = str_at(mount, "name");
        if required(mount, "name", &path, errors) && !volumes.contains(&name) {
            errors.not_found(format!("{path}.name"), name);
        }
        required(mount, "mountPath", &path, errors);
        let place = str_at(mount, "mountPath");
        if seen.contains(&place) {
            errors.invalid(format!("{path}.mountPath"), place, "must be unique");
        }
        seen.push(place);
        if !str_at(mount, "subPath").is_empty() && !str_at(mount, "subPathExpr").is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(format!("{path}.subPathExpr"), str_at(mount, "subPathExpr"), why);
        }
        for field in ["subPath", "subPathExpr"] {
            super::volumes::inner_path(str_at(mount, field), &format!("{path}.{field}"), errors);
        }
        if_set_one_of(mount, "mountPropagation", &path, PROPAGATIONS, errors);
        if mount["mountPropagation"] == "Bidirectional" && !bool_at(container, "securityContext.privileged") {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(format!("{path}.mountPropagation"), why);
        }
    }
}

fn probes(container: &Value, path: &str, errors: &mut FieldErrors) {
    for field in PROBES {
        let Some(probe) = at(container, field) else { continue };
        let path = format!("{path}.{field}");
        exactly_one(probe, HANDLERS, &path, "handler type", errors);
        handler(probe, &path, errors);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            at_least(probe, number, 0, &path, errors);
        }
        if let Some(successes) = i64_at(probe, "successThreshold").filter(|n| *n != 1 && field != "readinessProbe") {
            errors.invalid(format!("{path}.successThreshold"), successes, "must be 1");
        }
        let grace = i64_at(probe, "terminationGracePeriodSeconds");
        if grace.is_some() && field == "readinessProbe" {
            let why = "must not be set for readinessProbes";
            errors.invalid(format!("{path}.terminationGracePeriodSeconds"), grace, why);
        } else if grace.is_some_and(|grace| grace <= 0) {
            errors.invalid(format!("{path}.terminationGracePeriodSeconds"), grace, "must be greater than 0");
        }
    }
}

/// The action of a probe or a hook.
fn handler(handler: &Value, path: &str, errors: &mut FieldErrors) {
    if at(handler, "exec").is_some() && items(handler, "exec.command").is_empty() {
        errors.required(format!("{path}.exec.command"));
    }
    if let Some(get) = at(handler, "httpGet") {
        let path = format!("{path}.httpGet");
        required(get, "path", &path, errors);
        port(&get["port"], &format!("{path}.port"), errors);
        one_of(get, "scheme", &path, &["HTTP", "HTTPS"], errors);
        for (position, header) in items(get, "httpHeaders").iter().enumerate() {
            required(header, "name", &format!("{path}.httpHeaders[{position}]"), errors);
        }
    }
    if let Some(socket) = at(handler, "tcpSocket") {
        port(&socket["port"], &format!("{path}.tcpSocket.port"), errors);
    }
    if let Some(grpc) = at(handler, "grpc") {
        port(&grpc["port"], &format!("{path}.grpc.port"), errors);
    }
    at_least(&handler["sleep"], "seconds", 0, &format!("{path}.sleep"), errors);
}

fn port(port: &Value, path: &str, errors: &mut FieldErrors) {
    match (port.as_i64(), port.as_str()) {
        (Some(number), _) if (1..=65_535).contains(&number) => {}
        (_, Some(name)) => {
            if let Err(why) = names::port_name(name) {
                errors.invalid(path, name, why);
            }
        }
        (number, _) => errors.invalid(path, number.unwrap_or(0), "must be between 1 and 65535, inclusive"),
    }
}

/// Requests and limits, of a container or of a whole pod.
pub fn resources(resources: &Value, path: &str, errors: &mut FieldErrors) {
    for list in ["limits", "requests"] {
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            let path = format!("{path}.{list}");
            let standard =
                matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            if let Err(why) = names::qualified_name(name) {
                errors.invalid(path.as_str(), name.as_str(), why);
            } else if !standard && !name.contains('/') {
                errors.invalid(path.as_str(), name.as_str(), "must be a standard resource for containers");
            }
            let Some(amount) = quantity(value) else { continue };
            let path = format!("{path}[{name}]");
            if amount.is_negative() {
                errors.invalid(path, value.clone(), "must be greater than or equal to 0");
            } else if !standard && !amount.is_integer() {
                errors.invalid(path, value.clone(), "must be an integer");
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name.as_str()];
        let requests = format!("{path}.requests");
        let countable = name.contains('/') || name.starts_with("hugepages-");
        match (quantity(request), quantity(limit)) {
            (Some(request), Some(limit)) if countable && request != limit => {
                errors.invalid(requests, request.to_string(), format!("must be equal to {name} limit of {limit}"));
            }
            (Some(request), Some(limit)) if request > limit => {
                errors.invalid(
                    requests,
                    request.to_string(),
                    format!("must be less than or equal to {name} limit of {limit}"),
                );
            }
            (Some(_), None) if countable => {
                errors.required_because(format!("{path}.limits"), "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}
