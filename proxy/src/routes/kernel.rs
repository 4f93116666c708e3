//! The kernel's routes of one protocol number, through `ip`. It decides nothing.

use super::{PROTOCOL, Routes};
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

    pub async fn read(&self) -> Result<Routes, String> {
        let text = self.ip(&["-4", "-json", "route", "show", "proto", PROTOCOL]).await?;
        parse(&text)
    }

    pub async fn replace(&self, range: &str, via: Ipv4Addr) -> Result<(), String> {
        self.ip(&["-4", "route", "replace", range, "via", &via.to_string(), "proto", PROTOCOL]).await.map(drop)
    }

    pub async fn delete(&self, range: &str) -> Result<(), String> {
        match self.ip(&["-4", "route", "delete", range, "proto", PROTOCOL]).await {
            // Already gone, for example with its link.
            Err(error) if error.contains("No such process") => Ok(()),
            other => other.map(drop),
        }
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

/// What `ip -json route show` printed. Routes without a gateway are not this loop's.
fn parse(text: &str) -> Result<Routes, String> {
    if text.trim().is_empty() {
        return Ok(Routes::new());
    }
    let all: Vec<Value> = serde_json::from_str(text).map_err(|error| format!("ip -json route show: {error}"))?;
    let route = |one: &Value| Some((one["dst"].as_str()?.to_owned(), one["gateway"].as_str()?.parse().ok()?));
    Ok(all.iter().filter_map(route).collect())
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
}
