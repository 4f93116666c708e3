//! Lines for people on standard output. It decides one thing: a reader that went away (`| head`) has seen enough, and is no
//! reason to stop what is under way.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// As `println!`, which panics when nobody reads any more.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

pub fn line(text: Arguments<'_>) {
    if let Err(error) = write_line(&mut std::io::stdout().lock(), text) {
        tracing::warn!("writing to standard output: {error}");
    }
}

fn write_line(out: &mut impl Write, text: Arguments<'_>) -> std::io::Result<()> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        write_line(&mut writer, format_args!("{} line", 1)).unwrap();
        drop(reader);
        write_line(&mut writer, format_args!("two")).unwrap();
        let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        assert!(write_line(&mut full, format_args!("three")).is_err());
    }
}
