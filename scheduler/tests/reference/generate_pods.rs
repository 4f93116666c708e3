//! Random pods with every kind of placement rule, as the API server would store them.

use super::World;
use super::generate::{Dice, GPU, HOST, RACK, Theme, ZONE};
use super::manifest::{amount, amounts, name};
use super::room::{Band, free_in_zone, lent, taken};
use serde_json::{Map, Value, json};

/// A running pod: its own rules matter only where they reach others (anti-affinity, preferences).
pub fn bound_pod(dice: &mut Dice, i: i64, theme: Theme) -> Value {
    let mut pod = plain(dice, &format!("bound-{i:02}"), theme);
    pod["status"] = json!({"phase": "Running", "startTime": format!("2026-01-01T00:{:02}:00Z", dice.between(0, 59))});
    if dice.chance(6) {
        pod["status"]["phase"] = (*dice.pick(&["Succeeded", "Failed"])).into();
    }
    if dice.chance(8) {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    }
    if theme.chance(dice, Theme::Near, 14, 20) {
        affinity(dice, &mut pod, "podAntiAffinity", "required");
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if theme.chance(dice, Theme::Near, 12, 20) {
            affinity(dice, &mut pod, kind, "preferred");
        }
    }
    if theme.chance(dice, Theme::Near, 10, 15) {
        affinity(dice, &mut pod, "podAffinity", "required");
    }
    if theme.chance(dice, Theme::Room, 12, 35) {
        resize(dice, &mut pod);
    }
    pod
}

/// A waiting pod, each kind of rule with its own chance.
pub fn pending_pod(dice: &mut Dice, i: i64, world: &World, theme: Theme) -> Value {
    let mut pod = plain(dice, &format!("pending-{i}"), theme);
    pod["status"] = json!({"phase": "Pending"});
    if dice.chance(40) {
        pod["spec"]["tolerations"] = tolerations(dice);
    }
    if dice.chance(15) {
        pod["spec"]["nodeSelector"] = match dice.between(0, 2) {
            0 => json!({"disk": "ssd"}),
            1 => json!({ZONE: dice.pick(&["z0", "z1"])}),
            _ => json!({"disk": "hdd", "size": dice.pick(&["1", "2"])}),
        };
    }
    if dice.chance(45) {
        node_affinity(dice, &mut pod, world);
    }
    if theme.chance(dice, Theme::Near, 20, 55) {
        affinity(dice, &mut pod, "podAffinity", "required");
    }
    if theme.chance(dice, Theme::Near, 26, 50) {
        affinity(dice, &mut pod, "podAntiAffinity", "required");
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if theme.chance(dice, Theme::Near, 30, 50) {
            affinity(dice, &mut pod, kind, "preferred");
        }
    }
    if theme.chance(dice, Theme::Spread, 30, 95) {
        let constraints: Vec<Value> = (0..dice.between(1, 2)).map(|i| spread(dice, i, theme)).collect();
        pod["spec"]["topologySpreadConstraints"] = constraints.into();
    }
    if theme.chance(dice, Theme::Room, 8, 30) {
        exact(dice, &mut pod, world);
    }
    if dice.chance(8) {
        pod["spec"]["preemptionPolicy"] = "Never".into();
    }
    pod
}

fn plain(dice: &mut Dice, name: &str, theme: Theme) -> Value {
    let mut labels = Map::new();
    for (key, values, percent) in
        [("app", &["web", "db", "cache"][..], 90), ("tier", &["x", "y"], 50), ("version", &["1", "2"], 60)]
    {
        if dice.chance(percent) {
            labels.insert(key.to_owned(), (*dice.pick(values)).into());
        }
    }
    let (class, priority) = *dice.pick(&[
        ("production", 1_000_000),
        ("production-low", 900_000),
        ("batch", -1000),
        ("batch", -1000),
        ("best-effort", -10_000),
        ("important", 1000),
        ("system-cluster-critical", 2_000_000_000),
        ("", 0),
        ("", 0),
    ]);
    let mut namespace = *dice.pick(&["a", "a", "b", "c", "d"]);
    if theme == Theme::Spread && dice.chance(75) {
        labels.insert("app".to_owned(), "web".into());
        namespace = "a";
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "labels": labels,
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"priority": priority, "schedulerName": "default-scheduler", "preemptionPolicy": "PreemptLowerPriority"},
    });
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = class.into();
    }
    containers(dice, &mut pod, theme);
    pod
}

