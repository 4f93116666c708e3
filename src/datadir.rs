//! The data directory: where everything lives, which format it has, and that only one `gantry up` uses it.
//!
//! It decides paths and modes. It never reads what the components keep in their own folders.

use crate::problem::Problem;
use anyhow::Context;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The layout version that this binary writes. A higher one is refused; lower ones will be converted when they exist.
const FORMAT: u32 = 1;
const FORMAT_WORD: &str = "gantry-data";

/// Everything that lies at the top of a data directory. What else is there is somebody else's.
const OWN: [&str; 9] = ["format", "pki", "kubeconfig", "store", "node", "containerd", "images", "log", "run"];
/// The end of the name under which a file is staged, after the writer's process id; see [`write_file`].
const STAGED: &str = ".new";
/// What a disk of its own brings along.
const OF_THE_DISK: &str = "lost+found";

/// The default data directory.
pub const DEFAULT: &str = "/var/lib/gantry";

/// Paths under one data directory. Cloning is cheap enough to hand around; nothing is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// `root` is made absolute, so that children with another working directory find the same place.
    pub fn new(root: &Path) -> anyhow::Result<Self> {
        let root = std::path::absolute(root).with_context(|| format!("{}", root.display()))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
    pub fn format_file(&self) -> PathBuf {
        self.root.join("format")
    }
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }
    pub fn store(&self, group: &str) -> PathBuf {
        self.root.join("store").join(group)
    }
    pub fn node(&self) -> PathBuf {
        self.root.join("node")
    }
    pub fn discovery(&self) -> PathBuf {
        self.node().join("discovery.json")
    }
    pub fn containerd(&self) -> PathBuf {
        self.root.join("containerd")
    }
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.log().join(format!("{name}.log"))
    }
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }
    /// Present while the agent was stopped on purpose: the guard does not start it again.
    pub fn stopped_file(&self) -> PathBuf {
        self.run().join("stopped")
    }
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.run().join(format!("{name}.pid"))
    }

    /// Whether containerd can be given this path: its sockets have to fit into an address, its configuration is text.
    pub fn check_path(&self) -> Result<(), Problem> {
        /// `sun_path` in unix(7) has 108 bytes, the last of them zero.
        const LONGEST_SOCKET: usize = 107;
        let root = self.root.display();
        let Some(text) = self.root.to_str().filter(|text| !text.chars().any(char::is_control)) else {
            return Err(Problem::new(format!("--data-dir {:?}: a path of printable characters is needed", self.root)));
        };
        let socket = self.containerd().join("containerd.sock.ttrpc").as_os_str().len();
        if socket > LONGEST_SOCKET {
            return Err(Problem::new(format!(
                "--data-dir {root}: the path is too long for the sockets in it: {} bytes, and {} are possible",
                text.len(),
                text.len() + LONGEST_SOCKET - socket,
            )));
        }
        Ok(())
    }

    /// Reads the format file. A missing one is a directory that was never used, or was emptied: fine, as long as nothing in
    /// it is somebody else's. Whoever mistypes a path must not lose what is there.
    pub fn check_format(&self) -> anyhow::Result<()> {
        let path = self.format_file();
        match std::fs::read_to_string(&path) {
            Ok(text) => judge_format(&self.root, &text).map_err(Into::into),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match self.foreign()? {
                Some(name) => Err(Problem::new(format!(
                    "{root} is not a Gantry data directory: it holds {name:?} and no file `format`; nothing was changed. \
                     Choose an empty --data-dir, or one that `gantry up` made",
                    root = self.root.display(),
                ))
                .into()),
                None => Ok(()),
            },
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// The name of something in the directory that is not Gantry's.
    fn foreign(&self) -> anyhow::Result<Option<String>> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", self.root.display())),
        };
        for entry in entries {
            let name = entry.with_context(|| format!("reading {}", self.root.display()))?.file_name();
            let name = name.to_string_lossy();
            if !is_own(&name) && name != OF_THE_DISK {
                return Ok(Some(name.into_owned()));
            }
        }
        Ok(None)
    }

    /// Deletes what is Gantry's, and the directory itself if nothing else is in it. Answers whether it is gone.
    pub fn purge(&self) -> anyhow::Result<bool> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error).with_context(|| format!("reading {}", self.root.display())),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("reading {}", self.root.display()))?;
            if !is_own(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let path = entry.path();
            let removed = match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => std::fs::remove_dir_all(&path),
                Ok(_) => std::fs::remove_file(&path),
                Err(error) => Err(error),
            };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("deleting {}", path.display()));
                }
                _ => {}
            }
        }
        match std::fs::remove_dir(&self.root) {
            Ok(()) => Ok(true),
            // Somebody else's files, or a disk's mount point.
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::ResourceBusy) =>
            {
                Ok(false)
            }
            Err(error) => Err(error).with_context(|| format!("deleting {}", self.root.display())),
        }
    }

    /// Creates the folders with their modes and writes the format file. Idempotent.
    pub fn create(&self) -> anyhow::Result<()> {
        make_dir(&self.root, 0o755)?;
        for (dir, mode) in [
            (self.pki(), 0o700),
            (self.root.join("store"), 0o700),
            (self.node(), 0o755),
            (self.containerd(), 0o711),
            (self.images(), 0o755),
            (self.log(), 0o750),
            (self.run(), 0o755),
        ] {
            make_dir(&dir, mode)?;
        }
        if !self.format_file().exists() {
            write_file(&self.format_file(), format!("{FORMAT_WORD} {FORMAT}\n").as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Takes the lock of role `name` and writes this process's id into its pid file. The lock ends with the process.
    pub fn lock(&self, name: &str) -> anyhow::Result<Lock> {
        make_dir(&self.root, 0o755)?;
        make_dir(&self.run(), 0o755)?;
        let path = self.pid_file(name);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            return Err(Problem::new(format!(
                "{} is in use by process {}; stop it with `gantry down --data-dir {}` or choose another --data-dir",
                self.root.display(),
                holder.trim(),
                self.root.display(),
            ))
            .into());
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Lock { _file: file })
    }

    /// The process that holds role `name`'s lock, if one does.
    pub fn holder(&self, name: &str) -> Option<u32> {
        let mut file = File::open(self.pid_file(name)).ok()?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok() {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

/// Held for as long as the role runs. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
#[must_use]
pub struct Lock {
    _file: File,
}

/// Whether Gantry puts something of this name at the top of a data directory. A staged file counts: another role of the
/// same machine may be writing it now, and one that was killed then leaves it.
fn is_own(name: &str) -> bool {
    let written = name
        .strip_suffix(STAGED)
        .and_then(|staged| staged.rsplit_once('.'))
        .filter(|(_, pid)| pid.parse::<u32>().is_ok())
        .map_or(name, |(written, _)| written);
    OWN.contains(&written)
}

fn judge_format(root: &Path, text: &str) -> Result<(), Problem> {
    let unknown = || {
        Problem::new(format!(
            "{} is not a Gantry data directory: its file `format` reads {:?}; choose another --data-dir",
            root.display(),
            text.trim()
        ))
    };
    let version: u32 =
        text.trim().strip_prefix(FORMAT_WORD).and_then(|rest| rest.trim().parse().ok()).ok_or_else(unknown)?;
    if version > FORMAT {
        return Err(Problem::new(format!(
            "{} has data format {version}, newer than the {FORMAT} this gantry knows: start the newer gantry, or \
             choose another --data-dir",
            root.display()
        )));
    }
    if version == 0 { Err(unknown()) } else { Ok(()) }
}

/// Creates `path` and its parents, and gives `path` this mode.
pub fn make_dir(path: &Path, mode: u32) -> anyhow::Result<()> {
    if !path.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
            .with_context(|| format!("creating {}", path.display()))?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("setting the mode of {}", path.display()))
}

/// Writes `bytes` under a temporary name with this mode, syncs it and moves it into place: readers see all or nothing.
pub fn write_file(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut name = path.file_name().context("a file needs a name")?.to_os_string();
    // Roles that share a data directory may write the same file at the same time; each stages its own.
    name.push(format!(".{}{STAGED}", std::process::id()));
    let temporary = path.with_file_name(name);
    let describe = || format!("writing {}", path.display());
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).with_context(describe)?;
    file.write_all(bytes).with_context(describe)?;
    file.sync_all().with_context(describe)?;
    std::fs::rename(&temporary, path).with_context(describe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        let got = judge_format(Path::new("/d"), text).err().map(|p| p.to_string());
        match expect {
            None => assert_eq!(got, None, "{text:?}"),
            Some(part) => assert!(got.as_deref().is_some_and(|g| g.contains(part)), "{text:?}: {got:?}"),
        }
    }

    #[test]
    fn formats() {
        check("gantry-data 1\n", None);
        check("gantry-data 2\n", Some("newer than the 1"));
        check("gantry-data 0\n", Some("not a Gantry data directory"));
        check("etcd\n", Some("not a Gantry data directory"));
        check("", Some("not a Gantry data directory"));
    }

    #[test]
    fn paths_that_containerd_cannot_use_are_refused() {
        let check = |path: &str| DataDir::new(Path::new(path)).unwrap().check_path().map_err(|p| p.to_string());
        check(&format!("/{}", "d".repeat(73))).unwrap();
        check("/data dir/\"x\"/\\").unwrap();
        let refused = check(&format!("/{}", "d".repeat(75))).unwrap_err();
        assert!(refused.ends_with("76 bytes, and 74 are possible"), "{refused}");
        let refused = check("/a\nb").unwrap_err();
        assert!(refused.contains("printable") && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn one_holder_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        let lock = data.lock("gantry").unwrap();
        assert_eq!(data.holder("gantry"), Some(std::process::id()));
        let refused = data.lock("gantry").unwrap_err();
        assert!(refused.to_string().contains("is in use by process"), "{refused}");
        assert_eq!(crate::problem::exit_code(&refused), 2);
        drop(lock);
        assert_eq!(data.holder("gantry"), None);
        let _again = data.lock("gantry").unwrap();
    }

    #[test]
    fn a_created_directory_has_its_modes_and_format() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(&scratch.path().join("d")).unwrap();
        data.check_format().unwrap();
        data.create().unwrap();
        data.create().unwrap();
        data.check_format().unwrap();
        assert_eq!(std::fs::read_to_string(data.format_file()).unwrap(), "gantry-data 1\n");
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(data.pki()), 0o700);
        assert_eq!(mode(data.root().join("store")), 0o700);
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_and_survives() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        std::fs::create_dir(scratch.path().join("lost+found")).unwrap();
        std::fs::create_dir(scratch.path().join("images")).unwrap();
        data.check_format().unwrap();
        std::fs::write(scratch.path().join("thesis.tex"), "three years").unwrap();
        let refused = data.check_format().unwrap_err();
        assert!(refused.to_string().contains("thesis.tex"), "{refused}");
        assert_eq!(crate::problem::exit_code(&refused), 2);
        // Even where both live together, only Gantry's part is deleted.
        std::fs::remove_file(scratch.path().join("thesis.tex")).unwrap();
        data.create().unwrap();
        std::fs::write(scratch.path().join("thesis.tex"), "three years").unwrap();
        data.check_format().unwrap();
        assert!(!data.purge().unwrap());
        let left = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["lost+found", "thesis.tex"]);
    }

    #[test]
    fn what_another_role_is_just_writing_is_not_somebody_elses() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        std::fs::write(scratch.path().join("format.31422.new"), "gantry-d").unwrap();
        std::fs::write(scratch.path().join("kubeconfig.7.new"), "").unwrap();
        data.check_format().unwrap();
        data.create().unwrap();
        for foreign in ["thesis.31422.new", "format.new", "format.draft.new", ".31422.new", "format.31422"] {
            let path = scratch.path().join(foreign);
            std::fs::write(&path, "").unwrap();
            std::fs::remove_file(data.format_file()).unwrap();
            let refused = data.check_format().unwrap_err();
            assert!(refused.to_string().contains(foreign), "{refused}");
            std::fs::remove_file(path).unwrap();
            data.create().unwrap();
        }
        assert!(data.purge().unwrap());
    }
}
