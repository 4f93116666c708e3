//! Operators and conversions between types. It decides arithmetic, which never wraps around.

use super::super::duration::Span;
use super::super::error::Error;
use super::super::value::{Pay, Val, compare, equal, is_in};
use super::{Meter, Row, both, global, text_cost};
use std::cmp::Ordering;

const ORDERED: &[&str] = &[
    "bool, bool -> bool",
    "int, int -> bool",
    "uint, uint -> bool",
    "double, double -> bool",
    "int, uint -> bool",
    "int, double -> bool",
    "uint, int -> bool",
    "uint, double -> bool",
    "double, int -> bool",
    "double, uint -> bool",
    "string, string -> bool",
    "bytes, bytes -> bool",
    "timestamp, timestamp -> bool",
    "duration, duration -> bool",
];
const NUMBERS: &[&str] = &["int, int -> int", "uint, uint -> uint", "double, double -> double"];

pub(super) const ROWS: &[Row] = &[
    global("_==_", &["A, A -> bool"], |meter, args| two(args, |a, b| Ok(Val::Bool(equal(a, b, meter)?)))),
    global("_!=_", &["A, A -> bool"], |meter, args| two(args, |a, b| Ok(Val::Bool(!equal(a, b, meter)?)))),
    global("_<_", ORDERED, |meter, args| order(meter, args, Ordering::is_lt)),
    global("_<=_", ORDERED, |meter, args| order(meter, args, Ordering::is_le)),
    global("_>_", ORDERED, |meter, args| order(meter, args, Ordering::is_gt)),
    global("_>=_", ORDERED, |meter, args| order(meter, args, Ordering::is_ge)),
    global("@in", &["A, list(A) -> bool", "A, map(A, B) -> bool"], contains),
    global("_+_", NUMBERS, add),
    global(
        "_+_",
        &[
            "string, string -> string",
            "bytes, bytes -> bytes",
            "list(A), list(A) -> list(A)",
            "duration, duration -> duration",
            "timestamp, duration -> timestamp",
            "duration, timestamp -> timestamp",
        ],
        add,
    ),
    global("_-_", NUMBERS, subtract),
    global(
        "_-_",
        &["duration, duration -> duration", "timestamp, duration -> timestamp", "timestamp, timestamp -> duration"],
        subtract,
    ),
    global("_*_", NUMBERS, multiply),
    global("_/_", NUMBERS, divide),
    global("_%_", &["int, int -> int", "uint, uint -> uint"], modulo),
    global("-_", &["int -> int", "double -> double", "duration -> duration"], negate),
    global("!_", &["bool -> bool"], |_, args| match args {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => Err(Error::no_overload()),
    }),
    both("size", &["string -> int", "bytes -> int", "list(A) -> int", "map(A, B) -> int"], size),
    global("dyn", &["A -> dyn"], |_, args| args.first().cloned().ok_or_else(Error::no_overload)),
    global("type", &["A -> type"], |_, args| Ok(Val::Type(args.first().map_or("", Val::type_name)))),
    global(
        "int",
        &["int -> int", "uint -> int", "double -> int", "string -> int", "timestamp -> int", "duration -> int"],
        to_int,
    ),
    global("uint", &["uint -> uint", "int -> uint", "double -> uint", "string -> uint"], to_uint),
    global("double", &["double -> double", "int -> double", "uint -> double", "string -> double"], to_double),
    global("bool", &["bool -> bool", "string -> bool"], to_bool),
    global("bytes", &["bytes -> bytes", "string -> bytes"], to_bytes),
    global(
        "string",
        &[
            "string -> string",
            "bool -> string",
            "int -> string",
            "uint -> string",
            "double -> string",
            "bytes -> string",
            "timestamp -> string",
            "duration -> string",
            "quantity -> string",
            "url -> string",
            "ip -> string",
            "cidr -> string",
            "semver -> string",
        ],
        to_text,
    ),
];

fn two<'a>(args: &[Val<'a>], act: impl FnOnce(&Val<'a>, &Val<'a>) -> Result<Val<'a>, Error>) -> Result<Val<'a>, Error> {
    match args {
        [a, b] => act(a, b),
        _ => Err(Error::no_overload()),
    }
}

fn order<'a>(meter: &mut Meter, args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Result<Val<'a>, Error> {
    two(args, |a, b| {
        meter.pay(a.weight().min(b.weight()))?;
        if let (Val::Double(x), Val::Double(y)) = (a, b)
            && (x.is_nan() || y.is_nan())
        {
            return Ok(Val::Bool(false));
        }
        compare(a, b).map(|ordering| Val::Bool(holds(ordering))).ok_or_else(Error::no_overload)
    })
}

fn contains<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |needle, hay| {
        if hay.is_map() {
            return Ok(Val::Bool(needle.to_key().is_some_and(|key| hay.entry(&key).is_some())));
        }
        if hay.list_len().is_none() {
            return Err(Error::no_overload());
        }
        is_in(needle, hay, meter).map(Val::Bool)
    })
}

fn overflow() -> Error {
    Error::failed("integer overflow")
}

fn span(nanos: Option<i64>) -> Result<Val<'static>, Error> {
    nanos.map(|nanos| Val::Span(Span(nanos))).ok_or_else(|| Error::failed("duration overflow"))
}

fn moved(time: crate::time::Timestamp, nanos: i64) -> Result<Val<'static>, Error> {
    let micros = time.micros().checked_add(nanos / 1000).filter(|micros| super::times::in_range(*micros));
    let time = micros.map(crate::time::Timestamp::from_micros);
    time.map(Val::Time).ok_or_else(|| Error::failed("timestamp overflow"))
}

