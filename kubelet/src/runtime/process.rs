//! A container's first process, as far as the runtime names it. Decides whether it is still there; it touches no process.

use std::collections::HashMap;
use std::io::ErrorKind;

/// Its process id, from what a runtime adds to a verbose status: a JSON text under `info`. Not every runtime says it.
pub fn named(info: &HashMap<String, String>) -> Option<u32> {
    let info: serde_json::Value = serde_json::from_str(info.get("info")?).ok()?;
    u32::try_from(info["pid"].as_u64()?).ok().filter(|pid| *pid > 0)
}

/// Whether it has not ended. Where that cannot be read, the runtime's word stands: it lives.
pub fn lives(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which may itself hold brackets. Z and X have ended, and wait to be reaped.
        Ok(stat) => !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        // Reading a process that goes at this very moment says ESRCH.
        Err(e) => e.kind() != ErrorKind::NotFound && e.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_verbose_status_names_it() {
        let check = |info: &[(&str, &str)], expect: Option<u32>| {
            let info = info.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(named(&info), expect, "{info:?}");
        };
        check(&[("info", r#"{"sandboxID":"s","pid":4711,"removing":false}"#)], Some(4711));
        check(&[("info", r#"{"pid":0}"#)], None);
        check(&[("info", r#"{"pid":"4711"}"#)], None);
        check(&[("info", "a text")], None);
        check(&[("other", r#"{"pid":4711}"#)], None);
    }

    #[test]
    fn what_has_ended_does_not_live() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(lives(pid) && lives(std::process::id()));
        // Its input ends, so it ends, and waits to be reaped.
        drop(child.stdin.take());
        let exits = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::waitid(rustix::process::WaitId::Pid(id), exits).unwrap();
        assert!(!lives(pid), "a zombie");
        child.wait().unwrap();
        assert!(!lives(pid), "reaped");
    }
}
