//! The table of default roles: it reads, its objects are valid, and it allows what it must and no more.

use super::*;
use crate::auth::UserInfo;
use crate::auth::authz::Attributes;
use crate::auth::rbac::index::{Binding, Index};
use crate::auth::rbac::rule::rules_of;
use crate::kinds::{strategy, testing};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn index() -> Index {
    let mut index = Index::default();
    for one in all() {
        if [&ROLE, &CLUSTER_ROLE].contains(&one.kind) {
            index.set_role(&one.namespace, &one.name, Some(rules_of(&one.object)));
        } else {
            index.set_binding(&one.namespace, &one.name, Some(Binding::read(&one.object)));
        }
    }
    index
}

#[test]
fn every_line_makes_one_valid_object_and_every_binding_finds_its_role() {
    let made = all();
    let mut seen = BTreeSet::new();
    for one in &made {
        assert!(seen.insert((one.kind.kind, &one.namespace, &one.name)), "{} twice", one.name);
        let errors = testing::errors(strategy(one.kind.group, one.kind.plural), &one.object, None);
        assert_eq!(errors, "[]", "{}", one.name);
        if let Some(role) = one.object["roleRef"]["name"].as_str() {
            let kind = one.object["roleRef"]["kind"].as_str().unwrap();
            assert!(
                made.iter().any(|r| r.kind.kind == kind && r.name == role && r.namespace == one.namespace),
                "{role}"
            );
        }
    }
    assert!(made.len() > 100, "{}", made.len());
}