fn add<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |a, b| match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_add(*y).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(x), Val::Uint(y)) => x.checked_add(*y).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(x + y)),
        (Val::Text(x), Val::Text(y)) => {
            meter.pay(text_cost(x.as_str().len() + y.as_str().len()))?;
            Ok(Val::text([x.as_str(), y.as_str()].concat()))
        }
        (Val::Bytes(x), Val::Bytes(y)) => {
            meter.pay(text_cost(x.len() + y.len()))?;
            Ok(Val::Bytes([&**x, &**y].concat().into()))
        }
        (Val::Span(x), Val::Span(y)) => span(x.0.checked_add(y.0)),
        (Val::Time(x), Val::Span(y)) | (Val::Span(y), Val::Time(x)) => moved(*x, y.0),
        (x, y) => match (x.list_len(), y.list_len()) {
            (Some(n), Some(m)) => {
                meter.pay((n + m) as u64)?;
                let mut sum: Vec<Val<'a>> = x.items().collect();
                for item in y.items() {
                    // A set does not get what it has.
                    if !x.is_unordered() || !is_in(&item, x, meter)? {
                        sum.push(item);
                    }
                }
                Ok(Val::list(sum))
            }
            _ => Err(Error::no_overload()),
        },
    })
}

fn subtract<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |a, b| match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_sub(*y).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(x), Val::Uint(y)) => x.checked_sub(*y).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(x - y)),
        (Val::Span(x), Val::Span(y)) => span(x.0.checked_sub(y.0)),
        (Val::Time(x), Val::Span(y)) => match y.0.checked_neg() {
            Some(back) => moved(*x, back),
            None => Err(Error::failed("timestamp overflow")),
        },
        (Val::Time(x), Val::Time(y)) => span((x.micros() - y.micros()).checked_mul(1000)),
        _ => Err(Error::no_overload()),
    })
}

fn multiply<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |a, b| match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_mul(*y).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(x), Val::Uint(y)) => x.checked_mul(*y).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(x * y)),
        _ => Err(Error::no_overload()),
    })
}

fn divide<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |a, b| match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(Error::failed("division by zero")),
        (Val::Int(x), Val::Int(y)) => x.checked_div(*y).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(x), Val::Uint(y)) => Ok(Val::Uint(x / y)),
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(x / y)),
        _ => Err(Error::no_overload()),
    })
}

fn modulo<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    two(args, |a, b| match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(Error::failed("modulus by zero")),
        (Val::Int(x), Val::Int(y)) => x.checked_rem(*y).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(x), Val::Uint(y)) => Ok(Val::Uint(x % y)),
        _ => Err(Error::no_overload()),
    })
}

fn negate<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Int(value)] => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        [Val::Span(value)] => span(value.0.checked_neg()),
        _ => Err(Error::no_overload()),
    }
}

fn size<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let size = match args {
        [Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            text.as_str().chars().count()
        }
        [Val::Bytes(bytes)] => bytes.len(),
        [map] if map.is_map() => map.map_len(),
        [list] => list.list_len().ok_or_else(Error::no_overload)?,
        _ => return Err(Error::no_overload()),
    };
    Ok(Val::Int(size as i64))
}

fn conversion(from: &str, to: &str) -> Error {
    Error::failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_int<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let value = match args {
        [Val::Int(value)] => Some(*value),
        [Val::Uint(value)] => i64::try_from(*value).ok(),
        [Val::Double(value)] => (value.abs() < 9.223_372_036_854_775e18).then_some(*value as i64),
        [Val::Text(text)] => return text.as_str().parse().map(Val::Int).map_err(|_| conversion("string", "int")),
        [Val::Time(time)] => Some(time.secs()),
        [Val::Span(span)] => Some(span.0),
        _ => return Err(Error::no_overload()),
    };
    value.map(Val::Int).ok_or_else(overflow)
}

fn to_uint<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let value = match args {
        [Val::Uint(value)] => Some(*value),
        [Val::Int(value)] => u64::try_from(*value).ok(),
        [Val::Double(value)] => (*value >= 0.0 && *value < 1.844_674_407_370_955e19).then_some(*value as u64),
        [Val::Text(text)] => return text.as_str().parse().map(Val::Uint).map_err(|_| conversion("string", "uint")),
        _ => return Err(Error::no_overload()),
    };
    value.map(Val::Uint).ok_or_else(|| Error::failed("unsigned integer overflow"))
}

fn to_double<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::Text(text)] => text.as_str().parse().map(Val::Double).map_err(|_| conversion("string", "double")),
        _ => Err(Error::no_overload()),
    }
}

fn to_bool<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::Text(text)] => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(conversion("string", "bool")),
        },
        _ => Err(Error::no_overload()),
    }
}

fn to_bytes<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            Ok(Val::Bytes(text.as_str().as_bytes().into()))
        }
        _ => Err(Error::no_overload()),
    }
}

fn to_text<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let text = match args {
        [Val::Text(text)] => return Ok(Val::Text(text.clone())),
        [Val::Bytes(bytes)] => {
            meter.pay(text_cost(bytes.len()))?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Error::failed("invalid UTF-8 in bytes, cannot convert to string"))?;
            text.to_owned()
        }
        [value] => super::strings::shown(value).ok_or_else(Error::no_overload)?,
        _ => return Err(Error::no_overload()),
    };
    Ok(Val::text(text))
}
