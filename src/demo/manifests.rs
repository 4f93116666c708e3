//! Manifests on disk: which objects a folder of YAML declares, in file order. It reads files and never the API.

use crate::problem::Problem;
use anyhow::Context;
use gantry_apimachinery::kinds::{self, Kind};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// One declared object.
pub struct Manifest {
    pub kind: &'static Kind,
    /// Empty for kinds without a namespace.
    pub namespace: String,
    pub name: String,
    pub body: Value,
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.singular, self.name)
    }
}

/// Every document of every `.yaml`, `.yml` or `.json` file of the folder.
pub fn load(folder: &Path) -> anyhow::Result<Vec<Manifest>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Problem::new(format!("{}: {error}", folder.display())))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut manifests = Vec::new();
    for file in files {
        if file.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known)) {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            manifests.extend(parse(&text).with_context(|| file.display().to_string())?);
        }
    }
    if manifests.is_empty() {
        return Err(Problem::new(format!("{}: no manifest in this folder", folder.display())).into());
    }
    Ok(manifests)
}

fn parse(text: &str) -> anyhow::Result<Vec<Manifest>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    documents.into_iter().filter(|document| !document.is_null()).map(manifest).collect()
}

fn manifest(body: Value) -> anyhow::Result<Manifest> {
    let word = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind_name, name) = (word("/apiVersion"), word("/kind"), word("/metadata/name"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = kinds::by_kind(group, version, &kind_name)
        .with_context(|| format!("no kind {kind_name:?} in {api_version:?} (object {name:?})"))?;
    anyhow::ensure!(!name.is_empty(), "a {kind_name} has no metadata.name");
    let namespace = match (kind.namespaced, word("/metadata/namespace")) {
        (false, _) => String::new(),
        (true, given) if given.is_empty() => "default".to_owned(),
        (true, given) => given,
    };
    Ok(Manifest { kind, namespace, name, body })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn documents_become_objects() {
        let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n";
        let found: Vec<_> = parse(text).unwrap().iter().map(|m| (m.to_string(), m.namespace.clone())).collect();
        assert_eq!(found, [("namespace a".into(), String::new()), ("deployment b".into(), "default".into())]);
        assert!(parse("apiVersion: v1\nkind: Wonder\nmetadata: {name: a}\n").is_err());
        assert!(parse("apiVersion: v1\nkind: Pod\n").is_err());
    }
}
