//! What this process takes, as every Prometheus client tells it. Decides how the kernel's numbers read; never what is too much.

use std::fmt::Write;

/// The kernel tells times to programs in hundredths of a second, whatever it counts in itself.
const TICKS: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// The metrics' text; empty where the kernel does not tell.
pub fn text() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    render(cpu_ticks(&read("stat")), resident_pages(&read("statm")))
}

fn render(ticks: Option<u64>, pages: Option<u64>) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: String| {
        // Writing into a string cannot fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    if let Some(ticks) = ticks {
        #[expect(clippy::cast_precision_loss, reason = "a process that ran for millennia may be told inexactly")]
        let seconds = ticks as f64 / TICKS;
        metric("process_cpu_seconds_total", "counter", "CPU time of the process.", seconds.to_string());
    }
    if let Some(pages) = pages {
        let bytes = pages * PAGE_BYTES;
        metric("process_resident_memory_bytes", "gauge", "Memory that the process has in use.", bytes.to_string());
    }
    out
}

/// User's and system's time in `/proc/PID/stat`. The program's name comes before them in brackets, and may have any in it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_numbers_are_read_by_their_place() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        assert_eq!((cpu_ticks(stat), resident_pages("100 20 3")), (Some(300), Some(20)));
        assert_eq!((cpu_ticks(""), resident_pages("")), (None, None));
        let text = render(Some(300), Some(20));
        assert!(text.contains("\nprocess_cpu_seconds_total 3\n"), "{text}");
        assert!(text.ends_with("\nprocess_resident_memory_bytes 81920\n"), "{text}");
        assert_eq!(render(None, None), "");
    }
}
