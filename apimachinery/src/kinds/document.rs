//! The table of kinds in `docs/api.md` says what the table here does. `GANTRY_WRITE=1` writes it anew.

use super::{KINDS, Kind};
use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");
const BEGIN: &str = "<!-- kinds: begin -->\n";
const END: &str = "<!-- kinds: end -->";

/// What every kind that is kept can be asked for.
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn verbs(kind: &Kind) -> String {
    let missing: Vec<_> = ALL.iter().filter(|verb| !kind.has_verb(verb)).copied().collect();
    match missing.len() {
        0 => "all".into(),
        1 | 2 => format!("all but {}", missing.join(", ")),
        _ => kind.verbs.join(", "),
    }
}

fn row(kind: &Kind) -> String {
    let short = if kind.short_names.is_empty() { String::new() } else { format!(" ({})", kind.short_names.join(", ")) };
    let within = if kind.namespaced { "namespace" } else { "cluster" };
    let below: Vec<&str> = kind.subresources.iter().map(|below| below.name).collect();
    let below = if below.is_empty() { "-".to_owned() } else { below.join(", ") };
    format!("| {} | {}{short} | {within} | {} | {below} |\n", kind.kind, kind.plural, verbs(kind))
}

fn table() -> String {
    let mut groups: Vec<String> = Vec::new();
    for kind in KINDS {
        if !groups.contains(&kind.api_version()) {
            groups.push(kind.api_version());
        }
    }
    let mut out = String::new();
    for group in groups {
        out.push_str(&format!("\n### {group}\n\n| kind | resource | of | verbs | below it |\n|---|---|---|---|---|\n"));
        let mut kinds: Vec<_> = KINDS.iter().filter(|kind| kind.api_version() == group).collect();
        kinds.sort_by_key(|kind| kind.kind);
        kinds.into_iter().for_each(|kind| out.push_str(&row(kind)));
    }
    out.push('\n');
    out
}

#[test]
fn the_document_lists_every_kind() {
    let text = std::fs::read_to_string(Path::new(FILE)).unwrap();
    let begin = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = text.find(END).unwrap();
    if std::env::var_os("GANTRY_WRITE").is_some() {
        std::fs::write(FILE, format!("{}{}{}", &text[..begin], table(), &text[end..])).unwrap();
        return;
    }
    assert!(
        text[begin..end] == table(),
        "docs/api.md is old: GANTRY_WRITE=1 cargo test -p gantry-apimachinery document"
    );
}
