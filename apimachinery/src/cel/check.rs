//! Whether an expression makes sense before it runs: names, fields and overloads, and what it may cost at most. It decides
//! by declarations alone.

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Literal};
use super::functions;
use super::lex::Fault;
use super::types::{Decl, Type};
use crate::re2;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names of types, which are values themselves.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// What the regular expressions of one expression may take.
const REGEX_MEMORY: usize = 16 << 20;
/// How long keys of maps are taken to be. Nothing bounds them, but Kubernetes counts them as if they were empty.
const KEY_SIZE: u64 = 0;

/// What is known of an expression: its type with the largest size, and the most that it costs.
pub(super) struct Known {
    pub decl: Decl,
    pub cost: u64,
}

pub(super) struct Checker<'v> {
    variables: &'v [(&'v str, Decl)],
    scopes: Vec<(String, Decl)>,
    /// The variables that the expression uses.
    pub used: BTreeSet<String>,
    /// What the compiled regular expressions take.
    pub memory: usize,
    /// Inside the arguments of `format`, whose lists mix types.
    mixed: bool,
}

type Checked = Result<Known, Fault>;

fn known(decl: Decl, cost: u64) -> Checked {
    Ok(Known { decl, cost })
}

/// What looking at a text or list of this size costs.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

impl<'v> Checker<'v> {
    pub fn new(variables: &'v [(&'v str, Decl)]) -> Self {
        Self { variables, scopes: Vec::new(), used: BTreeSet::new(), memory: 0, mixed: false }
    }

    pub fn check(&mut self, expr: &mut Expr) -> Checked {
        let at = expr.at;
        match &mut expr.kind {
            Kind::Literal(literal) => known(literal_decl(literal), 0),
            Kind::Name(name) => self.name(name, at),
            Kind::Select { operand, field, optional } => {
                let operand = self.check(operand)?;
                let (decl, inside) = through(&operand.decl);
                let field = field_of(decl, field, at)?;
                known(wrapped(field, inside || *optional), operand.cost.saturating_add(1))
            }
            Kind::Has { operand, field } => {
                let operand = self.check(operand)?;
                field_of(through(&operand.decl).0, field, at)?;
                known(Decl::of(Type::Bool), operand.cost)
            }
            Kind::Index { operand, index, optional } => {
                let (operand, index) = (self.check(operand)?, self.check(index)?);
                let (decl, inside) = through(&operand.decl);
                let Some(item) = item_of(decl, &index.decl.ty) else {
                    return Err(no_overload("_[_]", &[&operand.decl, &index.decl], false, at));
                };
                let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
                known(wrapped(item, inside || *optional), cost)
            }
            Kind::Call(call) => self.call(call, at),
            Kind::And(terms) => self.logic("_&&_", terms, at),
            Kind::Or(terms) => self.logic("_||_", terms, at),
            Kind::Choice(parts) => self.choice(parts, at),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Bind { name, value, body } => {
                let value = self.check(value)?;
                let body = self.within([(name.clone(), value.decl)], |c| c.check(body))?;
                known(body.decl, value.cost.saturating_add(body.cost))
            }
            Kind::OptMap { name, target, body, flat } => {
                let target = self.check(target)?;
                let inner = match &target.decl.ty {
                    Type::Optional(inner) => (**inner).clone(),
                    _ => Decl::of(Type::Dyn),
                };
                let body = self.within([(name.clone(), inner)], |c| c.check(body))?;
                let decl = if *flat { body.decl } else { Decl::optional(body.decl) };
                known(decl, target.cost.saturating_add(body.cost).saturating_add(1))
            }
        }
    }

    fn within<T, const N: usize>(&mut self, names: [(String, Decl); N], act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.scopes.len();
        self.scopes.extend(names);
        let result = act(self);
        self.scopes.truncate(before);
        result
    }

    fn name(&mut self, name: &str, at: u32) -> Checked {
        if let Some((_, decl)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            return known(decl.clone(), 1);
        }
        if let Some((_, decl)) = self.variables.iter().find(|(known, _)| *known == name) {
            self.used.insert(name.to_owned());
            return known(decl.clone(), 1);
        }
        if TYPE_NAMES.contains(&name) {
            return known(Decl::of(Type::Type), 1);
        }
        Err(Fault { at, what: format!("undeclared reference to '{name}' (in container '')") })
    }

    fn logic(&mut self, name: &str, terms: &mut [Expr], at: u32) -> Checked {
        let mut cost = 0_u64;
        for term in terms {
            let term = self.check(term)?;
            if !matches!(term.decl.ty, Type::Bool | Type::Dyn) {
                return Err(no_overload(name, &[&Decl::of(Type::Bool), &term.decl], false, at));
            }
            cost = cost.saturating_add(term.cost);
        }
        known(Decl::of(Type::Bool), cost)
    }

    fn choice(&mut self, parts: &mut [Expr; 3], at: u32) -> Checked {
        let [condition, yes, no] = parts;
        let (condition, yes, no) = (self.check(condition)?, self.check(yes)?, self.check(no)?);
        let fits = matches!(condition.decl.ty, Type::Bool | Type::Dyn);
        let Some(ty) = common(&yes.decl.ty, &no.decl.ty).filter(|_| fits) else {
            return Err(no_overload("_?_:_", &[&condition.decl, &yes.decl, &no.decl], false, at));
        };
        known(Decl::new(ty, yes.decl.max.max(no.decl.max)), condition.cost.saturating_add(yes.cost.max(no.cost)))
    }

    fn list(&mut self, items: &mut [(Expr, bool)]) -> Checked {
        let (mut decl, mut cost, count): (Option<Decl>, u64, u64) = (None, 10, items.len() as u64);
        for (item, optional) in items {
            let at = item.at;
            let item = self.check(item)?;
            cost = cost.saturating_add(item.cost);
            let item = if *optional { through(&item.decl).0.clone() } else { item.decl };
            decl = Some(self.joined(decl, item, at)?);
        }
        known(Decl::list(decl.unwrap_or_else(|| Decl::of(Type::Dyn)), count), cost)
    }

    fn map(&mut self, entries: &mut [(Expr, Expr, bool)]) -> Checked {
        let (mut keys, mut values, mut cost, count) = (None, None, 30_u64, entries.len() as u64);
        for (key, value, optional) in entries {
            let (key_at, value_at) = (key.at, value.at);
            let (key, value) = (self.check(key)?, self.check(value)?);
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            let value = if *optional { through(&value.decl).0.clone() } else { value.decl };
            keys = Some(self.joined(keys, key.decl, key_at)?);
            values = Some(self.joined(values, value, value_at)?);
        }
        let dynamic = || Decl::of(Type::Dyn);
        let key = keys.unwrap_or_else(dynamic).ty;
        known(Decl::new(Type::Map(Arc::new(key), Arc::new(values.unwrap_or_else(dynamic))), count), cost)
    }

    /// The type of literals' items so far, with one more.
    fn joined(&self, so_far: Option<Decl>, next: Decl, at: u32) -> Result<Decl, Fault> {
        let Some(before) = so_far else { return Ok(next) };
        let max = before.max.max(next.max);
        match common(&before.ty, &next.ty) {
            Some(ty) => Ok(Decl::new(ty, max)),
            None if self.mixed => Ok(Decl::new(Type::Dyn, max)),
            None => Err(Fault { at, what: format!("expected type '{}' but found '{}'", before.ty, next.ty) }),
        }
    }

    fn fold(&mut self, fold: &mut Fold) -> Checked {
        let range_at = fold.range.at;
        let range = self.check(&mut fold.range)?;
        let (key, value) = match &range.decl.ty {
            Type::List(items) => (Decl::of(Type::Int), (**items).clone()),
            Type::Map(key, value) => (Decl::new((**key).clone(), KEY_SIZE), (**value).clone()),
            Type::Dyn => (Decl::of(Type::Dyn), Decl::of(Type::Dyn)),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(Fault { at: range_at, what: why });
            }
        };
        let over_map = matches!(range.decl.ty, Type::Map(..));
        let single = if over_map { key.clone() } else { value.clone() };
        let (first, second) = fold.names.clone();
        let names = match second {
            Some(second) => vec![(first, key.clone()), (second, value.clone())],
            None => vec![(first, single.clone())],
        };
        let before = self.scopes.len();
        self.scopes.extend(names);
        let filter = fold.filter.as_mut().map(|filter| self.boolean(filter)).transpose();
        let is_test = !matches!(fold.kind, FoldKind::ToList | FoldKind::ToMap | FoldKind::ToEntries);
        let body = if is_test { self.boolean(&mut fold.body) } else { self.check(&mut fold.body) };
        self.scopes.truncate(before);
        let (filter, body) = (filter?, body?);
        let overhead = if is_test && fold.kind != FoldKind::Filter { 3 } else { 13 };
        let each = body.cost.saturating_add(filter.map_or(0, |filter| filter.cost)).saturating_add(overhead);
        let cost = range.cost.saturating_add(range.decl.max.saturating_mul(each));
        let max = range.decl.max;
        let decl = match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Decl::of(Type::Bool),
            FoldKind::Filter => Decl::list(single, max),
            FoldKind::ToList => Decl::list(body.decl, max),
            FoldKind::ToMap => Decl::new(Type::Map(Arc::new(key.ty), Arc::new(body.decl)), max),
            FoldKind::ToEntries => Decl::new(body.decl.ty, max),
        };
        known(decl, cost)
    }

    fn boolean(&mut self, expr: &mut Expr) -> Checked {
        let at = expr.at;
        let result = self.check(expr)?;
        match result.decl.ty {
            Type::Bool | Type::Dyn => Ok(result),
            other => Err(Fault { at, what: format!("expected type 'bool' but found '{other}'") }),
        }
    }

    fn call(&mut self, call: &mut Call, at: u32) -> Checked {
        let mixed = self.mixed;
        self.mixed |= call.name == "format";
        let args: Result<Vec<Known>, Fault> = call.args.iter_mut().map(|arg| self.check(arg)).collect();
        self.mixed = mixed;
        let args = args?;
        let Some(function) = functions::find(&call.name, call.member) else {
            let what = format!("undeclared reference to '{}' (in container '')", call.name);
            return Err(Fault { at, what });
        };
        call.function = Some(function);
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.args.len() == args.len()) {
            let mut bound = BTreeMap::new();
            if overload.args.iter().zip(&args).all(|(wanted, arg)| arg.decl.ty.fits(wanted, &mut bound)) {
                let ty = overload.result.with(&bound);
                result = Some(result.map_or(ty.clone(), |other| if other == ty { ty } else { Type::Dyn }));
            }
        }
        let Some(ty) = result else {
            let decls: Vec<&Decl> = args.iter().map(|arg| &arg.decl).collect();
            return Err(no_overload(&call.name, &decls, call.member, at));
        };
        if let ("matches" | "find" | "findAll", Some(Kind::Literal(Literal::Text(pattern)))) =
            (call.name.as_str(), call.args.get(1).map(|arg| &arg.kind))
        {
            if self.memory > REGEX_MEMORY {
                return Err(Fault { at, what: "the regular expressions are too large together".to_owned() });
            }
            let (regex, memory) = re2::compile(pattern).map_err(|what| Fault { at, what })?;
            self.memory += memory;
            call.prepared = Some(Arc::new(regex));
        }
        let own = own_cost(&call.name, &args);
        let cost = args.iter().fold(own, |cost, arg| cost.saturating_add(arg.cost));
        let max = result_size(&ty, &call.name, &args);
        known(Decl::new(ty, max), cost)
    }
}

