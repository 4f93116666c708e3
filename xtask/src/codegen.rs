//! Decides how the schema table of the built-in kinds is made: from the published JSON schemas (names, types, list and
//! patch rules) and the published `.proto` files (field numbers). It never ships prose, and never runs in a build.

mod proto;
mod table;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMAS: &str = "kubernetes-validate==1.37.0";
const DEFINITIONS: &str = "kubernetes_validate/kubernetes-json-schema/v1.35.0-local/_definitions.json";
const PROTOS: (&str, &str) = ("k8s-rs-pb", "=0.5.0");
const OUTPUT: &str = "apimachinery/src/schema/tables/kubernetes-1.35.txt";

/// Fetches both sources through their registries' clients and rewrites the table.
pub fn run() -> Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let work = root.join("target/codegen");
    std::fs::create_dir_all(&work)?;
    let definitions = fetch_definitions(&work)?;
    let messages = proto::parse_tree(&fetch_protos(&work)?.join("src/v1_35"))?;
    let definitions: serde_json::Value = serde_json::from_slice(&std::fs::read(definitions)?)?;
    let (text, notes) = table::write(&definitions, &messages)?;
    let output = root.join(OUTPUT);
    std::fs::write(&output, &text)?;
    for note in &notes {
        println!("note: {note}");
    }
    println!("{}: {} lines, {} bytes", output.display(), text.lines().count(), text.len());
    Ok(())
}

fn fetch_definitions(work: &Path) -> Result<PathBuf> {
    let found = work.join(DEFINITIONS);
    if found.exists() {
        return Ok(found);
    }
    exec(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(work)
            .arg(SCHEMAS),
    )?;
    let wheel = std::fs::read_dir(work)?
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.extension().is_some_and(|e| e == "whl"))
        .context("pip left no wheel")?;
    exec(Command::new("python3").args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(work))?;
    Ok(found)
}

/// A throw-away project makes cargo download the crate; `cargo metadata` then says where it lies.
fn fetch_protos(work: &Path) -> Result<PathBuf> {
    let dir = work.join("protos");
    std::fs::create_dir_all(dir.join("src"))?;
    std::fs::write(dir.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"protos\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\n{} = {{ version = \"{}\", default-features = false }}\n",
        PROTOS.0, PROTOS.1
    );
    std::fs::write(dir.join("Cargo.toml"), manifest)?;
    let out = Command::new("cargo").args(["metadata", "--format-version=1"]).current_dir(&dir).output()?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let found = packages.iter().find(|p| p["name"] == PROTOS.0).context("crate not in the metadata")?;
    let manifest = found["manifest_path"].as_str().context("no manifest path")?;
    Ok(Path::new(manifest).parent().context("manifest without a folder")?.to_path_buf())
}

fn exec(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
