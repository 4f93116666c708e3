//! The Common Expression Language as Kubernetes speaks it.
//!
//! It decides what an expression means and what it may cost; it never decides where expressions stand or what follows from
//! their results.
//!
//! `compile` reads an expression, checks it against the declared variables and bounds its cost; `Program::run` gives it
//! values. A run counts its steps and ends with `Error::TooExpensive` when it has used up what it was given, so no
//! expression can hang or fill the memory. It is Gantry's own because the crates that there are cannot be bounded like that
//! and check no types.

mod ast;
mod check;
mod eval;
mod functions;
mod lex;
mod parse;

mod duration;
mod error;
mod semver;
mod types;
mod url;
mod value;

#[cfg(test)]
mod tests;

pub use duration::Span;
pub use error::{CompileError, Error};
pub use semver::Semver;
pub use types::{Decl, FieldDecl, MAX_SIZE, ObjectType, Type};
pub use url::Url;
pub use value::{Key, Members, Text, Val};

pub(crate) use parse::RESERVED;

use ast::Expr;
use check::Checker;
use functions::Meter;
use lex::Fault;
use serde_json::Value;
use std::collections::BTreeSet;

/// What one run of an expression may cost.
pub const CALL_LIMIT: u64 = 1_000_000;

/// An expression that can run.
#[derive(Debug)]
pub struct Program {
    expr: Expr,
    result: Type,
    cost: u64,
    memory: usize,
    used: BTreeSet<String>,
}

/// What a run came to, and what it cost.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub result: Result<Val<'a>, Error>,
    pub cost: u64,
}

/// Reads and checks an expression. The variables are all that it may refer to.
pub fn compile(expression: &str, variables: &[(&str, Decl)]) -> Result<Program, CompileError> {
    let wrong = |fault: Fault| CompileError(pointed(expression, &fault));
    let mut expr = parse::parse(expression).map_err(wrong)?;
    let mut checker = Checker::new(variables);
    let known = checker.check(&mut expr).map_err(wrong)?;
    Ok(Program { expr, result: known.decl.ty, cost: known.cost, memory: checker.memory, used: checker.used })
}

impl Program {
    /// The type of its result.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// The most that a run costs, by the sizes of the variables' declarations.
    pub fn estimated_cost(&self) -> u64 {
        self.cost
    }

    /// An upper bound of what its regular expressions take, in bytes.
    pub fn regex_memory(&self) -> usize {
        self.memory
    }

    /// Whether it refers to this variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.used.contains(variable)
    }

    /// Gives the expression its value. `limit` bounds the cost; see `CALL_LIMIT`.
    pub fn run<'a>(&'a self, variables: Vec<(&'a str, Val<'a>)>, limit: u64) -> Outcome<'a> {
        let mut meter = Meter::new(limit);
        let result = eval::Run { variables, meter: &mut meter }.eval(&self.expr);
        Outcome { result, cost: limit - meter.left() }
    }
}

/// Runs a program on JSON whose types nobody declared.
pub fn evaluate(program: &Program, variables: &[(&str, &Value)]) -> Result<Value, Error> {
    let seen = variables.iter().map(|(name, value)| (*name, Val::of(value, Decl::dynamic()))).collect();
    value::to_json(&program.run(seen, CALL_LIMIT).result?)
}

/// The message with its place, and the line that it points into.
fn pointed(expression: &str, fault: &Fault) -> String {
    let before: String = expression.chars().take(fault.at as usize).collect();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let shown = expression.lines().nth(line).unwrap_or_default();
    format!("ERROR: <input>:{}:{}: {}\n | {shown}\n | {}^", line + 1, column + 1, fault.what, ".".repeat(column))
}
