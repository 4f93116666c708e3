//! etcd's own command line against the store: every member serves it, whoever leads.

use anyhow::ensure;
use gantry_conformance::{Etcdctl, Fleet, wait_for};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn says(etcdctl: &Etcdctl, arguments: &[&str], expect: &str) -> anyhow::Result<()> {
    let said = etcdctl.ok(arguments)?;
    ensure!(said == expect, "etcdctl {arguments:?} says {said:?}, not {expect:?}");
    Ok(())
}

pub fn it_reads_and_writes_through_every_member(fleet: &Fleet) -> anyhow::Result<()> {
    let members = [1, 2, 3].map(|member| fleet.etcdctl("state", &[member]));
    for (number, etcdctl) in members.iter().enumerate() {
        let key = format!("ctl/{number}");
        says(etcdctl, &["put", &key, "one"], "OK")?;
        says(etcdctl, &["put", &key, "two", "--prev-kv"], &format!("OK\n{key}\none"))?;
        // A read through any member is linearizable.
        for other in &members {
            says(other, &["get", &key, "--print-value-only"], "two")?;
        }
    }
    let [first, second, third] = &members;
    says(first, &["get", "ctl/", "--prefix", "--keys-only", "--order=DESCEND"], "ctl/2\n\nctl/1\n\nctl/0")?;
    says(second, &["get", "ctl/", "--prefix", "--sort-by=MODIFY", "--limit=1"], "ctl/0\ntwo")?;
    let fields = third.ok(&["get", "ctl/0", "-w=fields"])?;
    ensure!(fields.contains("\"Version\" : 2"), "{fields}");
    let created = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : ")).unwrap_or_default();
    says(third, &["get", "ctl/0", "--print-value-only", "--rev", created], "one")?;
    third.fails(&["get", "ctl/0", "--rev", "9000000000"], "required revision is a future revision")?;

    let txn =
        "version(\"ctl/0\") > \"1\"\nvalue(\"ctl/1\") = \"two\"\n\nput ctl/txn yes\nget ctl/txn\n\nput ctl/txn no\n\n";
    let answer = second.run(&["txn"], txn)?;
    ensure!(answer.out.ends_with("SUCCESS\n\nOK\n\nctl/txn\nyes"), "{answer:?}");
    let twice = second.run(&["txn"], "\nput ctl/a 1\nput ctl/a 2\n\n\n")?;
    ensure!(twice.err.contains("duplicate key given in txn request"), "{twice:?}");
    says(first, &["get", "ctl/a"], "")?;
    second.fails(&["put", "ctl/a", "1", "--lease=42"], "requested lease not found")?;
    second.fails(&["put", "ctl/none", "--ignore-value"], "key not found")?;
    second.fails(&["user", "list"], "authentication is not enabled")?;
    says(first, &["del", "ctl/", "--prefix"], "4")
}

pub fn it_watches_and_holds_leases(fleet: &Fleet) -> anyhow::Result<()> {
    let (first, second) = (fleet.etcdctl("state", &[1]), fleet.etcdctl("state", &[2]));
    let revision = |text: &str| {
        text.split_once("\"revision\":").and_then(|(_, rest)| rest.split([',', '}']).next()).map(str::to_owned)
    };
    let put = first.ok(&["put", "seen/0", "past", "-w=json"])?;
    let from = revision(&put).unwrap_or_default();
    first.ok(&["put", "seen/0", "present"])?;
    let log = tempfile::NamedTempFile::new()?;
    let mut watch = second.start(&["watch", "seen/", "--prefix", "--prev-kv", "--rev", &from], log.path())?;
    let granted = second.ok(&["lease", "grant", "3"])?;
    let lease = granted.split_whitespace().nth(1).unwrap_or_default();
    let watched = (|| {
        first.ok(&["put", "seen/leased", "v", "--lease", lease])?;
        let left = first.ok(&["lease", "timetolive", lease, "--keys"])?;
        ensure!(left.contains("granted with TTL(3s)") && left.contains("attached keys([seen/leased])"), "{left}");
        ensure!(second.ok(&["lease", "list"])?.contains(lease), "the lease is not listed");
        second.ok(&["lease", "keep-alive", "--once", lease])?;
        let expect = "PUT\nseen/0\npast\nPUT\nseen/0\npast\nseen/0\npresent\nPUT\nseen/leased\nv\nDELETE\nseen/leased\nv\nseen/leased";
        wait_for("the watch to see the lease's key go", PATIENCE, || {
            let seen = std::fs::read_to_string(log.path())?;
            ensure!(seen.trim_end() == expect, "{seen:?}");
            Ok(())
        })
    })();
    watch.kill()?;
    watch.wait()?;
    watched?;
    ensure!(first.ok(&["lease", "timetolive", lease])?.contains("already expired"), "the lease is still there");
    says(&second, &["lock", "mutex", "echo", "held"], "held")?;
    says(&first, &["del", "seen/", "--prefix"], "1")
}