fn containers(dice: &mut Dice, pod: &mut Value, theme: Theme) {
    let mut main: Vec<Value> = (0..dice.between(1, 2)).map(|i| container(dice, &format!("main-{i}"))).collect();
    if theme.chance(dice, Theme::Room, 14, 20) {
        main[0]["resources"]["requests"][GPU] = "1".into();
        main[0]["resources"]["limits"][GPU] = "1".into();
    }
    if theme.chance(dice, Theme::Room, 12, 25) {
        main[0]["resources"]["requests"]["hugepages-2Mi"] = format!("{}Mi", dice.between(1, 3) * 2).into();
    }
    if dice.chance(6) {
        main[0]["resources"]["requests"]["ephemeral-storage"] = format!("{}Gi", dice.between(1, 6)).into();
    }
    pod["spec"]["hostNetwork"] = dice.chance(8).into();
    let on_host_network = pod["spec"]["hostNetwork"] == true;
    let asks_for_port = if [Theme::Spread, Theme::Room].contains(&theme) { 6 } else { 28 };
    if dice.chance(asks_for_port) || on_host_network {
        main[0]["ports"] = json!([port(dice, on_host_network)]);
    }
    pod["spec"]["containers"] = main.into();
    let mut inits: Vec<Value> = Vec::new();
    for i in 0..dice.between(0, 6) - 3 {
        let mut init = container(dice, &format!("init-{i}"));
        if dice.chance(50) {
            init["restartPolicy"] = "Always".into();
            if dice.chance(30) {
                init["ports"] = json!([port(dice, on_host_network)]);
            }
        }
        inits.push(init);
    }
    pod["spec"]["initContainers"] = inits.into();
    if theme.chance(dice, Theme::Room, 8, 25) {
        pod["spec"]["overhead"] = json!({"cpu": "100m", "memory": "64Mi"});
    }
    if theme.chance(dice, Theme::Room, 8, 25) {
        let (cpu, memory) = (dice.between(2, 20) * 100, dice.between(2, 12) * 128);
        pod["spec"]["resources"] = json!({"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}});
        if dice.chance(40) {
            pod["spec"]["resources"]["requests"]["hugepages-2Mi"] = format!("{}Mi", dice.between(1, 6) * 2).into();
        }
    }
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let mut requests = Map::new();
    if dice.chance(80) {
        requests.insert("cpu".to_owned(), format!("{}m", dice.between(0, 8) * 50).into());
    }
    if dice.chance(75) {
        requests.insert("memory".to_owned(), format!("{}Mi", dice.between(1, 6) * 64).into());
    }
    json!({"name": name, "image": "example.com/image:1", "resources": {"requests": requests, "limits": {}}})
}

/// Stored as the API server would: a container port on the host's network is the host port, too.
fn port(dice: &mut Dice, on_host_network: bool) -> Value {
    let number = *dice.pick(&[80, 80, 443]);
    let container_port = if on_host_network { number } else { 8080 };
    let mut port = json!({"containerPort": container_port, "hostPort": number,
                          "protocol": dice.pick(&["TCP", "TCP", "TCP", "UDP"])});
    let address = *dice.pick(&["", "0.0.0.0", "::", "127.0.0.1", "10.0.0.1"]);
    if !address.is_empty() {
        port["hostIP"] = address.into();
    }
    port
}

/// A resize under way: more or less was given than is now wanted.
fn resize(dice: &mut Dice, pod: &mut Value) {
    let given = |dice: &mut Dice, name: &str| {
        let (cpu, memory) = (dice.between(1, 10) * 50, dice.between(1, 6) * 64);
        let given = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        let mut status = json!({"name": name, "allocatedResources": given});
        if dice.chance(50) {
            status["resources"] = json!({"requests": {"cpu": format!("{}m", dice.between(1, 10) * 50)}});
        }
        status
    };
    if dice.chance(30) {
        let reason = *dice.pick(&["Infeasible", "Deferred"]);
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    }
    pod["status"]["containerStatuses"] = json!([given(dice, "main-0")]);
    if dice.chance(50) {
        pod["status"]["initContainerStatuses"] = json!([given(dice, "init-0")]);
    }
}

fn tolerations(dice: &mut Dice) -> Value {
    let one = |dice: &mut Dice| match dice.between(0, 9) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"operator": "Exists", "effect": dice.pick(&["NoSchedule", "NoExecute"])}),
        2 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}),
        3 => json!({"key": "flaky", "operator": "Exists"}),
        4 => json!({"key": "flaky", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}),
        5 => {
            json!({"key": "dedicated", "operator": "Equal", "value": dice.pick(&["web", "gpu"]), "effect": "NoSchedule"})
        }
        6 | 7 => json!({"key": "dedicated", "value": dice.pick(&["web", "gpu", ""])}),
        8 => json!({"key": "dedicated"}),
        _ => json!({"key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule"}),
    };
    (0..dice.between(1, 3)).map(|_| one(dice)).collect()
}

