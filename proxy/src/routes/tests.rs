//! Ranges lead through their machines; what is another's stays, and what is refused is not asked for at every change.

use super::*;
use serde_json::json;

fn node(name: &str, range: &str, ip: &str) -> Node {
    let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": ip}]);
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"podCIDR": range}, "status": {"addresses": addresses}
    }))
    .unwrap()
}

#[test]
fn others_ranges_go_through_their_machines() {
    let nodes = [
        node("a", "10.244.0.0/24", "192.0.2.1"),
        node("b", "10.244.1.0/24", "192.0.2.2"),
        node("new", "", "192.0.2.3"),
        node("lost", "10.244.9.0/24", "not an address"),
        node("twin", "10.244.8.0/24", "192.0.2.1"),
    ];
    let expect = Routes::from([("10.244.1.0/24".to_owned(), Ipv4Addr::new(192, 0, 2, 2))]);
    assert_eq!(wanted(&nodes, "a"), expect);
    assert_eq!(wanted(&nodes, "b").len(), 2, "a and its twin");
}

#[test]
fn ranges_are_written_as_the_kernel_prints_them() {
    for (given, expect) in [
        ("10.244.1.7/24", Some("10.244.1.0/24")),
        ("10.0.0.1/32", Some("10.0.0.1")),
        ("10.0.0.0/33", None),
        ("fd00::/64", None),
        ("", None),
    ] {
        assert_eq!(canonical(given).as_deref(), expect, "{given}");
    }
}

#[test]
fn only_differences_are_steps() {
    let route = |range: &str, last: u8| (range.to_owned(), Ipv4Addr::new(192, 0, 2, last));
    let old = Routes::from([route("a", 1), route("b", 2), route("c", 3)]);
    let new = Routes::from([route("a", 1), route("b", 9), route("d", 4)]);
    let (set, forget) = diff(&old, &new);
    assert_eq!(set, [("b", Ipv4Addr::new(192, 0, 2, 9)), ("d", Ipv4Addr::new(192, 0, 2, 4))]);
    assert_eq!(forget, ["c"]);
    let (set, forget) = diff(&new, &new);
    assert!(set.is_empty() && forget.is_empty(), "settled");
}

/// Remembers what it was asked; ranges may have somebody else's route, or be out of reach.
#[derive(Default)]
struct Fake {
    routes: Routes,
    others: BTreeSet<String>,
    unreachable: BTreeSet<String>,
    asked: Vec<String>,
}

impl Kernel for Fake {
    async fn read(&mut self) -> Result<Routes, String> {
        self.asked.push("read".to_owned());
        Ok(self.routes.clone())
    }

    async fn other(&mut self, range: &str) -> Result<Option<String>, String> {
        self.asked.push(format!("other {range}"));
        Ok(self.others.contains(range).then(|| "protocol static through wg0".to_owned()))
    }

    async fn replace(&mut self, range: &str, via: Ipv4Addr) -> Result<(), String> {
        self.asked.push(format!("replace {range} {via}"));
        if self.unreachable.contains(range) {
            return Err("Nexthop has invalid gateway.".to_owned());
        }
        self.routes.insert(range.to_owned(), via);
        Ok(())
    }

    async fn delete(&mut self, range: &str) -> Result<(), String> {
        self.asked.push(format!("delete {range}"));
        self.routes.remove(range);
        Ok(())
    }
}

/// What bringing these nodes asks of the kernel.
async fn asked(agent: &mut Agent<Fake>, nodes: &[Arc<Node>]) -> Vec<String> {
    agent.bring(nodes, "a").await;
    std::mem::take(&mut agent.table.asked)
}

#[tokio::test]
async fn routes_of_others_are_left_alone() {
    let mut agent = Agent::new(Fake::default());
    agent.table.others.insert("10.244.1.0/24".to_owned());
    let nodes = [Arc::new(node("b", "10.244.1.0/24", "192.0.2.2")), Arc::new(node("c", "10.244.2.0/24", "192.0.2.3"))];
    let expect = ["read", "other 10.244.1.0/24", "other 10.244.2.0/24", "replace 10.244.2.0/24 192.0.2.3"];
    assert_eq!(asked(&mut agent, &nodes).await, expect);
    assert_eq!(agent.said.len(), 1);
    assert_eq!(asked(&mut agent, &nodes).await, [""; 0], "not at every change");
    agent.look_again();
    assert_eq!(asked(&mut agent, &nodes).await, ["read", "other 10.244.1.0/24"], "at the resync");
    agent.table.others.clear();
    agent.look_again();
    let expect = ["read", "other 10.244.1.0/24", "replace 10.244.1.0/24 192.0.2.2"];
    assert_eq!(asked(&mut agent, &nodes).await, expect, "once the other route is gone");
    assert!(agent.said.is_empty());
}

#[tokio::test]
async fn what_the_kernel_refuses_waits_for_the_resync() {
    let mut agent = Agent::new(Fake::default());
    agent.table.unreachable.insert("10.244.1.0/24".to_owned());
    let far = Arc::new(node("b", "10.244.1.0/24", "198.51.100.2"));
    let expect = ["read", "other 10.244.1.0/24", "replace 10.244.1.0/24 198.51.100.2"];
    assert_eq!(asked(&mut agent, std::slice::from_ref(&far)).await, expect);
    // Another machine joins: only its range is set, and nothing is read again.
    let near = Arc::new(node("c", "10.244.2.0/24", "192.0.2.3"));
    let expect = ["other 10.244.2.0/24", "replace 10.244.2.0/24 192.0.2.3"];
    assert_eq!(asked(&mut agent, &[far.clone(), near.clone()]).await, expect);
    // The machine moves onto the link: another address is another try.
    agent.table.unreachable.clear();
    let moved = Arc::new(node("b", "10.244.1.0/24", "192.0.2.2"));
    let expect = ["other 10.244.1.0/24", "replace 10.244.1.0/24 192.0.2.2"];
    assert_eq!(asked(&mut agent, &[moved, near]).await, expect);
    assert_eq!(asked(&mut agent, &[far]).await.len(), 3, "forgets c, and tries b's old address again");
}