fn literal_decl(literal: &Literal) -> Decl {
    match literal {
        Literal::Null => Decl::of(Type::Null),
        Literal::Bool(_) => Decl::of(Type::Bool),
        Literal::Int(_) => Decl::of(Type::Int),
        Literal::Uint(_) => Decl::of(Type::Uint),
        Literal::Double(_) => Decl::of(Type::Double),
        Literal::Text(text) => Decl::new(Type::String, text.chars().count() as u64),
        Literal::Bytes(bytes) => Decl::new(Type::Bytes, bytes.len() as u64),
    }
}

/// What an optional holds, and whether it was one.
fn through(decl: &Decl) -> (&Decl, bool) {
    match &decl.ty {
        Type::Optional(inner) => (inner, true),
        _ => (decl, false),
    }
}

fn wrapped(decl: Decl, optional: bool) -> Decl {
    if optional { Decl::optional(decl) } else { decl }
}

fn field_of(decl: &Decl, field: &str, at: u32) -> Result<Decl, Fault> {
    match &decl.ty {
        Type::Dyn => Ok(Decl::of(Type::Dyn)),
        Type::Map(_, value) => Ok((**value).clone()),
        Type::Object(object) => match object.fields.get(field) {
            Some(field) => Ok(field.decl.clone()),
            None => Err(Fault { at, what: format!("undefined field '{field}'") }),
        },
        other => Err(Fault { at, what: format!("type '{other}' does not support field selection") }),
    }
}

