//! What this machine is and has, read from the kernel's files.

use std::path::Path;

/// Read once: these change only with a reboot.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub cpus: i64,
    pub memory_bytes: i64,
    pub kernel: String,
    pub os_image: String,
    pub boot_id: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub hugepages: Vec<(String, i64)>,
    pub disk_bytes: i64,
}

/// Shortages that the machine itself feels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pids: bool,
}

pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// One line of `/proc/meminfo`, in bytes.
fn meminfo(text: &str, key: &str) -> i64 {
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'));
    let number = line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<i64>().ok());
    number.unwrap_or(0) * 1024
}

impl Facts {
    pub fn read(root: &Path) -> Self {
        let os = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let pretty = os.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
        let machine_id = text("/etc/machine-id");
        let uuid = text("/sys/class/dmi/id/product_uuid");
        Self {
            cpus: std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
            memory_bytes: meminfo(&text("/proc/meminfo"), "MemTotal"),
            kernel: text("/proc/sys/kernel/osrelease"),
            os_image: pretty.map_or_else(|| "Linux".to_owned(), |p| p.trim_matches('"').to_owned()),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
            system_uuid: if uuid.is_empty() { machine_id.clone() } else { uuid },
            machine_id,
            hugepages: vec![],
            disk_bytes: disk(root).map_or(0, |d| d.0),
        }
    }
}

/// (size, available) of the file system there.
fn disk(path: &Path) -> Option<(i64, i64)> {
    let s = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(s.f_frsize)).unwrap_or(i64::MAX);
    Some((bytes(s.f_blocks), bytes(s.f_bavail)))
}

/// How much of the disk is free without pressure (Kubernetes' `nodefs.available` is 10 % by default).
pub const DISK_LEAST_PERCENT: i64 = 5;

/// The same in bytes, for a disk of `size`.
pub fn disk_least(size: i64) -> i64 {
    size / 100 * DISK_LEAST_PERCENT
}

/// Kubernetes' threshold of 100 MiB of memory, [`DISK_LEAST_PERCENT`] of the disk; for processes, 95 % of the kernel's
/// limit.
pub fn pressure(root: &Path) -> Pressure {
    let memory = text("/proc/meminfo");
    let available = meminfo(&memory, "MemAvailable");
    let disk = disk(root).is_some_and(|(size, free)| free < disk_least(size));
    let running = text("/proc/loadavg");
    let tasks: i64 = running.split(' ').nth(3).and_then(|t| t.split('/').nth(1)?.parse().ok()).unwrap_or(0);
    let limit: i64 = text("/proc/sys/kernel/pid_max").parse().unwrap_or(i64::MAX);
    Pressure { memory: available > 0 && available < 100 << 20, disk, pids: tasks > limit / 100 * 95 }
}
