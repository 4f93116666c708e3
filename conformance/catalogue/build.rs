//! Puts the catalogue's files into the program, so that it runs where there is no source. It decides nothing about them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut files = vec![root.join("fixtures.yaml"), root.join("forms.yaml")];
    collect(&root.join("behaviours"), &mut files)?;
    files.sort();
    let mut code = String::from("pub static FILES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root)?.display().to_string();
        writeln!(code, "    ({name:?}, include_str!({:?})),", file.display().to_string())?;
    }
    code.push_str("];\n");
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("files.rs"), code)?;
    for watched in ["behaviours", "fixtures.yaml", "forms.yaml"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo:rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
