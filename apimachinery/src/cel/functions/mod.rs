//! The functions that expressions may call: their names, signatures and code. It decides what there is to call; which
//! overload fits is decided by the checker before, and by the values themselves when the expression runs.

mod kubernetes;
mod lists;
mod operators;
mod strings;
mod times;

use super::error::Error;
use super::types::Type;
use super::value::{Pay, Val};
use regex::Regex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub(super) use strings::shown;
pub(super) use times::time_text;

/// What a run may still cost, and what the expression prepared for the call at hand.
pub(super) struct Meter {
    left: u64,
    pub prepared: Option<Arc<Regex>>,
}

impl Meter {
    pub fn new(limit: u64) -> Meter {
        Meter { left: limit, prepared: None }
    }

    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Pay for Meter {
    fn pay(&mut self, cost: u64) -> Result<(), Error> {
        match self.left.checked_sub(cost) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                return Err(Error::TooExpensive);
            }
        }
        Ok(())
    }
}

type Call = for<'a> fn(&mut Meter, &[Val<'a>]) -> Result<Val<'a>, Error>;

/// A row of the tables: signatures are `argument, argument -> result`, the receiver first.
struct Row {
    name: &'static str,
    form: Form,
    signatures: &'static [&'static str],
    call: Call,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Global,
    Member,
    Both,
}

const fn global(name: &'static str, signatures: &'static [&'static str], call: Call) -> Row {
    Row { name, form: Form::Global, signatures, call }
}

const fn member(name: &'static str, signatures: &'static [&'static str], call: Call) -> Row {
    Row { name, form: Form::Member, signatures, call }
}

const fn both(name: &'static str, signatures: &'static [&'static str], call: Call) -> Row {
    Row { name, form: Form::Both, signatures, call }
}

/// One name, with all that it may be applied to.
#[derive(Debug)]
pub(super) struct Function {
    pub overloads: Vec<Overload>,
}

#[derive(Debug)]
pub(super) struct Overload {
    pub args: Vec<Type>,
    pub result: Type,
    pub call: Call,
}

impl Function {
    /// Calls the first overload that the values allow; a call that was checked has just one candidate most of the time.
    pub fn call<'a>(&self, meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
        let mut tried: Option<Call> = None;
        for overload in self.overloads.iter().filter(|overload| overload.args.len() == args.len()) {
            if tried.is_some_and(|call| std::ptr::fn_addr_eq(call, overload.call)) {
                continue;
            }
            tried = Some(overload.call);
            match (overload.call)(meter, args) {
                Err(Error::Failed(why)) if why == "no such overload" => {}
                result => return result,
            }
        }
        Err(Error::no_overload())
    }
}

/// By name: the global function and the one with a receiver.
type Table = HashMap<&'static str, [Option<Function>; 2]>;

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut table = Table::new();
        let rows = [operators::ROWS, times::ROWS, strings::ROWS, lists::ROWS, kubernetes::ROWS];
        for row in rows.into_iter().flatten() {
            let forms = table.entry(row.name).or_default();
            for (place, other) in [(0, Form::Member), (1, Form::Global)] {
                if row.form != other {
                    let function = forms[place].get_or_insert_with(|| Function { overloads: Vec::new() });
                    function.overloads.extend(row.signatures.iter().map(|signature| overload(signature, row.call)));
                }
            }
        }
        table
    });
    &TABLE
}

fn overload(signature: &str, call: Call) -> Overload {
    let (args, result) = signature.split_once(" -> ").unwrap_or((signature, "dyn"));
    let mut types = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in args.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                types.push(Type::read(args[from..at].trim()));
                from = at + 1;
            }
            _ => {}
        }
    }
    if !args[from..].trim().is_empty() {
        types.push(Type::read(args[from..].trim()));
    }
    Overload { args: types, result: Type::read(result.trim()), call }
}

pub(super) fn find(name: &str, member: bool) -> Option<&'static Function> {
    table().get(name)?[usize::from(member)].as_ref()
}

pub(super) fn is_known(name: &str) -> bool {
    find(name, false).is_some()
}

/// A bound that depends on a text's length, as Kubernetes counts it: a tenth a character.
fn text_cost(length: usize) -> u64 {
    1 + length as u64 / 10
}

fn index(value: i64, length: usize, exclusive: bool) -> Result<usize, Error> {
    match usize::try_from(value) {
        Ok(index) if index < length || (!exclusive && index == length) => Ok(index),
        _ => Err(Error::failed(format!("index out of range: {value}"))),
    }
}
