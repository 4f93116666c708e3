//! Functions on lists, sets and optional values. It decides order and membership.

use super::super::error::Error;
use super::super::value::{Pay, Val, compare, equal, is_in};
use super::{Meter, Row, global, member};
use std::cmp::Ordering;

const SETS: &[&str] = &["list(A), list(A) -> bool"];
const ORDERED: &[&str] = &[
    "list(int) -> A",
    "list(uint) -> A",
    "list(double) -> A",
    "list(bool) -> A",
    "list(string) -> A",
    "list(bytes) -> A",
    "list(duration) -> A",
    "list(timestamp) -> A",
];

pub(super) const ROWS: &[Row] = &[
    member("isSorted", &["list(A) -> bool"], |meter, args| {
        let mut before: Option<Val<'_>> = None;
        for item in list(args)?.items() {
            meter.pay(1)?;
            if let Some(before) = &before {
                match compare(before, &item) {
                    Some(Ordering::Greater) => return Ok(Val::Bool(false)),
                    Some(_) => {}
                    None => return Err(Error::no_overload()),
                }
            }
            before = Some(item);
        }
        Ok(Val::Bool(true))
    }),
    member(
        "sum",
        &["list(int) -> int", "list(uint) -> uint", "list(double) -> double", "list(duration) -> duration"],
        |meter, args| {
            let add = super::find("_+_", false).ok_or_else(Error::no_overload)?;
            let mut items = list(args)?.items();
            let mut sum = items.next().unwrap_or(Val::Int(0));
            for item in items {
                meter.pay(1)?;
                sum = add.call(meter, &[sum, item])?;
            }
            Ok(sum)
        },
    ),
    member("min", ORDERED, |meter, args| extreme(meter, args, Ordering::Less, "min")),
    member("max", ORDERED, |meter, args| extreme(meter, args, Ordering::Greater, "max")),
    member("indexOf", &["list(A), A -> int"], |meter, args| place(meter, args, false)),
    member("lastIndexOf", &["list(A), A -> int"], |meter, args| place(meter, args, true)),
    global("sets.contains", SETS, |meter, args| Ok(Val::Bool(all_in(meter, second(args)?, list(args)?)?))),
    global("sets.equivalent", SETS, |meter, args| {
        let (a, b) = (list(args)?, second(args)?);
        Ok(Val::Bool(all_in(meter, a, b)? && all_in(meter, b, a)?))
    }),
    global("sets.intersects", SETS, |meter, args| {
        let (a, b) = (list(args)?, second(args)?);
        for item in a.items() {
            if is_in(&item, b, meter)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }),
    global("optional.of", &["A -> optional(A)"], |_, args| one(args).map(|value| Val::some(value.clone()))),
    global("optional.none", &[" -> optional(A)"], |_, _| Ok(Val::Optional(None))),
    global("optional.ofNonZeroValue", &["A -> optional(A)"], |_, args| {
        let value = one(args)?;
        Ok(if is_zero(value) { Val::Optional(None) } else { Val::some(value.clone()) })
    }),
    member("hasValue", &["optional(A) -> bool"], |_, args| optional(args).map(|value| Val::Bool(value.is_some()))),
    member("value", &["optional(A) -> A"], |_, args| {
        optional(args)?.ok_or_else(|| Error::failed("optional.none() dereference"))
    }),
    member("orValue", &["optional(A), A -> A"], |_, args| match args {
        [_, other] => Ok(optional(&args[..1])?.unwrap_or_else(|| other.clone())),
        _ => Err(Error::no_overload()),
    }),
    member("or", &["optional(A), optional(A) -> optional(A)"], |_, args| match args {
        [_, other] => Ok(optional(&args[..1])?.map_or_else(|| other.clone(), Val::some)),
        _ => Err(Error::no_overload()),
    }),
];

fn one<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v Val<'a>, Error> {
    args.first().ok_or_else(Error::no_overload)
}

fn list<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v Val<'a>, Error> {
    args.first().filter(|value| value.list_len().is_some()).ok_or_else(Error::no_overload)
}

fn second<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v Val<'a>, Error> {
    args.get(1).filter(|value| value.list_len().is_some()).ok_or_else(Error::no_overload)
}

fn optional<'a>(args: &[Val<'a>]) -> Result<Option<Val<'a>>, Error> {
    match args {
        [Val::Optional(value)] => Ok(value.as_ref().map(|value| (**value).clone())),
        _ => Err(Error::no_overload()),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Optional(None) => true,
        Val::Double(value) => *value == 0.0,
        Val::Text(text) => text.as_str().is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Span(span) => span.0 == 0,
        other => other.list_len() == Some(0) || (other.is_map() && other.map_len() == 0),
    }
}

fn extreme<'a>(meter: &mut Meter, args: &[Val<'a>], wanted: Ordering, name: &str) -> Result<Val<'a>, Error> {
    let mut items = list(args)?.items();
    let mut best = items.next().ok_or_else(|| Error::failed(format!("{name} called on empty list")))?;
    for item in items {
        meter.pay(1)?;
        if compare(&item, &best).ok_or_else(Error::no_overload)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

fn place<'a>(meter: &mut Meter, args: &[Val<'a>], last: bool) -> Result<Val<'a>, Error> {
    let [_, wanted] = args else { return Err(Error::no_overload()) };
    let mut found = -1;
    for (index, item) in list(args)?.items().enumerate() {
        meter.pay(1)?;
        if equal(&item, wanted, meter)? {
            found = index as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn all_in(meter: &mut Meter, wanted: &Val<'_>, list: &Val<'_>) -> Result<bool, Error> {
    for item in wanted.items() {
        if !is_in(&item, list, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
