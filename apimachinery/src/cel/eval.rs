//! How an expression gets its value. It decides step by step, and pays for each step.

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Literal};
use super::check::TYPE_NAMES;
use super::error::Error;
use super::functions::Meter;
use super::value::{Key, Pay, Text, Val};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Run<'a, 'm> {
    /// The innermost last.
    pub variables: Vec<(&'a str, Val<'a>)>,
    pub meter: &'m mut Meter,
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

impl<'a> Run<'a, '_> {
    pub fn eval(&mut self, expr: &'a Expr) -> Result<'a> {
        if let Kind::Literal(literal) = &expr.kind {
            return Ok(constant(literal));
        }
        self.meter.pay(1)?;
        match &expr.kind {
            Kind::Literal(literal) => Ok(constant(literal)),
            Kind::Name(name) => self.name(name),
            Kind::Select { operand, field, optional } => {
                let operand = self.eval(operand)?;
                select(operand, field, *optional)
            }
            Kind::Has { operand, field } => self.has(operand, field),
            Kind::Index { operand, index, optional } => {
                let (operand, index) = (self.eval(operand)?, self.eval(index)?);
                at_index(operand, &index, *optional)
            }
            Kind::Call(call) => self.call(call),
            Kind::And(terms) => self.logic(terms, false),
            Kind::Or(terms) => self.logic(terms, true),
            Kind::Choice(parts) => match self.eval(&parts[0])? {
                Val::Bool(true) => self.eval(&parts[1]),
                Val::Bool(false) => self.eval(&parts[2]),
                _ => Err(Error::no_overload()),
            },
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Bind { name, value, body } => {
                let value = self.eval(value)?;
                self.within(name, value, body)
            }
            Kind::OptMap { name, target, body, flat } => match self.eval(target)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(value)) => {
                    let result = self.within(name, (*value).clone(), body)?;
                    Ok(if *flat { result } else { Val::some(result) })
                }
                _ => Err(Error::no_overload()),
            },
        }
    }

    fn within(&mut self, name: &'a str, value: Val<'a>, body: &'a Expr) -> Result<'a> {
        self.variables.push((name, value));
        let result = self.eval(body);
        self.variables.pop();
        result
    }

    fn name(&mut self, name: &str) -> Result<'a> {
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        let ty = TYPE_NAMES.iter().find(|known| **known == name);
        ty.map(|ty| Val::Type(ty)).ok_or_else(|| Error::failed(format!("no such attribute(s): {name}")))
    }

    fn has(&mut self, operand: &'a Expr, field: &str) -> Result<'a> {
        match self.eval(operand)? {
            Val::Optional(None) => Ok(Val::Bool(false)),
            Val::Optional(Some(value)) => Ok(Val::Bool(value.field(field).is_some())),
            value if value.is_map() => Ok(Val::Bool(value.field(field).is_some())),
            _ => Err(Error::no_overload()),
        }
    }

    fn call(&mut self, call: &'a Call) -> Result<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.eval(arg)?);
        }
        let Some(function) = call.function else { return Err(Error::no_overload()) };
        self.meter.prepared.clone_from(&call.prepared);
        function.call(self.meter, &args)
    }

    /// What decides wins, even over errors before it.
    fn logic(&mut self, terms: &'a [Expr], decides: bool) -> Result<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(Error::no_overload())),
                Err(Error::TooExpensive) => return Err(Error::TooExpensive),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Val::Bool(!decides)), Err)
    }

    fn list(&mut self, items: &'a [(Expr, bool)]) -> Result<'a> {
        self.meter.pay(10)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Val::Optional(value), true) => list.extend(value.map(|value| (*value).clone())),
                (value, _) => list.push(value),
            }
        }
        Ok(Val::list(list))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr, bool)]) -> Result<'a> {
        self.meter.pay(30)?;
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.eval(key)?.to_key().ok_or_else(|| Error::failed("unsupported key type"))?;
            let value = match (self.eval(value)?, optional) {
                (Val::Optional(None), true) => continue,
                (Val::Optional(Some(value)), true) => (*value).clone(),
                (value, _) => value,
            };
            insert(&mut map, key, value)?;
        }
        Ok(Val::Map(Arc::new(map)))
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<'a> {
        let range = self.eval(&fold.range)?;
        let keys = if range.is_map() { Some(range.keys()) } else { None };
        let Some(count) = keys.as_ref().map(Vec::len).or_else(|| range.list_len()) else {
            return Err(Error::no_overload());
        };
        self.meter.pay(keys.as_ref().map_or(0, Vec::len) as u64)?;
        let mut folded = Folded::default();
        for index in 0..count {
            self.meter.pay(1)?;
            let (key, value) = match &keys {
                Some(keys) => (keys[index].clone().into(), range.entry(&keys[index]).unwrap_or(Val::Null)),
                None => (Val::Int(index as i64), range.item(index).unwrap_or(Val::Null)),
            };
            let before = self.variables.len();
            let item = if keys.is_some() { key.clone() } else { value.clone() };
            match &fold.names {
                (first, None) => self.variables.push((first, item.clone())),
                (first, Some(second)) => {
                    self.variables.extend([(first.as_str(), key.clone()), (second.as_str(), value)])
                }
            }
            let step = self.step(fold, item, key, &mut folded);
            self.variables.truncate(before);
            if step? {
                break;
            }
        }
        folded.result(fold.kind)
    }

    /// One item; true when the others cannot change the result.
    fn step(
        &mut self,
        fold: &'a Fold,
        item: Val<'a>,
        key: Val<'a>,
        folded: &mut Folded<'a>,
    ) -> std::result::Result<bool, Error> {
        if let Some(filter) = &fold.filter {
            match self.eval(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(false),
                _ => return Err(Error::no_overload()),
            }
        }
        let value = match (self.eval(&fold.body), fold.kind) {
            (Err(Error::TooExpensive), _) => return Err(Error::TooExpensive),
            (Err(error), FoldKind::All | FoldKind::Exists) => {
                folded.failed.get_or_insert(error);
                return Ok(false);
            }
            (value, _) => value?,
        };
        match (fold.kind, value) {
            (FoldKind::All | FoldKind::Exists, Val::Bool(value)) => {
                folded.decided = value == (fold.kind == FoldKind::Exists);
                return Ok(folded.decided);
            }
            (FoldKind::ExistsOne, Val::Bool(value)) => folded.count += usize::from(value),
            (FoldKind::Filter, Val::Bool(value)) => folded.list.extend(value.then_some(item)),
            (FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter, _) => {
                return Err(Error::no_overload());
            }
            (FoldKind::ToList, value) => folded.list.push(value),
            (FoldKind::ToMap, value) => {
                let key = key.to_key().ok_or_else(Error::no_overload)?;
                insert(&mut folded.map, key, value)?;
            }
            (FoldKind::ToEntries, value) => {
                for key in value.keys() {
                    self.meter.pay(1)?;
                    let entry = value.entry(&key).unwrap_or(Val::Null);
                    insert(&mut folded.map, key, entry)?;
                }
            }
        }
        Ok(false)
    }
}

