//! Decides how much of the published `.proto` files is understood: messages, field names, types and numbers. It never
//! reads options or services; those files have none that matter here.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// A scalar's name, a message's full name, or `map<K,V>` with V resolved likewise.
    pub ty: String,
    pub number: u32,
}

/// Message full name (package and name) → its fields.
pub type Messages = BTreeMap<String, Vec<Field>>;

const SCALARS: [&str; 6] = ["string", "bytes", "bool", "int32", "int64", "double"];

pub fn parse_tree(root: &Path) -> Result<Messages> {
    let mut messages = Messages::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "proto") {
                parse(&std::fs::read_to_string(&path)?, &mut messages);
            }
        }
    }
    Ok(messages)
}

fn parse(text: &str, messages: &mut Messages) {
    let mut package = String::new();
    let mut current: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';').to_string();
        } else if let Some(name) = line.strip_prefix("message ") {
            let name = format!("{package}.{}", name.trim_end_matches('{').trim());
            messages.entry(name.clone()).or_default();
            current = (!line.ends_with('}')).then_some(name);
        } else if line == "}" {
            current = None;
        } else if let (Some(message), Some(field)) = (&current, parse_field(line, &package)) {
            messages.entry(message.clone()).or_default().push(field);
        }
    }
}

fn parse_field(line: &str, package: &str) -> Option<Field> {
    if line.starts_with("//") {
        return None;
    }
    let (left, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let number = number.split_whitespace().next()?.parse().ok()?;
    let (ty, name) = left.trim().rsplit_once(' ')?;
    let ty = ty.trim_start_matches("optional ").trim_start_matches("repeated ").trim_start_matches("required ");
    let ty = match ty.strip_prefix("map<").and_then(|t| t.strip_suffix('>')).and_then(|t| t.split_once(", ")) {
        Some((key, value)) => format!("map<{key},{}>", resolve(value, package)),
        None => resolve(ty, package),
    };
    Some(Field { name: name.to_string(), ty, number })
}

fn resolve(ty: &str, package: &str) -> String {
    match ty.strip_prefix('.') {
        Some(full) => full.to_string(),
        None if SCALARS.contains(&ty) => ty.to_string(),
        None => format!("{package}.{ty}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_their_numbers_and_full_types() {
        let mut messages = Messages::new();
        let text = "package api.x.v1;\nmessage A {\n  // a = 7;\n  optional B b = 3;\n  map<string, .m.Q> q = 4;\n  repeated string s = 1;\n}\n";
        parse(text, &mut messages);
        let field = |name: &str, ty: &str, number| Field { name: name.into(), ty: ty.into(), number };
        let expect = vec![field("b", "api.x.v1.B", 3), field("q", "map<string,m.Q>", 4), field("s", "string", 1)];
        assert_eq!(messages["api.x.v1.A"], expect);
    }
}
