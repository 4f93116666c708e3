//! `gantry store` as a person meets it: data that is not this member's is refused in one line with exit code 2 and stays
//! as it was, and a saved snapshot becomes a cluster of three that etcd's interface serves.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "other processes are looked at until they are as they should be, up to a deadline"
)]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

fn gantry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.arg("store").args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    gantry(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It must end with 2 and say this in one line.
fn refused(arguments: &[&str], says: &[&str]) {
    let output = output(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    for part in says {
        assert!(said.contains(part), "{arguments:?} does not say {part:?}: {said}");
    }
}

fn ok(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Tries until `check` answers; the deadline is far beyond what it takes.
fn wait<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    for _ in 0..TRIES {
        if let Some(found) = check() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("{what} does not happen");
}

/// A member's process; it is ended with its last user.
struct Member {
    process: Child,
    address: String,
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Member {
    fn start(dir: &Path, address: &str, more: &[&str]) -> Self {
        let log = std::fs::File::create(dir.with_extension("log")).unwrap();
        let arguments = ["--insecure", "--listen", address, "--data-dir", dir.to_str().unwrap()];
        let process = gantry(&[&arguments, more].concat()).stderr(log).spawn().unwrap();
        Self { process, address: address.to_owned() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One number of its status, as JSON has it.
    fn field(&self, name: &str) -> Option<String> {
        let output = output(&["status", "--endpoints", &self.url(), "-o", "json"]);
        if !output.status.success() {
            return None;
        }
        let said = text(&output.stdout);
        let value =
            said.lines().find_map(|line| line.trim().strip_prefix(&format!("\"{name}\": ")).map(str::to_owned))?;
        Some(value.trim_end_matches(',').trim_matches('"').to_owned())
    }

    fn cluster(&self) -> String {
        wait("a leader and its cluster", || self.field("cluster").filter(|cluster| !cluster.starts_with("00000000")))
    }

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

/// Different ports that were free just now.
fn free<const N: usize>() -> [String; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

/// Every file below a directory with its content.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn path(home: &TempDir, name: &str) -> PathBuf {
    home.path().join(name)
}

#[test]
fn data_that_is_not_this_members_is_refused_and_left_alone() {
    let home = TempDir::new().unwrap();
    let (ours, theirs) = (path(&home, "ours"), path(&home, "theirs"));
    let [here, there, nowhere] = free();
    let member = Member::start(&ours, &here, &["--group", "leases"]);
    let cluster = member.cluster();
    let named = || std::fs::read_to_string(ours.join("member")).unwrap_or_default().contains(&cluster);
    wait("the directory to name its cluster", || named().then_some(()));
    member.stop();
    let before = tree(&ours);
    let dir = ours.to_str().unwrap();
    let start = |more: &[&'static str]| [&["--insecure", "--listen", "127.0.0.1:0", "--data-dir", dir], more].concat();

    refused(&start(&["--group", "leases", "--member-id", "2"]), &["holds the data of member 1, not of member 2"]);
    refused(&start(&["--group", "state"]), &["holds the data of group \"leases\", not of group \"state\""]);

    let other = Member::start(&theirs, &there, &["--group", "leases", "--member-id", "2"]);
    let foreign = other.cluster();
    let members = format!("1={here},2={there},3={nowhere}");
    let with_others = ["--group", "leases", "--members", &members];
    let with_others = [&["--insecure", "--listen", &here, "--data-dir", dir], &with_others[..]].concat();
    refused(&with_others, &[&cluster, &foreign, "member 2", &there]);
    drop(other);
    assert_eq!(tree(&ours), before, "nothing was changed");

    for (file, at) in [("wal", 8), ("member", 28)] {
        let path = if file == "wal" { ours.join("wal/0000000000000001.wal") } else { ours.join(file) };
        let mut bytes = std::fs::read(&path).unwrap();
        let was = bytes[at];
        bytes[at] = b'9';
        std::fs::write(&path, &bytes).unwrap();
        let changed = tree(&ours);
        refused(&start(&["--group", "leases"]), &[path.to_str().unwrap(), "has format version", "use a newer build"]);
        assert_eq!(tree(&ours), changed, "nothing was changed");
        bytes[at] = was;
        std::fs::write(&path, &bytes).unwrap();
    }
    // And with everything as it was, it starts.
    let member = Member::start(&ours, &here, &["--group", "leases"]);
    assert_eq!(member.cluster(), cluster);
    member.stop();
}

#[test]
fn what_is_not_encrypted_stays_on_this_machine() {
    let home = TempDir::new().unwrap();
    let dir = path(&home, "data");
    let dir = dir.to_str().unwrap();
    let plain = ["--insecure", "--data-dir", dir, "--listen"];
    refused(&[&plain[..], &["0.0.0.0:0"]].concat(), &["--insecure is for loopback addresses only", "0.0.0.0:0"]);
    let members = ["127.0.0.1:0", "--members", "1=127.0.0.1:1,2=192.0.2.1:2,3=127.0.0.1:3"];
    refused(&[&plain[..], &members].concat(), &["loopback addresses only", "192.0.2.1:2"]);
    refused(&["status", "--endpoints", "http://192.0.2.1:2380"], &["loopback addresses only"]);
    refused(&["status", "--endpoints", "127.0.0.1:1"], &["--pki-dir"]);
    assert!(!Path::new(dir).exists(), "nothing was made");
}

#[test]
fn a_saved_member_becomes_a_cluster_of_three() {
    let home = TempDir::new().unwrap();
    let (old, file) = (path(&home, "old"), path(&home, "saved"));
    let file = file.to_str().unwrap();
    let member = Member::start(&old, &free::<1>()[0], &[]);
    let cluster = member.cluster();
    ok(&["snapshot", "save", file, "--endpoint", &member.url()]);
    let metrics = metrics(&member.address);
    for line in ["gantry_store_is_leader{group=\"state\"} 1", "gantry_store_has_leader{group=\"state\"} 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(metrics.contains("gantry_store_fsync_duration_seconds_bucket{group=\"state\",le=\"+Inf\"}"), "{metrics}");
    refused(
        &["snapshot", "restore", file, "--data-dir", old.to_str().unwrap()],
        &["is not empty: a snapshot is restored into a new directory"],
    );
    refused(&["snapshot", "restore", file, "--data-dir", "x", "--group", "events"], &["holds the group \"state\""]);
    // A running member's directory is not read behind its back.
    let behind = path(&home, "behind");
    refused(
        &["snapshot", "save", behind.to_str().unwrap(), "--data-dir", old.to_str().unwrap()],
        &["is in use by another process"],
    );
    member.stop();
    ok(&["snapshot", "save", behind.to_str().unwrap(), "--data-dir", old.to_str().unwrap()]);
    let status = ok(&["snapshot", "status", behind.to_str().unwrap(), "-o", "json"]);
    assert!(status.contains(&format!("\"cluster\": \"{cluster}\"")) && status.contains("\"revision\": 1"), "{status}");
    let table = ok(&["snapshot", "status", file]);
    assert!(table.contains("GROUP") && table.contains("state"), "{table}");

    let addresses = free::<3>();
    let members = format!("1={},2={},3={}", addresses[0], addresses[1], addresses[2]);
    let started: Vec<Member> = (1..=3)
        .map(|number: usize| {
            let dir = path(&home, &format!("new{number}"));
            let id = number.to_string();
            let who = ["--member-id", &id, "--members", &members];
            let restore = ["snapshot", "restore", file, "--data-dir", dir.to_str().unwrap()];
            assert!(ok(&[&restore[..], &who].concat()).contains("at revision 1000000001"));
            Member::start(&dir, &addresses[number - 1], &who)
        })
        .collect();
    for member in &started {
        assert_ne!(member.cluster(), cluster);
        wait("it to see a leader", || member.field("leader").filter(|leader| leader != "0"));
        assert_eq!(member.field("revision").as_deref(), Some("1000000001"));
        assert_eq!(member.field("compacted").as_deref(), Some("1000000001"));
    }
    let urls: Vec<_> = started.iter().map(Member::url).collect();
    let table = ok(&["status", "--endpoints", &urls.join(",")]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert_eq!(table.matches("itself").count(), 1, "{table}");
    let dead = output(&["status", "--endpoints", &format!("{},http://{}", urls[0], free::<1>()[0])]);
    assert_eq!(dead.status.code(), Some(1));
    assert!(text(&dead.stdout).contains("it cannot be reached"), "{}", text(&dead.stdout));
}

/// As Prometheus asks.
fn metrics(address: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}