/// What a fold has come to.
#[derive(Default)]
struct Folded<'a> {
    decided: bool,
    failed: Option<Error>,
    count: usize,
    list: Vec<Val<'a>>,
    map: BTreeMap<Key, Val<'a>>,
}

impl<'a> Folded<'a> {
    fn result(self, kind: FoldKind) -> Result<'a> {
        match (kind, self.failed) {
            (FoldKind::All | FoldKind::Exists, Some(error)) if !self.decided => Err(error),
            (FoldKind::All, _) => Ok(Val::Bool(!self.decided)),
            (FoldKind::Exists, _) => Ok(Val::Bool(self.decided)),
            (FoldKind::ExistsOne, _) => Ok(Val::Bool(self.count == 1)),
            (FoldKind::Filter | FoldKind::ToList, _) => Ok(Val::list(self.list)),
            (FoldKind::ToMap | FoldKind::ToEntries, _) => Ok(Val::Map(Arc::new(self.map))),
        }
    }
}

fn insert<'a>(map: &mut BTreeMap<Key, Val<'a>>, key: Key, value: Val<'a>) -> std::result::Result<(), Error> {
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => Err(Error::failed("insert failed: key already exists")),
    }
}

fn constant(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::Text(text) => Val::Text(Text::Ref(text)),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

fn as_optional(value: Option<Val<'_>>) -> Val<'_> {
    value.map_or(Val::Optional(None), Val::some)
}

fn select<'a>(operand: Val<'a>, field: &str, optional: bool) -> Result<'a> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => Ok(as_optional(value.field(field))),
        value if value.is_map() && optional => Ok(as_optional(value.field(field))),
        value if value.is_map() => value.field(field).ok_or_else(|| Error::failed(format!("no such key: {field}"))),
        _ => Err(Error::no_overload()),
    }
}

fn at_index<'a>(operand: Val<'a>, index: &Val<'a>, optional: bool) -> Result<'a> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => at_index((*value).clone(), index, true),
        value if value.is_map() => {
            let entry = index.to_key().and_then(|key| value.entry(&key));
            if optional {
                return Ok(as_optional(entry));
            }
            let shown = || super::functions::shown(index).unwrap_or_default();
            entry.ok_or_else(|| Error::failed(format!("no such key: {}", shown())))
        }
        value if value.list_len().is_some() => {
            let Some(Key::Int(at)) = index.to_key() else { return Err(Error::no_overload()) };
            let item = usize::try_from(at).ok().and_then(|at| value.item(at));
            if optional {
                return Ok(as_optional(item));
            }
            item.ok_or_else(|| Error::failed(format!("index out of bounds: {at}")))
        }
        _ => Err(Error::no_overload()),
    }
}
