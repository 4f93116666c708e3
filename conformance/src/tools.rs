//! Where the built product and the test clients are found, and running them. A missing one is an error that says how to get it.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's root.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("conformance is a folder of the repository").to_path_buf()
}

/// The `gantry` binary of the same build as this test: beside the `deps` folder that cargo runs tests from.
pub fn gantry() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program")?;
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("gantry")).find(|path| path.is_file());
    found.context("the gantry binary is not built: run `cargo build --release` first")
}

/// The testbed program as one static file, as it lies in its image.
pub fn testbed() -> anyhow::Result<PathBuf> {
    let path = gantry()?.with_file_name("testbed-static");
    anyhow::ensure!(path.is_file(), "{} is missing: run `scripts/build.sh` first", path.display());
    Ok(path)
}

/// Puts the images where `gantry` imports them from.
pub fn build_images(data_dir: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(gantry()?);
    command.args(["image", "build-testbed", "--data-dir"]).arg(data_dir);
    run(command.arg("--binary").arg(testbed()?)).map(drop)
}

/// Tells a `gantry store` member which certificate to show and whom to trust, from a control machine's `pki` folder.
pub fn store_keys(command: &mut Command, pki: &Path) {
    command.arg("--tls-cert").arg(pki.join("store-peer.crt"));
    command.arg("--tls-key").arg(pki.join("store-peer.key"));
    command.arg("--client-ca").arg(pki.join("store-ca.crt"));
}

pub fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(arguments)).map(drop)
}

/// Standard output of a command that must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} did not start"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {}\n{error}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as one would type it.
pub fn printable(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args()).map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

pub fn kubectl() -> anyhow::Result<PathBuf> {
    tool("kubectl")
}

pub fn python() -> anyhow::Result<PathBuf> {
    tool("python/bin/python")
}

/// What `conformance/tools.sh` put under this name.
pub fn tool(name: &str) -> anyhow::Result<PathBuf> {
    let path = repository().join(".dev/tools").join(name);
    anyhow::ensure!(path.exists(), "{} is missing: run `conformance/tools.sh` first", path.display());
    Ok(path)
}
