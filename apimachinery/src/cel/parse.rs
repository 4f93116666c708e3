//! How words become an expression: CEL's grammar and its macros. It decides structure; types and names are the checker's.

use super::ast::{Call, Expr, Fold, FoldKind, Kind, Literal};
use super::lex::{Fault, MARKS, Placed, Token, words};

/// How deeply brackets and signs may nest: reading them recurses.
const MAX_DEPTH: usize = 64;
/// How deeply expressions may lie inside one another: checking and running them recurse.
const MAX_HEIGHT: u32 = 150;
/// The longest expression, in characters.
const MAX_LENGTH: usize = 100_000;

/// Names that are not free for variables.
pub(crate) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Names that begin the name of a function, such as `sets.contains`.
const NAMESPACES: [&str; 7] = ["sets", "strings", "ip", "cidr", "format", "optional", "cel"];

pub(super) fn parse(text: &str) -> Result<Expr, Fault> {
    if text.chars().count() > MAX_LENGTH {
        return Err(Fault { at: 0, what: format!("expression code point size exceeds limit: {MAX_LENGTH}") });
    }
    let words = words(text)?;
    let mut parser = Parser { words: &words, at: 0, depth: 0 };
    let expr = parser.choice()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => parser.unexpected("<EOF>"),
    }
}

struct Parser<'w> {
    words: &'w [Placed],
    at: usize,
    depth: usize,
}