pub fn it_sees_the_members_agree(fleet: &Fleet) -> anyhow::Result<()> {
    let all = fleet.etcdctl("events", &[1, 2, 3]);
    let status = all.ok(&["endpoint", "status", "-w=simple"])?;
    let leaders = status.lines().filter(|line| line.split(", ").nth(4) == Some("true")).count();
    ensure!(status.lines().count() == 3 && leaders == 1, "{status}");
    all.ok(&["endpoint", "health"])?;
    ensure!(all.ok(&["member", "list"])?.lines().count() == 3, "not three members");
    says(&all, &["alarm", "list"], "")?;
    all.ok(&["defrag"])?;
    let revision = all.ok(&["put", "agree", "v", "-w=json"])?;
    let revision =
        revision.split("\"revision\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap_or_default();
    wait_for("equal hashes at one revision", PATIENCE, || {
        let hashes = all.ok(&["endpoint", "hashkv", "--rev", revision])?;
        let mut each: Vec<_> = hashes.lines().filter_map(|line| line.rsplit(", ").next()).collect();
        ensure!(each.len() == 3, "{hashes}");
        each.dedup();
        ensure!(each.len() == 1, "{hashes}");
        Ok(())
    })
}

pub fn a_member_alone_compacts_saves_and_hands_over(fleet: &Fleet) -> anyhow::Result<()> {
    let first = fleet.start_lone_member(1)?;
    let tried = compacts_and_saves(fleet, &first).and_then(|()| hands_over(fleet, &first));
    fleet.stop_lone_member(1)?;
    fleet.stop_lone_member(2)?;
    tried
}

fn compacts_and_saves(fleet: &Fleet, etcdctl: &Etcdctl) -> anyhow::Result<()> {
    let compacted = "required revision has been compacted";
    wait_for("the member to answer", PATIENCE, || etcdctl.ok(&["put", "k", "1"]))?;
    for value in ["2", "3", "4"] {
        etcdctl.ok(&["put", "k", value])?;
    }
    let now = etcdctl.ok(&["get", "k", "-w=fields"])?;
    let revision: u64 = now
        .lines()
        .find_map(|line| line.strip_prefix("\"Revision\" : "))
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    let (oldest, before) = ((revision - 1).to_string(), (revision - 2).to_string());
    says(etcdctl, &["compaction", &oldest], &format!("compacted revision {oldest}"))?;
    etcdctl.fails(&["compaction", &oldest], compacted)?;
    says(etcdctl, &["get", "k", "--print-value-only", "--rev", &oldest], "3")?;
    etcdctl.fails(&["get", "k", "--rev", &before], compacted)?;
    let file = fleet.folder().join("saved.db");
    etcdctl.ok(&["snapshot", "save", &file.to_string_lossy()])?;
    let bytes = std::fs::metadata(&file)?.len();
    ensure!(bytes % 512 == 32, "{bytes} bytes are not whole blocks and a SHA-256");
    Ok(())
}

/// A second member joins, decides, leads, and stays when the first is gone.
fn hands_over(fleet: &Fleet, first: &Etcdctl) -> anyhow::Result<()> {
    let url = format!("--peer-urls=https://{}", Fleet::lone_address(2));
    first.ok(&["member", "add", "second", &url])?;
    first.fails(&["member", "add", "third", &url], "Peer URLs already exists")?;
    let second = fleet.start_lone_member(2)?;
    wait_for("the learner to be promoted", PATIENCE, || first.ok(&["member", "promote", "2"]))?;
    first.fails(&["member", "promote", "2"], "can only promote a learner member")?;
    first.ok(&["move-leader", "2"])?;
    first.fails(&["move-leader", "1"], "no leader endpoint given")?;
    // Asked of a follower, which hands the question on.
    first.ok(&["member", "remove", "1"])?;
    fleet.stop_lone_member(1)?;
    says(&second, &["get", "k", "--print-value-only"], "4")?;
    says(&second, &["put", "k", "5"], "OK")?;
    let members = second.ok(&["member", "list"])?;
    ensure!(members.lines().count() == 1 && members.starts_with("2, "), "{members}");
    Ok(())
}
