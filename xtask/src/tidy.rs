//! The house rules that a compiler does not know: which crate may depend on which, how long a file and a function may be,
//! that every file opens by saying what it decides, and that no name hides what it holds. Exceptions may only shrink.

use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::Visit;

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;

/// What each product crate may depend on inside the workspace; conformance and the binary are checked as crates, too.
const EDGES: &[(&str, &[&str])] = &[
    ("apimachinery", &[]),
    ("client", &["gantry-apimachinery"]),
    ("store", &["gantry-history"]),
    ("apiserver", &["gantry-apimachinery", "gantry-store"]),
    ("scheduler", &["gantry-apimachinery", "gantry-client"]),
    ("controllers", &["gantry-apimachinery", "gantry-client"]),
    ("kubelet", &["gantry-apimachinery", "gantry-client", "gantry-rehearsal"]),
    ("proxy", &["gantry-apimachinery", "gantry-client"]),
    ("inspect", &["gantry-apimachinery", "gantry-client"]),
    ("rehearsal", &["gantry-apimachinery"]),
    ("fuzzing", &[]),
    ("conformance", &["gantry-apimachinery", "gantry-client", "gantry-history", "gantry-rehearsal", "gantry-store"]),
    ("conformance/testbed", &[]),
    ("conformance/history", &[]),
    ("conformance/catalogue", &[]),
    ("xtask", &[]),
];

/// Longer than the rule, with the reason. A line leaves this list when its file or function shrinks; none may be added.
const EXCEPTIONS: &[(&str, &str)] = &[];

const VAGUE_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "manager", "misc"];

/// Fails with one line per broken rule.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for (folder, allowed) in EDGES {
        edges(root, folder, allowed, &mut problems)?;
    }
    let mut files = Vec::new();
    for folder in EDGES.iter().map(|(folder, _)| *folder).chain([""]) {
        for part in ["src", "tests", "examples", "benches"] {
            rust_files(&root.join(folder).join(part), &mut files)?;
        }
    }
    files.sort();
    files.dedup();
    anyhow::ensure!(files.len() > 20, "tidy found only {} files below {}", files.len(), root.display());
    let mut used = BTreeMap::new();
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| name.clone())?;
        for problem in check(&name, &text) {
            match EXCEPTIONS.iter().find(|(place, _)| *place == problem.place) {
                Some((place, _)) => *used.entry(*place).or_insert(0) += 1,
                None => problems.push(problem.text),
            }
        }
    }
    for (place, _) in EXCEPTIONS.iter().filter(|(place, _)| !used.contains_key(place)) {
        problems.push(format!("{place}: listed as an exception, but it keeps the rules: take it off the list"));
    }
    anyhow::ensure!(problems.is_empty(), "{} house rules broken:\n  {}", problems.len(), problems.join("\n  "));
    println!("tidy: {} files keep the house rules", files.len());
    Ok(())
}

fn edges(root: &Path, folder: &str, allowed: &[&str], problems: &mut Vec<String>) -> anyhow::Result<()> {
    let path = root.join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut ships = true;
    for line in text.lines() {
        if line.starts_with('[') {
            ships = !line.starts_with("[dev-");
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        // What tests share is no part of what ships.
        if !ships && name == "gantry-fuzzing" {
            continue;
        }
        if name.starts_with("gantry-") && !allowed.contains(&name) {
            problems.push(format!("{folder}/Cargo.toml: {folder} must not depend on {name}"));
        }
    }
    Ok(())
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

struct Problem {
    /// `file` or `file::function`, as the exceptions name it.
    place: String,
    text: String,
}

fn check(name: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |place: String, rule: String| problems.push(Problem { text: format!("{place}: {rule}"), place });
    if !text.starts_with("//!") {
        say(name.to_owned(), "the first line must be a `//!` that says what the file decides".to_owned());
    }
    let lines = text.lines().count();
    if lines > FILE_LINES {
        say(name.to_owned(), format!("{lines} lines; split it below {FILE_LINES}"));
    }
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if VAGUE_NAMES.contains(&stem) {
        say(name.to_owned(), format!("the name {stem:?} does not say what the file holds"));
    }
    match syn::parse_file(text) {
        Err(error) => say(name.to_owned(), format!("does not parse: {error}")),
        Ok(file) => {
            let mut functions = Functions::default();
            functions.visit_file(&file);
            for (function, lines) in functions.long {
                say(format!("{name}::{function}"), format!("{lines} lines; at most {FUNCTION_LINES}"));
            }
        }
    }
    problems
}

#[derive(Default)]
struct Functions {
    long: Vec<(String, usize)>,
}

impl Functions {
    fn measure(&mut self, name: &syn::Ident, block: &syn::Block) {
        let span = block.span();
        let lines = span.end().line + 1 - span.start().line;
        if lines > FUNCTION_LINES {
            self.long.push((name.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig.ident, &item.block);
        syn::visit::visit_item_fn(self, item);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig.ident, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig.ident, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn rules(name: &str, text: &str) -> Vec<String> {
        check(name, text).into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn each_rule_can_fail() {
        assert!(rules("a.rs", "//! Decides nothing.\nfn f() {}\n").is_empty());
        assert!(rules("a.rs", "fn f() {}\n")[0].contains("first line"));
        assert!(rules("x/utils.rs", "//! Decides.\n")[0].contains("does not say"));
        let long = format!("//! Decides.\nfn f() {{\n{}}}\n", "    g();\n".repeat(70));
        assert_eq!(rules("a.rs", &long), ["a.rs::f: 72 lines; at most 70"]);
        assert!(rules("a.rs", &format!("//! D.\n{}", "\n".repeat(800)))[0].contains("split it"));
        assert!(rules("a.rs", "//! D.\nfn f( {")[0].contains("does not parse"));
    }
}