fn item_of(decl: &Decl, index: &Type) -> Option<Decl> {
    match &decl.ty {
        Type::Dyn => Some(Decl::of(Type::Dyn)),
        Type::List(items) if matches!(index, Type::Int | Type::Dyn) => Some((**items).clone()),
        Type::Map(key, value) if index.fits(key, &mut BTreeMap::new()) => Some((**value).clone()),
        _ => None,
    }
}

/// The type that two branches share.
fn common(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Null, other) | (other, Type::Null) => Some(other.clone()),
        (a, b) if a == b => Some(a.clone()),
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        (a, b) if a.fits(b, &mut BTreeMap::new()) => Some(if is_vague(a) { b.clone() } else { a.clone() }),
        _ => None,
    }
}

/// A type that an empty list or map has.
fn is_vague(ty: &Type) -> bool {
    match ty {
        Type::Dyn => true,
        Type::List(items) | Type::Optional(items) => is_vague(&items.ty),
        Type::Map(_, value) => is_vague(&value.ty),
        _ => false,
    }
}

fn no_overload(name: &str, args: &[&Decl], member: bool, at: u32) -> Fault {
    let types: Vec<String> = args.iter().map(|decl| decl.ty.to_string()).collect();
    let applied = match types.split_first() {
        Some((receiver, rest)) if member => format!("{receiver}.({})", rest.join(", ")),
        _ => format!("({})", types.join(", ")),
    };
    Fault { at, what: format!("found no matching overload for '{name}' applied to '{applied}'") }
}

