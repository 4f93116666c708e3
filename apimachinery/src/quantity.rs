//! Resource quantities (`100m`, `1.5Gi`, `2e3`): exact fixed-point numbers with the suffix family that they were written in.
//!
//! It decides how quantities are read, compared, added and written canonically; it never knows what resource they measure.
//! Behaviour follows <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
/// Kubernetes caps quantities at 2^63 − 1 units.
const MAX_NANOS: i128 = (i64::MAX as i128) * NANO;

/// Which suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// `n u m "" k M G T P E`
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `1e3`
    DecimalExponent,
}

/// An exact number with nine decimal places. Equality and order ignore how it was written.
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::DecimalSi };

    /// Whole units, written with decimal suffixes.
    pub const fn from_value(value: i64) -> Self {
        Self { nanos: value as i128 * NANO, format: Format::DecimalSi }
    }
    /// Thousandths, as CPU is counted.
    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * 1_000_000, format: Format::DecimalSi }
    }
    /// Whole bytes, written with binary suffixes.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANO, format: Format::BinarySi }
    }
    /// In thousandths, rounded up; saturates.
    pub fn milli(&self) -> i64 {
        ceil_to_i64(self.nanos, 1_000_000)
    }
    /// In whole units, rounded up; saturates.
    pub fn value(&self) -> i64 {
        ceil_to_i64(self.nanos, NANO)
    }
    /// In units, as near as a double comes.
    pub fn approximate(&self) -> f64 {
        self.nanos as f64 / NANO as f64
    }
    pub fn format(&self) -> Format {
        self.format
    }
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }
    /// Whether this is a whole number of units.
    pub fn is_integer(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// Reads a quantity. Digits finer than a billionth round away from zero; what is too large is capped.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_len = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = unsigned.split_at(number_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(ParseQuantityError::Format);
        }
        let (pow2, pow10, format) = parse_suffix(suffix)?;
        let nanos = scale(whole, fraction, pow2, pow10).min(MAX_NANOS);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    fn with_nanos_of(self, nanos: i128, other: Quantity) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: nanos.clamp(-MAX_NANOS, MAX_NANOS), format }
    }
}

/// The powers of two and ten that a suffix stands for.
fn parse_suffix(suffix: &str) -> Result<(u32, i32, Format), ParseQuantityError> {
    let decimal = |p| Ok((0, p, Format::DecimalSi));
    let binary = |p| Ok((p, 0, Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let allowed = |b: u8| b"eEinumkKMGTP+-".contains(&b) || b.is_ascii_digit();
            let Some(exponent) = suffix.strip_prefix(['e', 'E']) else {
                let wrong =
                    if suffix.bytes().all(allowed) { ParseQuantityError::Suffix } else { ParseQuantityError::Format };
                return Err(wrong);
            };
            let exponent: i32 = exponent.parse().map_err(|_| ParseQuantityError::Suffix)?;
            Ok((0, exponent, Format::DecimalExponent))
        }
    }
}

/// `whole.fraction × 2^pow2 × 10^pow10` in billionths, rounded up, saturating at `i128::MAX`.
fn scale(whole: &str, fraction: &str, pow2: u32, pow10: i32) -> i128 {
    let fraction = fraction.trim_end_matches('0');
    let mut exponent = i64::from(pow10) + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 2);
    let (mut mantissa, mut kept, mut inexact) = (0i128, 0, false);
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')) {
        if kept < 28 {
            mantissa = mantissa * 10 + digit;
            kept += usize::from(mantissa != 0);
        } else {
            inexact |= digit != 0;
            exponent += 1;
        }
    }
    if mantissa == 0 {
        return 0;
    }
    let factor = 1i128 << pow2;
    // A mantissa too long to multiply first has digits to spare: it divides first.
    let mut doubled = mantissa.checked_mul(factor).inspect(|m| mantissa = *m).is_some();
    while exponent < 0 && mantissa != 0 {
        inexact |= mantissa % 10 != 0;
        mantissa /= 10;
        exponent += 1;
        if !doubled {
            doubled = mantissa.checked_mul(factor).inspect(|m| mantissa = *m).is_some();
        }
    }
    if !doubled {
        return i128::MAX;
    }
    mantissa = mantissa.saturating_add(i128::from(inexact));
    for _ in 0..exponent.clamp(0, 40) {
        mantissa = mantissa.saturating_mul(10);
    }
    mantissa
}

