//! Durations as people write them in profiles and annotations. Decides which texts are one; never measures.

/// `250ms`, `30s`, `5m`, `1h30m`, `0`; in milliseconds.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no duration such as 250ms, 30s or 1h30m");
    if text == "0" {
        return Ok(0);
    }
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = tail.split_at(letters);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number.checked_mul(unit_ms).and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
        rest = next;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// The shortest text that reads as so long.
pub fn write_ms(ms: u64) -> String {
    match ms {
        0 => "0".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms) in [("0", 0), ("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("1s500ms", 1_500)] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
            assert_eq!(parse_ms(&write_ms(ms)), Ok(ms), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1d", "1.5s", "99999999999999999999s", "9999999999999999999h", "5é"] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