type Parsed = Result<Expr, Fault>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.words[self.at.min(self.words.len() - 1)].0
    }

    fn place(&self) -> u32 {
        self.words[self.at.min(self.words.len() - 1)].1
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = *self.peek() == Token::Mark(marked(mark));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.take(mark) { Ok(()) } else { self.unexpected(&format!("'{mark}'")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Fault> {
        let got = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Mark(mark) => format!("'{mark}'"),
            Token::Name(name) => format!("'{name}'"),
            Token::Literal(literal) => format!("{literal:?}"),
        };
        self.fault(self.place(), format!("Syntax error: mismatched input {got} expecting {wanted}"))
    }

    fn fault<T>(&self, at: u32, what: impl Into<String>) -> Result<T, Fault> {
        Err(Fault { at, what: what.into() })
    }

    fn node(&self, at: u32, kind: Kind) -> Parsed {
        self.checked(Expr::new(at, kind))
    }

    fn call(&self, at: u32, name: &str, args: Vec<Expr>) -> Parsed {
        self.checked(Expr::call(at, name, args))
    }

    /// Operators and members nest to the left without recursion here, but not later.
    fn checked(&self, expr: Expr) -> Parsed {
        if expr.height > MAX_HEIGHT {
            return self.fault(expr.at, format!("expression recursion limit exceeded: {MAX_HEIGHT}"));
        }
        Ok(expr)
    }

    /// Runs `inner` one level deeper.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fault(self.place(), format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn choice(&mut self) -> Parsed {
        self.deeper(|p| {
            let condition = p.or()?;
            let at = p.place();
            if !p.take("?") {
                return Ok(condition);
            }
            let yes = p.or()?;
            p.expect(":")?;
            let no = p.choice()?;
            p.node(at, Kind::Choice(Box::new([condition, yes, no])))
        })
    }

    fn or(&mut self) -> Parsed {
        let mut terms = vec![self.and()?];
        let at = self.place();
        while self.take("||") {
            terms.push(self.and()?);
        }
        self.one_or(at, terms, Kind::Or)
    }

    fn and(&mut self) -> Parsed {
        let mut terms = vec![self.relation()?];
        let at = self.place();
        while self.take("&&") {
            terms.push(self.relation()?);
        }
        self.one_or(at, terms, Kind::And)
    }

    fn relation(&mut self) -> Parsed {
        self.chain(&["<", "<=", ">=", ">", "==", "!=", "in"], Self::sum)
    }

    fn sum(&mut self) -> Parsed {
        self.chain(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Parsed {
        self.chain(&["*", "/", "%"], Self::unary)
    }

    /// Operators of one rank, from the left.
    fn chain(&mut self, marks: &[&'static str], next: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = next(self)?;
        loop {
            let at = self.place();
            let Some(mark) = marks.iter().find(|mark| self.take(mark)) else { return Ok(left) };
            let right = next(self)?;
            left = self.call(at, operator(mark), vec![left, right])?;
        }
    }

    fn one_or(&self, at: u32, mut terms: Vec<Expr>, make: fn(Vec<Expr>) -> Kind) -> Parsed {
        match terms.pop() {
            Some(only) if terms.is_empty() => Ok(only),
            Some(last) => {
                terms.push(last);
                self.node(at, make(terms))
            }
            None => self.unexpected("an expression"),
        }
    }

    fn unary(&mut self) -> Parsed {
        let at = self.place();
        if self.take("!") {
            return self.deeper(|p| {
                let operand = p.unary()?;
                p.call(at, "!_", vec![operand])
            });
        }
        if !self.take("-") {
            return self.member();
        }
        // A minus before a number belongs to it, unless something is done with the number.
        match self.peek() {
            Token::Literal(Literal::Int(value)) => {
                let value = value.wrapping_neg();
                self.at += 1;
                self.node(at, Kind::Literal(Literal::Int(value)))
            }
            Token::Literal(Literal::Double(value)) => {
                let value = -value;
                self.at += 1;
                self.node(at, Kind::Literal(Literal::Double(value)))
            }
            _ => self.deeper(|p| {
                let operand = p.unary()?;
                p.call(at, "-_", vec![operand])
            }),
        }
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let at = self.place();
            if self.take(".") {
                let optional = self.take("?");
                let Token::Name(name) = self.peek().clone() else { return self.unexpected("IDENTIFIER") };
                self.at += 1;
                expr = if !optional && self.take("(") {
                    self.method(expr, name, at)?
                } else {
                    self.node(at, Kind::Select { operand: Box::new(expr), field: name, optional })?
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let index = Box::new(self.choice()?);
                self.expect("]")?;
                expr = self.node(at, Kind::Index { operand: Box::new(expr), index, optional })?;
            } else {
                break;
            }
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Parsed {
        let at = self.place();
        match self.peek().clone() {
            Token::Literal(Literal::Int(i64::MIN)) => self.fault(at, "invalid int literal"),
            Token::Literal(literal) => {
                self.at += 1;
                self.node(at, Kind::Literal(literal))
            }
            Token::Name(name) => {
                self.at += 1;
                self.named(name, at)
            }
            Token::Mark("(") => {
                self.at += 1;
                let expr = self.choice()?;
                self.expect(")")?;
                Ok(expr)
            }
            Token::Mark("[") => {
                self.at += 1;
                self.list(at)
            }
            Token::Mark("{") => {
                self.at += 1;
                self.map(at)
            }
            Token::Mark(".") => {
                self.at += 1;
                self.primary()
            }
            _ => self.unexpected("an expression"),
        }
    }

    fn named(&mut self, name: String, at: u32) -> Parsed {
        if RESERVED.contains(&name.as_str()) {
            return self.fault(at, format!("reserved identifier: {name}"));
        }
        if !self.take("(") {
            return self.node(at, Kind::Name(name));
        }
        let mut args = self.arguments()?;
        if name == "has" {
            return match args.pop().map(|arg| arg.kind) {
                Some(Kind::Select { operand, field, optional: false }) if args.is_empty() => {
                    self.node(at, Kind::Has { operand, field })
                }
                _ => self.fault(at, "invalid argument to has() macro"),
            };
        }
        self.call(at, &name, args)
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Fault> {
        let mut args = Vec::new();
        while !self.take(")") {
            args.push(self.choice()?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(args)
    }

    fn list(&mut self, at: u32) -> Parsed {
        let mut items = Vec::new();
        while !self.take("]") {
            let optional = self.take("?");
            items.push((self.choice()?, optional));
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        self.node(at, Kind::List(items))
    }

    fn map(&mut self, at: u32) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.choice()?;
            self.expect(":")?;
            entries.push((key, self.choice()?, optional));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        self.node(at, Kind::Map(entries))
    }

    /// `target.name(…)`: a macro, a function with a namespace, or one with a receiver.
    fn method(&mut self, target: Expr, name: String, at: u32) -> Parsed {
        let mut args = self.arguments()?;
        if let Kind::Name(space) = &target.kind
            && NAMESPACES.contains(&space.as_str())
        {
            let full = format!("{space}.{name}");
            if full == "cel.bind" {
                return self.bind(args, at);
            }
            if super::functions::is_known(&full) {
                return self.call(at, &full, args);
            }
        }
        if let Some(kind) = fold_kind(&name, args.len()) {
            return self.fold(kind, &name, target, args, at);
        }
        if ["optMap", "optFlatMap"].contains(&name.as_str()) && args.len() == 2 {
            let Some(body) = args.pop().map(Box::new) else { return self.unexpected("an expression") };
            let variable = self.variable(args.pop(), at)?;
            let (target, flat) = (Box::new(target), name == "optFlatMap");
            return self.node(at, Kind::OptMap { name: variable, target, body, flat });
        }
        args.insert(0, target);
        self.node(at, Kind::Call(Call { name, member: true, args, ..Call::default() }))
    }

    fn bind(&mut self, args: Vec<Expr>, at: u32) -> Parsed {
        let Ok([name, value, body]) = <[Expr; 3]>::try_from(args) else {
            return self.fault(at, "cel.bind() takes a variable, a value and a result");
        };
        let name = self.variable(Some(name), at)?;
        self.node(at, Kind::Bind { name, value: Box::new(value), body: Box::new(body) })
    }

    fn variable(&self, expr: Option<Expr>, at: u32) -> Result<String, Fault> {
        match expr.map(|expr| expr.kind) {
            Some(Kind::Name(name)) => Ok(name),
            _ => self.fault(at, "argument must be a simple name"),
        }
    }

    fn fold(&mut self, kind: FoldKind, name: &str, range: Expr, args: Vec<Expr>, at: u32) -> Parsed {
        let count = args.len();
        let mut args = args.into_iter();
        let first = self.variable(args.next(), at)?;
        let two = name.starts_with("transform") || (count == 3 && name != "map");
        let second = if two { Some(self.variable(args.next(), at)?) } else { None };
        let mut rest: Vec<Expr> = args.collect();
        let Some(body) = rest.pop() else { return self.fault(at, format!("{name}() misses an argument")) };
        let fold = Fold { kind, names: (first, second), range, filter: rest.pop(), body };
        self.node(at, Kind::Fold(Box::new(fold)))
    }
}

/// The macro of this name that takes so many arguments.
fn fold_kind(name: &str, args: usize) -> Option<FoldKind> {
    match (name, args) {
        ("all", 2 | 3) => Some(FoldKind::All),
        ("exists", 2 | 3) => Some(FoldKind::Exists),
        ("exists_one", 2) | ("existsOne", 2 | 3) => Some(FoldKind::ExistsOne),
        ("filter", 2) => Some(FoldKind::Filter),
        ("map", 2 | 3) | ("transformList", 3 | 4) => Some(FoldKind::ToList),
        ("transformMap", 3 | 4) => Some(FoldKind::ToMap),
        ("transformMapEntry", 3 | 4) => Some(FoldKind::ToEntries),
        _ => None,
    }
}

fn marked(mark: &str) -> &'static str {
    if mark == "in" { "in" } else { MARKS.iter().find(|known| **known == mark).copied().unwrap_or("") }
}

fn operator(mark: &str) -> &'static str {
    match mark {
        "<" => "_<_",
        "<=" => "_<=_",
        ">=" => "_>=_",
        ">" => "_>_",
        "==" => "_==_",
        "!=" => "_!=_",
        "in" => "@in",
        "+" => "_+_",
        "-" => "_-_",
        "*" => "_*_",
        "/" => "_/_",
        _ => "_%_",
    }
}