fn ceil_to_i64(nanos: i128, unit: i128) -> i64 {
    let quotient = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) != 0);
    i64::try_from(quotient).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Below 1024, or with a fraction, a binary quantity is written with decimal suffixes so that nothing is lost.
        if self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANO && self.is_integer() {
            let (mut n, mut power) = (self.nanos / NANO, 0);
            while n % 1024 == 0 && power < 6 {
                n /= 1024;
                power += 1;
            }
            return write!(f, "{n}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let (mut n, mut exponent) = (self.nanos, -9);
        while n % 1000 == 0 && exponent < 18 {
            n /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{n}"),
            (Format::DecimalExponent, e) => write!(f, "{n}e{e}"),
            (_, e) => {
                let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                write!(f, "{n}{}", suffixes[usize::try_from((e + 9) / 3).expect("the exponent is at least -9")])
            }
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}
impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl std::ops::Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        self.with_nanos_of(self.nanos + other.nanos, other)
    }
}
impl std::ops::Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Quantity) -> Quantity {
        self.with_nanos_of(self.nanos - other.nanos, other)
    }
}
impl std::ops::AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}
impl std::ops::SubAssign for Quantity {
    fn sub_assign(&mut self, other: Quantity) {
        *self = *self - other;
    }
}
impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(iter: I) -> Quantity {
        iter.fold(Quantity::ZERO, |a, b| a + b)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::parse(s)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl de::Visitor<'_> for V {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string or a number")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Quantity, E> {
                Quantity::parse(s).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_value(n))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_value(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Quantity, E> {
                Quantity::parse(&n.to_string()).map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_writes_canonically() {
        let check = |input: &str, text: &str, milli: i64, value: i64| {
            let q = Quantity::parse(input).unwrap();
            assert_eq!((q.to_string(), q.milli(), q.value()), (text.into(), milli, value), "{input}");
        };
        check("0", "0", 0, 0);
        check("100m", "100m", 100, 1);
        check("1000m", "1", 1000, 1);
        check("0.1", "100m", 100, 1);
        check(".5", "500m", 500, 1);
        check("5.", "5", 5000, 5);
        check("1.5Gi", "1536Mi", 1_610_612_736_000, 1_610_612_736);
        check("1024Ki", "1Mi", 1_048_576_000, 1_048_576);
        check("1023", "1023", 1_023_000, 1023);
        check("512Mi", "512Mi", 536_870_912_000, 536_870_912);
        check("0.5Ki", "512", 512_000, 512);
        check("1025m", "1025m", 1025, 2);
        check("1e3", "1e3", 1_000_000, 1000);
        check("1E3", "1e3", 1_000_000, 1000);
        check("1E", "1E", i64::MAX, 1_000_000_000_000_000_000);
        check("12000", "12k", 12_000_000, 12_000);
        check("-1500m", "-1500m", -1500, -1);
        check("+3M", "3M", 3_000_000_000, 3_000_000);
        check("1n", "1n", 1, 1);
        check("0.1n", "1n", 1, 1);
        check("1.0000000001", "1000000001n", 1001, 2);
        check("1e-3", "1e-3", 1, 1);
        check("9223372036854775808", "9223372036854775807", i64::MAX, i64::MAX);
        check("99999999999999999999999999999999999999999999Ei", "9223372036854775807", i64::MAX, i64::MAX);
        check("0.00000000000000000000000000000000000000000001", "1n", 1, 1);
        check("1e99999", "9223372036854775807", i64::MAX, i64::MAX);
        check("123456789012345678.5n", "123456789012345679n", 123_456_789_013, 123_456_790);
    }

    #[test]
    fn refuses_what_is_not_a_quantity() {
        for bad in ["", "-", ".", "1.2.3", "abc", "1 ", "1x"] {
            assert_eq!(Quantity::parse(bad), Err(ParseQuantityError::Format), "{bad}");
        }
        for bad in ["1ki", "1Kii", "1e", "1e1.5", "1mm", "1K"] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sums_keep_the_first_format() {
        let sum: Quantity = ["1Gi", "1G"].iter().map(|s| Quantity::parse(s).unwrap()).sum();
        assert_eq!(sum.to_string(), "2073741824");
        assert_eq!((Quantity::from_milli(1500) - Quantity::from_milli(500)).to_string(), "1");
    }

    #[test]
    fn json_numbers_and_strings_both_read() {
        let read = |s: &str| serde_json::from_str::<Quantity>(s).unwrap().to_string();
        assert_eq!((read("2"), read("\"250m\""), read("0.25")), ("2".into(), "250m".into(), "250m".into()));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(nanos in -MAX_NANOS..MAX_NANOS, f in 0..3) {
            let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][f as usize];
            let q = Quantity { nanos, format };
            prop_assert_eq!(Quantity::parse(&q.to_string()).unwrap(), q);
        }

        #[test]
        fn binary_sizes_round_trip(bytes in 0..i64::MAX) {
            let q = Quantity::from_bytes(bytes);
            prop_assert_eq!(Quantity::parse(&q.to_string()).unwrap().value(), bytes);
        }
    }
}