fn node_affinity(dice: &mut Dice, pod: &mut Value, world: &World) {
    if dice.chance(35) {
        let terms: Vec<Value> = (0..dice.between(1, 2)).map(|_| node_term(dice, world)).collect();
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if dice.chance(80) {
        let weighted = |dice: &mut Dice| json!({"weight": dice.between(1, 100), "preference": node_term(dice, world)});
        let terms: Vec<Value> = (0..dice.between(1, 3)).map(|_| weighted(dice)).collect();
        pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    }
}

fn node_term(dice: &mut Dice, world: &World) -> Value {
    if dice.chance(8) {
        return json!({});
    }
    let mut term = json!({});
    if dice.chance(15) {
        let machine = name(dice.pick(&world.nodes));
        let operator = *dice.pick(&["In", "NotIn"]);
        term["matchFields"] = json!([{"key": "metadata.name", "operator": operator, "values": [machine]}]);
        if dice.chance(50) {
            return term;
        }
    }
    let requirement = |dice: &mut Dice| match dice.between(0, 6) {
        0 => json!({"key": "disk", "operator": "In", "values": [dice.pick(&["ssd", "hdd"])]}),
        1 => json!({"key": "disk", "operator": "NotIn", "values": ["ssd"]}),
        2 => json!({"key": ZONE, "operator": "In", "values": ["z0", "z1"]}),
        3 => json!({"key": *dice.pick(&["size", RACK, ZONE]), "operator": "Exists"}),
        4 => json!({"key": *dice.pick(&["size", RACK]), "operator": "DoesNotExist"}),
        5 => json!({"key": "size", "operator": "Gt", "values": [dice.pick(&["0", "1", "2"])]}),
        _ => json!({"key": "size", "operator": "Lt", "values": [dice.pick(&["2", "3", "4"])]}),
    };
    term["matchExpressions"] = (0..dice.between(1, 2)).map(|_| requirement(dice)).collect();
    term
}

fn selector(dice: &mut Dice) -> Value {
    match dice.between(0, 11) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
        2 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}),
        3 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        4 => json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
        5 => json!({"matchLabels": {"app": "web", "tier": "x"}}),
        6 => Value::Null,
        _ => json!({"matchLabels": {"app": dice.pick(&["web", "db", "cache"])}}),
    }
}

fn pod_term(dice: &mut Dice) -> Value {
    let mut term = json!({"topologyKey": *dice.pick(&[ZONE, ZONE, HOST, RACK])});
    let selector = selector(dice);
    if !selector.is_null() {
        for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
            if dice.chance(12) {
                term[keys] = json!(["version"]);
                break;
            }
        }
        term["labelSelector"] = selector;
    }
    if dice.chance(25) {
        term["namespaces"] = dice.pick(&[json!(["a"]), json!(["b"]), json!(["a", "c"])]).clone();
    }
    if dice.chance(25) {
        let by_team = json!({"matchLabels": {"team": dice.pick(&["red", "blue"])}});
        term["namespaceSelector"] = if dice.chance(50) { json!({}) } else { by_team };
    }
    term
}

fn affinity(dice: &mut Dice, pod: &mut Value, kind: &str, strength: &str) {
    let count = if dice.chance(70) { 1 } else { 2 };
    let terms: Vec<Value> = (0..count).map(|_| pod_term(dice)).collect();
    if strength == "required" {
        pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] = terms.into();
        return;
    }
    let weighted = |term| json!({"weight": dice.between(1, 100), "podAffinityTerm": term});
    pod["spec"]["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"] =
        terms.into_iter().map(weighted).collect();
}

/// A request at the very edge of what a machine or its zone has left, or one unit to either side.
fn exact(dice: &mut Dice, pod: &mut Value, world: &World) {
    let (node, resource) = (dice.pick(&world.nodes), *dice.pick(&["cpu", "memory"]));
    let owned = amount(&amounts(&node["status"]["allocatable"]), resource);
    let (free, total) = free_in_zone(world, node, resource);
    let reserved = amount(&taken(world, node, Band::is_reserved), resource);
    let all = amount(&taken(world, node, |_| true), resource);
    let edges = [owned - reserved, owned + lent(world, node, resource) - all, free - total / 100, free];
    let request = dice.pick(&edges) + i128::from(dice.between(-1, 1));
    if request > 0 {
        let unit = if resource == "cpu" { "m" } else { "" };
        let requests = json!({resource: format!("{request}{unit}")});
        pod["spec"]["containers"] = json!([{"name": "main-0", "resources": {"requests": requests}}]);
        for field in ["initContainers", "overhead", "resources"] {
            pod["spec"].as_object_mut().map(|spec| spec.remove(field));
        }
    }
}

/// Two constraints of a pod never share a key and a strictness, as validation demands.
fn spread(dice: &mut Dice, i: i64, theme: Theme) -> Value {
    let keys = if i == 0 { [ZONE, ZONE] } else { [HOST, RACK] };
    let strictness = if dice.chance(85) { "DoNotSchedule" } else { "ScheduleAnyway" };
    let mut constraint = json!({
        "maxSkew": dice.pick(&[1, 1, 2, 3, 5]), "topologyKey": *dice.pick(&keys), "whenUnsatisfiable": strictness,
    });
    let mut selector = selector(dice);
    if theme == Theme::Spread && dice.chance(60) {
        selector = json!({"matchLabels": {"app": "web"}});
    }
    if !selector.is_null() {
        if theme.chance(dice, Theme::Spread, 15, 35) {
            constraint["matchLabelKeys"] = json!(["version"]);
        }
        constraint["labelSelector"] = selector;
    }
    if strictness == "DoNotSchedule" && theme.chance(dice, Theme::Spread, 20, 30) {
        constraint["minDomains"] = dice.between(2, 5).into();
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if theme.chance(dice, Theme::Spread, 35, 60) {
            constraint[policy] = (*dice.pick(&["Honor", "Ignore"])).into();
        }
    }
    constraint
}