/// The most that the call itself costs, without its arguments.
fn own_cost(name: &str, args: &[Known]) -> u64 {
    let max = |index: usize| args.get(index).map_or(0, |arg| sized(&arg.decl));
    let is_sized = |index: usize| args.get(index).is_some_and(|arg| has_size(&arg.decl.ty));
    let all = || {
        (0..args.len())
            .filter(|index| is_sized(*index))
            .fold(0_u64, |cost, index| cost.saturating_add(tenth(max(index))))
    };
    let cost = match name {
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" if is_sized(0) && is_sized(1) => tenth(max(0).min(max(1))),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => 1,
        "@in" => match args.get(1).map(|arg| &arg.decl.ty) {
            Some(Type::Map(..)) => 1,
            _ => max(1),
        },
        // The text is looked at no further than the other one is long.
        "startsWith" | "endsWith" => tenth(max(1)),
        "contains" => tenth(max(0)).saturating_mul(tenth(max(1))),
        "matches" | "find" | "findAll" => tenth(max(0).saturating_add(1)).saturating_mul(max(1).div_ceil(4)),
        "indexOf" | "lastIndexOf" => tenth(max(0).saturating_mul(max(1).max(1))),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => max(0).saturating_mul(max(1)),
        "size" | "dyn" | "type" | "int" | "uint" | "double" | "bool" | "duration" | "timestamp" => 1,
        _ => all(),
    };
    cost.max(1)
}

fn has_size(ty: &Type) -> bool {
    matches!(ty, Type::String | Type::Bytes | Type::List(_) | Type::Map(..) | Type::Dyn)
}

/// The size of what is looked at as a whole.
fn sized(decl: &Decl) -> u64 {
    if has_size(&decl.ty) { decl.max } else { 1 }
}

fn result_size(ty: &Type, name: &str, args: &[Known]) -> u64 {
    let max = |index: usize| args.get(index).map_or(0, |arg| sized(&arg.decl));
    match (ty, name) {
        (Type::String, "string" | "strings.quote" | "replace") if max(0) <= 1 => 64,
        (Type::String, "charAt") => 1,
        (Type::String, "replace") => max(0).saturating_mul(max(2).max(1)),
        (Type::String, "join") => match args.first().map(|arg| &arg.decl) {
            Some(Decl { ty: Type::List(items), max, .. }) => {
                max.saturating_mul(items.max.saturating_add(args.get(1).map_or(0, |arg| arg.decl.max)))
            }
            _ => super::types::MAX_SIZE,
        },
        (Type::String | Type::Bytes | Type::List(_) | Type::Map(..), "_+_") => max(0).saturating_add(max(1)),
        (Type::String, "format") => super::types::MAX_SIZE,
        (Type::String | Type::Bytes | Type::List(_) | Type::Map(..) | Type::Dyn, _) => max(0).max(1),
        _ => 1,
    }
}
