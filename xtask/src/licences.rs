//! Decides whether every crate that is linked into the tree has a licence on the allowed list. Reads cargo's own metadata.

use anyhow::Context;
use std::path::Path;
use std::process::Command;

/// Permissive licences, and MPL-2.0 whose terms stay with its files. Nothing of the GPL family.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "MPL-2.0+",
    "OpenSSL",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Fails with one line per crate whose licence expression cannot be met from the list.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .context("cargo metadata did not start")?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata's answer")?;
    let used: std::collections::BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().into_iter().flatten().filter_map(|node| node["id"].as_str()).collect();
    let mut refused = Vec::new();
    let mut checked = 0;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if !package["id"].as_str().is_some_and(|id| used.contains(id)) {
            continue;
        }
        checked += 1;
        let expression = package["license"].as_str().unwrap_or_default();
        if !allowed(expression) {
            refused.push(format!("  {} {}: {expression:?}", package["name"], package["version"]));
        }
    }
    anyhow::ensure!(checked > 0, "cargo metadata lists no crate");
    anyhow::ensure!(refused.is_empty(), "licences that are not allowed:\n{}", refused.join("\n"));
    println!("licences: {checked} crates, all allowed");
    Ok(())
}

/// Whether an SPDX expression can be met: one side of an OR, both sides of an AND; `/` is cargo's old OR.
fn allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let met = any_of(&words, &mut at);
    met && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize) -> bool {
    let mut met = all_of(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at);
    }
    met
}

fn all_of(words: &[&str], at: &mut usize) -> bool {
    let mut met = term(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= term(words, at);
    }
    met
}

fn term(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any_of(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        // An exception only widens what the licence grants.
        *at += 2;
    }
    ALLOWED.contains(word)
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn expressions() {
        for (expression, expect) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR GPL-2.0) AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("", false),
            ("(MIT", false),
        ] {
            assert_eq!(allowed(expression), expect, "{expression}");
        }
    }
}
