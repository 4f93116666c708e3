//! The median and the spread of samples, and how many digits of a number mean something.

/// Samples in order.
pub struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    /// Of an even number the middle between the middle two.
    pub fn median(&self) -> Option<f64> {
        let half = self.sorted.len() / 2;
        let upper = *self.sorted.get(half)?;
        let lower = if self.sorted.len().is_multiple_of(2) { self.sorted[half - 1] } else { upper };
        Some(f64::midpoint(lower, upper))
    }

    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }
}

/// A figure that may be missing.
pub fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), short)
}

/// Three digits, or all before the point, with thousands apart.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => thousands(&format!("{value:.0}")),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A name with the thousands of its whole numbers apart; numbers that are part of a word, as `5000Nodes`, stay as they are.
pub fn grouped(name: &str) -> String {
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut text = String::new();
    for word in name.split_inclusive(|c| !in_word(c)) {
        let number = word.trim_end_matches(|c| !in_word(c));
        match number.is_empty() || !number.chars().all(|c| c.is_ascii_digit()) {
            true => text.push_str(word),
            false => text.push_str(&(thousands(number) + &word[number.len()..])),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 250.0, 2.0]);
        assert_eq!((spread.min(), spread.median(), spread.max()), (Some(1.0), Some(3.0), Some(250.0)));
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0, 4.0]).median(), Some(3.0));
        assert_eq!((spread.count(), shown(Spread::of(&[]).median())), (5, "–".to_owned()));
    }

    #[test]
    fn digits_that_mean_something() {
        let all = [0.0, 0.1234, 1.234, 12.34, 123.4, 1234.5, 12345.6, 1234567.0, -12345.0].map(short);
        assert_eq!(all, ["0", "0.123", "1.23", "12.3", "123", "1,234", "12,346", "1,234,567", "-12,345"]);
    }

    #[test]
    fn numbers_in_names_are_written_alike() {
        let check = |name: &str, expect: &str| assert_eq!(grouped(name), expect);
        check(
            "basic-10k: 10000 pods, 5000 machines (A/5000Nodes_10000Pods)",
            "basic-10k: 10,000 pods, 5,000 machines (A/5000Nodes_10000Pods)",
        );
        check("it would need for 2000/s: p99.9, 300000", "it would need for 2,000/s: p99.9, 300,000");
        check("", "");
    }
}
