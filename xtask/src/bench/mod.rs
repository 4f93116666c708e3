//! Runs a benchmark of the built binary and keeps its section of `docs/benchmarks.md`. The measuring itself is done by the
//! black-box programs of `conformance`; here live only the medians, the spread, the plots and the words.
//!
//! A section lies between two marks; everything else in the file belongs to whoever wrote it.

mod api;
mod first_light;
mod plot;
mod report;
mod scheduler;
mod spread;
mod store;

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is asked for.
pub struct Wanted {
    pub name: String,
    /// Per figure.
    pub runs: usize,
    /// What the measuring program printed already.
    pub report: Option<PathBuf>,
    /// For the measuring program.
    pub further: Vec<String>,
}

/// Builds, measures and rewrites the benchmark's section.
pub fn run(root: &Path, wanted: &Wanted) -> anyhow::Result<()> {
    match &wanted.name[..] {
        "first-light" => first_light::run(root, wanted),
        "store" => store::run(root, wanted),
        "api" => api::run(root, wanted),
        "scheduler" => scheduler::run(root, wanted),
        name => anyhow::bail!("unknown benchmark {name:?}; there are: first-light, store, api, scheduler"),
    }
}

/// Builds these programs of the workspace, and those before them, unless nothing is measured here.
fn build(root: &Path, wanted: &Wanted, arguments: &[&str]) -> anyhow::Result<()> {
    if wanted.report.is_some() {
        return Ok(());
    }
    let cargo = ["build", "--release", "--workspace", "--bin", "gantry"];
    crate::run(Command::new("cargo").args(cargo).args(arguments).current_dir(root))
}

/// What a measuring program prints on its standard output, or printed before.
fn measure(root: &Path, program: &str, wanted: &Wanted, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = &wanted.report {
        return std::fs::read(path).with_context(|| path.display().to_string());
    }
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), Into::into);
    let output = Command::new(target.join("release").join(program))
        .args(arguments)
        .args(["--runs", &wanted.runs.to_string()])
        .args(&wanted.further)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("{program} did not start"))?;
    anyhow::ensure!(output.status.success(), "{program} failed: {}", output.status);
    Ok(output.stdout)
}

/// Puts a section in its place in `docs/benchmarks.md`.
fn publish(root: &Path, name: &str, section: &str) -> anyhow::Result<()> {
    let path = root.join("docs/benchmarks.md");
    let file = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let file = replace(&file, name, section).with_context(|| path.display().to_string())?;
    std::fs::write(&path, file).with_context(|| path.display().to_string())
}

/// The file with what lies between the section's marks replaced; one that has no such section yet gets it at its end.
fn replace(file: &str, name: &str, section: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let Some((before, rest)) = file.split_once(&begin) else {
        return Ok(format!("{}\n\n{begin}{section}{end}", file.trim_end()));
    };
    let (_, after) = rest.split_once(&end).with_context(|| format!("the section {name} has no end"))?;
    Ok(format!("{before}{begin}{section}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_section_replaces_only_itself() {
        let file = "# B\n\n<!-- a -->\nold\n<!-- end of a -->\n\nby hand\n\n<!-- b -->\nother\n<!-- end of b -->\n";
        let new = replace(file, "a", "new\n").unwrap();
        assert_eq!(new, file.replace("old", "new"));
        let added = replace("# B\n", "a", "new\n").unwrap();
        assert_eq!(added, "# B\n\n<!-- a -->\nnew\n<!-- end of a -->\n");
        assert!(replace("<!-- a -->\nold\n", "a", "new\n").unwrap_err().to_string().contains("no end"));
    }
}
