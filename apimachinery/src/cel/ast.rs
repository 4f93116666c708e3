//! What an expression consists of once it is read. It decides nothing.

use super::functions::Function;
use regex::Regex;
use std::sync::Arc;

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// An expression and where it stands: the offset in characters of what a message points at.
#[derive(Debug)]
pub(super) struct Expr {
    pub at: u32,
    /// How many expressions are inside one another, this one included.
    pub height: u32,
    pub kind: Kind,
}

impl Expr {
    pub fn new(at: u32, kind: Kind) -> Expr {
        let height = 1 + kind.children().map(|child| child.height).max().unwrap_or_default();
        Expr { at, height, kind }
    }

    pub fn call(at: u32, name: &str, args: Vec<Expr>) -> Expr {
        Expr::new(at, Kind::Call(Call { name: name.to_owned(), args, ..Call::default() }))
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Name(String),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// A function with its arguments, the receiver first. Whether it is known is found by the checker.
    Call(Call),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Choice(Box<[Expr; 3]>),
    /// Items; `true` for those that are left out when they are an empty optional.
    List(Vec<(Expr, bool)>),
    Map(Vec<(Expr, Expr, bool)>),
    Fold(Box<Fold>),
    /// `cel.bind(name, value, body)`
    Bind {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `target.optMap(name, body)`; `flat`: the body is an optional itself.
    OptMap {
        name: String,
        target: Box<Expr>,
        body: Box<Expr>,
        flat: bool,
    },
}

impl Kind {
    pub fn children(&self) -> Box<dyn Iterator<Item = &Expr> + '_> {
        match self {
            Kind::Literal(_) | Kind::Name(_) => Box::new(std::iter::empty()),
            Kind::Select { operand, .. } | Kind::Has { operand, .. } => Box::new(std::iter::once(&**operand)),
            Kind::Index { operand, index, .. } => Box::new([&**operand, &**index].into_iter()),
            Kind::Call(Call { args, .. }) | Kind::And(args) | Kind::Or(args) => Box::new(args.iter()),
            Kind::Choice(parts) => Box::new(parts.iter()),
            Kind::List(items) => Box::new(items.iter().map(|(item, _)| item)),
            Kind::Map(entries) => Box::new(entries.iter().flat_map(|(key, value, _)| [key, value])),
            Kind::Fold(fold) => Box::new([&fold.range, &fold.body].into_iter().chain(&fold.filter)),
            Kind::Bind { value, body, .. } => Box::new([&**value, &**body].into_iter()),
            Kind::OptMap { target, body, .. } => Box::new([&**target, &**body].into_iter()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Call {
    pub name: String,
    pub member: bool,
    pub function: Option<&'static Function>,
    /// The regular expression, where it is a literal.
    pub prepared: Option<Arc<Regex>>,
    /// The receiver first.
    pub args: Vec<Expr>,
}

/// What a macro does with the items of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map`, `transformList`
    ToList,
    /// `transformMap`
    ToMap,
    /// `transformMapEntry`
    ToEntries,
}

#[derive(Debug)]
pub(super) struct Fold {
    pub kind: FoldKind,
    /// With the second name, the first is the index or key.
    pub names: (String, Option<String>),
    pub range: Expr,
    pub filter: Option<Expr>,
    pub body: Expr,
}