#[test]
fn a_line_reads_as_an_object() {
    let made =
        parse("cluster-role r +edit = admin\n    read,create core,apps a,b/c x\n    get /p,/q\nrole n s\n    * * *\n");
    let label = |group: &str| format!("rbac.authorization.k8s.io/aggregate-to-{group}");
    assert_eq!(made[0].object["metadata"]["labels"][label("edit")], "true");
    let selectors = &made[0].object["aggregationRule"]["clusterRoleSelectors"];
    assert_eq!(*selectors, json!([{"matchLabels": {label("admin"): "true"}}]));
    let expect = json!([
        {"verbs": ["create", "get", "list", "watch"], "apiGroups": ["", "apps"], "resources": ["a", "b/c"], "resourceNames": ["x"]},
        {"verbs": ["get"], "nonResourceURLs": ["/p", "/q"]},
    ]);
    assert_eq!(made[0].object["rules"], expect);
    assert_eq!(made[1].object["metadata"]["namespace"], "n");
    assert_eq!(made[1].object["rules"], json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
}

#[test]
fn aggregated_roles_are_complete() {
    let made = all();
    let rules =
        |name: &str| rules_of(&made.iter().find(|one| one.kind == &CLUSTER_ROLE && one.name == name).unwrap().object);
    let (admin, edit, view) = (rules("admin"), rules("edit"), rules("view"));
    let within = |part: &[Rule], whole: &[Rule]| part.iter().all(|rule| whole.contains(rule));
    assert!(!view.is_empty() && within(&view, &edit) && within(&edit, &admin));
    assert!(edit.len() > view.len() && admin.len() > edit.len());
}

/// Whether the defaults alone let somebody do it. `on`: group/resource[/subresource], `at`: namespace[/name] or a path.
fn may(index: &Index, (who, groups): (&str, &[&str]), verb: &str, on: &str, at: &str) -> bool {
    let mut steps = on.splitn(3, '/');
    let (group, resource) = (steps.next().unwrap_or(""), steps.next().unwrap_or(""));
    let subresource = steps.next().unwrap_or("");
    let (namespace, name) = at.split_once('/').unwrap_or((at, ""));
    let path = at.starts_with('/').then_some(at);
    let namespace = if path.is_some() { "" } else { namespace };
    let what = Attributes { verb, group, resource, subresource, namespace, name, path, ..Attributes::default() };
    let mut allowed = false;
    index.visit(&UserInfo::new(who, groups), namespace, |_, rules| {
        allowed |= rules.unwrap().iter().any(|rule| rule.allows(&what));
        ControlFlow::Continue(())
    });
    allowed
}

#[test]
fn the_scheduler_may_do_its_work() {
    let index = index();
    let check = |verb: &str, on: &str, at: &str, expect: bool| {
        assert_eq!(may(&index, ("system:kube-scheduler", &[]), verb, on, at), expect, "{verb} {on} {at}");
    };
    for resource in
        ["/pods", "/nodes", "/namespaces", "scheduling.k8s.io/priorityclasses", "gantry.dev/nodeallocations"]
    {
        for verb in ["get", "list", "watch"] {
            check(verb, resource, "", true);
        }
    }
    for resource in [
        "policy/poddisruptionbudgets",
        "/persistentvolumeclaims",
        "/persistentvolumes",
        "storage.k8s.io/storageclasses",
        "storage.k8s.io/csinodes",
        "storage.k8s.io/csistoragecapacities",
        "gantry.dev/podgroups",
        "gantry.dev/batchcapacities",
        "gantry.dev/placementreviews",
    ] {
        for verb in ["list", "watch"] {
            check(verb, resource, "", true);
        }
    }
    check("patch", "gantry.dev/podgroups/status", "n/g", true);
    check("patch", "gantry.dev/placementreviews/status", "n/r", true);
    check("create", "gantry.dev/placementreviews", "n", false);
    check("patch", "gantry.dev/batchcapacities", "", false);
    check("create", "gantry.dev/bindings", "", true);
    check("create", "/pods/binding", "n", true);
    check("patch", "/pods/status", "n/p", true);
    check("delete", "/pods", "n/p", true);
    check("create", "/events", "n", true);
    check("patch", "/events", "n/e", true);
    check("update", "coordination.k8s.io/leases", "kube-system/other-scheduler", true);
    check("patch", "coordination.k8s.io/leases", "kube-node-lease/n1", false);
    check("list", "/secrets", "", false);
    check("delete", "/nodes", "", false);
}

#[test]
fn components_may_do_their_work_and_people_nothing() {
    let index = index();
    let check = |who: &str, groups: &[&str], verb: &str, on: &str, at: &str, expect: bool| {
        assert_eq!(may(&index, (who, groups), verb, on, at), expect, "{who} {verb} {on} {at}");
    };
    let controllers = "system:kube-controller-manager";
    check(controllers, &[], "create", "gantry.dev/batchcapacities", "", true);
    check(controllers, &[], "patch", "gantry.dev/batchcapacities", "", true);
    for on in ["/pods", "apps/replicasets", "apps/controllerrevisions", "/configmaps", "/serviceaccounts", "/endpoints"]
    {
        check(controllers, &[], "create", on, "n", true);
    }
    check(controllers, &[], "create", "discovery.k8s.io/endpointslices", "n", true);
    check(controllers, &[], "update", "/namespaces/finalize", "n/n", true);
    check(controllers, &[], "patch", "apps/deployments/status", "n/d", true);
    check(controllers, &[], "deletecollection", "some.group/things", "n", true);
    check(controllers, &[], "list", "/secrets", "", true);
    check(controllers, &[], "update", "coordination.k8s.io/leases", "kube-system/kube-controller-manager", true);
    for (verb, on) in [
        ("create", "/pods/exec"),
        ("create", "/pods/binding"),
        ("create", "gantry.dev/bindings"),
        ("impersonate", "/users"),
        ("escalate", "rbac.authorization.k8s.io/clusterroles"),
        ("bind", "rbac.authorization.k8s.io/clusterroles"),
        ("approve", "certificates.k8s.io/signers"),
        ("create", "rbac.authorization.k8s.io/clusterrolebindings"),
    ] {
        check(controllers, &[], verb, on, "", false);
    }
    let proxy = |verb, on, expect| check("system:node-proxy:n1", &["system:node-proxiers"], verb, on, "", expect);
    proxy("list", "/services", true);
    proxy("watch", "discovery.k8s.io/endpointslices", true);
    proxy("list", "/secrets", false);
    proxy("list", "/pods", false);
    // A machine's agent has the node authoriser, and no role.
    check("system:node:n1", &["system:nodes"], "list", "/pods", "", false);
    check("jane", &[], "get", "", "/apis/apps/v1", true);
    check("jane", &[], "create", "authorization.k8s.io/selfsubjectaccessreviews", "", true);
    check("jane", &[], "get", "", "/metrics", false);
    check("jane", &[], "list", "/configmaps", "default", false);
    check("x", &["system:monitoring"], "get", "", "/metrics", true);
    check("system:serviceaccount:a:b", &["system:serviceaccounts"], "get", "", "/openid/v1/jwks", true);
}
