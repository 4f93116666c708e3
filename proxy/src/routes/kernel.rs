//! The kernel's routes of one protocol number, through `ip`. It decides nothing.

use super::{Kernel, PROTOCOL, Routes};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use tokio::process::Command;

pub struct Table {
    program: PathBuf,
}

impl Table {
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    async fn ip(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.program).args(arguments).kill_on_drop(true).output().await;
        let output = output.map_err(|error| format!("{}: {error}", self.program.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

impl Kernel for Table {
    async fn read(&mut self) -> Result<Routes, String> {
        let text = self.ip(&["-4", "-json", "route", "show", "proto", PROTOCOL]).await?;
        parse(&text)
    }

    async fn other(&mut self, range: &str) -> Result<Option<String>, String> {
        let text = self.ip(&["-4", "-json", "route", "show", "exact", range]).await?;
        other(&text)
    }

    async fn replace(&mut self, range: &str, via: Ipv4Addr) -> Result<(), String> {
        self.ip(&["-4", "route", "replace", range, "via", &via.to_string(), "proto", PROTOCOL]).await.map(drop)
    }

    async fn delete(&mut self, range: &str) -> Result<(), String> {
        match self.ip(&["-4", "route", "delete", range, "proto", PROTOCOL]).await {
            // Already gone, for example with its link.
            Err(error) if error.contains("No such process") => Ok(()),
            other => other.map(drop),
        }
    }
}

/// What `ip -json route show` printed.
fn list(text: &str) -> Result<Vec<Value>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| format!("ip -json route show: {error}"))
}

/// Routes without a gateway are not this loop's.
fn parse(text: &str) -> Result<Routes, String> {
    let route = |one: &Value| Some((one["dst"].as_str()?.to_owned(), one["gateway"].as_str()?.parse().ok()?));
    Ok(list(text)?.iter().filter_map(route).collect())
}

/// The first route of another protocol, in words. `ip` leaves the protocol out where it is `boot`, as of `ip route add`.
fn other(text: &str) -> Result<Option<String>, String> {
    let words = |one: &Value| {
        let field = |name: &str| one[name].as_str().map(str::to_owned);
        let protocol = field("protocol").unwrap_or_else(|| "boot".to_owned());
        let place = field("gateway").or_else(|| field("dev")).or_else(|| field("type")).unwrap_or_default();
        (protocol != PROTOCOL).then(|| format!("protocol {protocol} through {place}"))
    };
    Ok(list(text)?.iter().find_map(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read() {
        let text = r#"[{"dst":"10.244.1.0/24","gateway":"192.0.2.2","dev":"eth0","flags":[]},{"dst":"10.9.0.0/16","dev":"x"}]"#;
        assert_eq!(parse(text).unwrap(), Routes::from([("10.244.1.0/24".to_owned(), Ipv4Addr::new(192, 0, 2, 2))]));
        assert!(parse("").unwrap().is_empty() && parse("[]").unwrap().is_empty());
        assert!(parse("x").unwrap_err().contains("ip -json"));
    }

    #[test]
    fn routes_of_other_protocols_are_told_apart() {
        for (text, expect) in [
            ("", None),
            (r#"[{"dst":"10.244.1.0/24","gateway":"192.0.2.2","dev":"eth0","protocol":"144","flags":[]}]"#, None),
            (r#"[{"dst":"10.244.1.0/24","dev":"wg0","scope":"link","flags":[]}]"#, Some("protocol boot through wg0")),
            (
                r#"[{"dst":"10.244.1.0/24","gateway":"192.0.2.2","protocol":"144"},
                    {"dst":"10.244.1.0/24","gateway":"192.0.2.9","protocol":"static","metric":100}]"#,
                Some("protocol static through 192.0.2.9"),
            ),
            (
                r#"[{"type":"blackhole","dst":"10.244.1.0/24","protocol":"bird"}]"#,
                Some("protocol bird through blackhole"),
            ),
        ] {
            assert_eq!(other(text).unwrap().as_deref(), expect, "{text}");
        }
    }
}
