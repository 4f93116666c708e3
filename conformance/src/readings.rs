//! What the kernel says of processes and of the machine. It reads and converts; it judges nothing.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use anyhow::Context;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

/// A process's user and system time so far.
pub fn cpu_ms(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().context("a stat line")?.split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // The kernel's USER_HZ is 100 on every architecture that Linux still supports.
    Ok(ticks * 10.0)
}

/// What is in memory of a process, files that it maps included.
pub fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmRSS:")
}

/// The part of it that belongs to no file.
pub fn anonymous_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "RssAnon:")
}

/// A process's share of memory: its own, and of what it shares with others its part.
pub fn pss_mb(pid: u32) -> anyhow::Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    Ok(number_after(&rollup, "\nPss:").context("smaps_rollup has no Pss")? * 1024.0 / 1e6)
}

/// The most that was in memory of a process since [`reset_peak`], counted by the kernel: no moment is missed.
pub fn peak_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmHWM:")
}

pub fn reset_peak(pid: u32) -> anyhow::Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").with_context(|| format!("/proc/{pid}/clear_refs"))
}

fn status_mb(pid: u32, field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = number_after(&status, field).with_context(|| format!("/proc/{pid}/status has no {field}"))?;
    Ok(kib * 1024.0 / 1e6)
}

/// What a process had the disk write so far.
pub fn written_bytes(pid: u32) -> anyhow::Result<f64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    number_after(&io, "\nwrite_bytes:").with_context(|| format!("/proc/{pid}/io has no write_bytes"))
}

/// The number behind a field's name.
fn number_after(text: &str, field: &str) -> Option<f64> {
    let (_, rest) = text.split_once(field)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// What all processes of the machine used so far: user, nice, system and both kinds of interrupts.
pub fn machine_cpu_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let fields: Vec<f64> = stat.lines().next().unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
    let busy = [0, 1, 2, 5, 6].iter().map(|field| fields.get(*field).copied()).sum::<Option<f64>>();
    Ok(busy.context("/proc/stat has no cpu line")? / 100.0)
}

/// A write to memory costs nothing, which would flatter whoever writes most.
pub fn on_disk(folder: &Path) -> anyhow::Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(folder).context("the file system of --dir")?.f_type;
    anyhow::ensure!(kind != TMPFS, "{} is in memory (tmpfs): choose a --dir on a disk", folder.display());
    Ok(())
}

/// What the disk below a folder alone takes for 4 KiB, written and synced.
pub fn fdatasync_us(folder: &Path, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut samples = Vec::new();
    for _ in 0..count {
        file.seek(std::io::SeekFrom::Start(0))?;
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(samples)
}

/// One line about the machine.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown CPU", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = number_after(&memory, "MemTotal:").unwrap_or(0.0) / f64::from(1 << 20);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, {:.0} GiB, Linux {}", gib.ceil(), kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn a_field_is_read_by_its_whole_name() {
        let io = "rchar: 1\nsyscw: 2\nread_bytes: 3\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n";
        assert_eq!(number_after(io, "\nwrite_bytes:"), Some(4096.0));
        assert_eq!(number_after("VmRSS:\t   62044 kB\n", "VmRSS:"), Some(62044.0));
        assert_eq!(number_after(io, "VmRSS:"), None);
    }
}
