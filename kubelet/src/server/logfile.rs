//! A container's log as the runtime writes it: `TIME STREAM TAGS text`, one record per line. Pure.

use gantry_apimachinery::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// With all its digits, as it was written.
    pub time: &'a str,
    pub stream: &'a str,
    /// The program's line goes on in the next record.
    pub partial: bool,
    pub text: &'a [u8],
}

/// One line without its end; `None` for what no runtime wrote.
pub fn parse(line: &[u8]) -> Option<Record<'_>> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    let stream = std::str::from_utf8(parts.next()?).ok().filter(|s| *s == "stdout" || *s == "stderr")?;
    let tags = std::str::from_utf8(parts.next()?).ok()?;
    Some(Record { time, stream, partial: tags.split(':').next() == Some("P"), text: parts.next().unwrap_or_default() })
}

/// What of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub tail: Option<usize>,
    pub since: Option<Timestamp>,
    pub timestamps: bool,
    pub limit_bytes: Option<usize>,
    /// `stdout` or `stderr` alone.
    pub stream: Option<String>,
}

/// Turns records into what a client reads. `left` counts down the bytes that may still be sent.
pub struct Printer {
    wanted: Wanted,
    left: usize,
    in_line: bool,
}

impl Printer {
    pub fn new(wanted: Wanted) -> Self {
        let left = wanted.limit_bytes.unwrap_or(usize::MAX);
        Self { wanted, left, in_line: false }
    }
    pub fn is_full(&self) -> bool {
        self.left == 0
    }
    /// Appends a line of the file, when it is wanted.
    pub fn print(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(r) = parse(line) else { return };
        if self.wanted.stream.as_deref().is_some_and(|s| s != r.stream) {
            return;
        }
        if let Some(since) = self.wanted.since
            && Timestamp::parse(r.time).is_ok_and(|t| t < since)
        {
            return;
        }
        let from = out.len();
        if self.wanted.timestamps && !self.in_line {
            out.extend_from_slice(r.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(r.text);
        self.in_line = r.partial;
        if !r.partial {
            out.push(b'\n');
        }
        out.truncate(from + (out.len() - from).min(self.left));
        self.left -= out.len() - from;
    }
}

/// Where the last `n` program lines of a whole file begin.
pub fn tail_start(file: &[u8], n: usize) -> usize {
    let mut starts = vec![];
    let (mut at, mut in_line) = (0, false);
    for line in file.split_inclusive(|b| *b == b'\n') {
        let partial = parse(line.trim_ascii_end()).is_some_and(|r| r.partial);
        if !in_line {
            starts.push(at);
        }
        in_line = partial;
        at += line.len();
    }
    if n == 0 { file.len() } else { starts.get(starts.len().saturating_sub(n)).copied().unwrap_or(file.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"2026-11-29T14:31:19.115508641Z stdout F one\n\
        2026-11-29T14:31:20.000000001Z stderr P tw\n\
        2026-11-29T14:31:20.000000002Z stderr F o\n\
        garbage\n\
        2026-11-29T14:31:21.000000001Z stdout F \n\
        2026-11-29T14:31:22.000000001Z stdout F three  \xff\n";

    fn print(wanted: Wanted) -> String {
        let start = wanted.tail.map_or(0, |n| tail_start(LOG, n));
        let (mut printer, mut out) = (Printer::new(wanted), vec![]);
        for line in LOG[start..].split(|b| *b == b'\n') {
            printer.print(line, &mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn logs_read_as_the_program_wrote_them() {
        let check = |wanted: Wanted, expect: &str| assert_eq!(print(wanted.clone()), expect, "{wanted:?}");
        let none = Wanted::default;
        check(none(), "one\ntwo\n\nthree  \u{fffd}\n");
        check(Wanted { tail: Some(1), ..none() }, "three  \u{fffd}\n");
        check(Wanted { tail: Some(0), ..none() }, "");
        check(Wanted { tail: Some(99), ..none() }, "one\ntwo\n\nthree  \u{fffd}\n");
        check(Wanted { stream: Some("stderr".into()), ..none() }, "two\n");
        check(Wanted { limit_bytes: Some(6), ..none() }, "one\ntw");
        let since = Timestamp::parse("2026-11-29T14:31:21Z").unwrap();
        check(Wanted { since: Some(since), ..none() }, "\nthree  \u{fffd}\n");
        let stamped = "2026-11-29T14:31:20.000000001Z two\n";
        check(Wanted { timestamps: true, stream: Some("stderr".into()), ..none() }, stamped);
    }

    #[test]
    fn a_split_line_is_one_of_the_tail() {
        let log = b"T stdout P a\nT stdout F b\nT stdout F c\n";
        assert_eq!(tail_start(log, 2), 0);
        assert_eq!(tail_start(log, 1), 26);
    }
}
