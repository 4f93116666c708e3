//! The types of CEL and how large values of them may be. It decides which types fit where, and how a JSON value is seen
//! through a type.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// What a size is where nothing bounds it: as much as a request holds.
pub const MAX_SIZE: u64 = 3 << 20;

#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Decl>),
    /// Key and value.
    Map(Arc<Type>, Arc<Decl>),
    Object(Arc<ObjectType>),
    Optional(Arc<Decl>),
    /// The type of types.
    Type,
    /// A type of Kubernetes' library, such as `quantity`.
    Named(&'static str),
    /// Stands for any one type in a function's signature.
    Param(char),
}

/// A type, and the largest size that its values may have: characters, items or entries.
#[derive(Debug, Clone)]
pub struct Decl {
    pub ty: Type,
    pub max: u64,
    /// Of a list whose items differ: their order does not matter.
    pub unordered: bool,
}

/// Sizes are no part of a type.
impl PartialEq for Decl {
    fn eq(&self, other: &Decl) -> bool {
        self.ty == other.ty
    }
}

/// A type with named fields.
#[derive(Debug)]
pub struct ObjectType {
    /// No other type has it.
    pub name: String,
    /// By the name that expressions use.
    pub fields: BTreeMap<String, FieldDecl>,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.name == other.name
    }
}

#[derive(Debug)]
pub struct FieldDecl {
    /// The name in JSON.
    pub json: String,
    pub decl: Decl,
}

impl Decl {
    pub fn new(ty: Type, max: u64) -> Decl {
        Decl { ty, max, unordered: false }
    }

    /// A value without a size of its own, or with any.
    pub fn of(ty: Type) -> Decl {
        let max = match ty {
            Type::Dyn | Type::String | Type::Bytes | Type::List(_) | Type::Map(..) => MAX_SIZE,
            _ => 1,
        };
        Decl::new(ty, max)
    }

    /// Arbitrary JSON.
    pub fn dynamic() -> &'static Decl {
        static DYN: LazyLock<Decl> = LazyLock::new(|| Decl::of(Type::Dyn));
        &DYN
    }

    pub fn list(items: Decl, max: u64) -> Decl {
        Decl::new(Type::List(Arc::new(items)), max)
    }

    pub fn map(values: Decl, max: u64) -> Decl {
        Decl::new(Type::Map(Arc::new(Type::String), Arc::new(values)), max)
    }

    pub fn optional(value: Decl) -> Decl {
        Decl::new(Type::Optional(Arc::new(value.clone())), value.max)
    }
}

impl Type {
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    /// Whether a value of this type may stand where `wanted` is; `bound` holds what the signature's parameters are so far.
    pub fn fits(&self, wanted: &Type, bound: &mut BTreeMap<char, Type>) -> bool {
        match (self, wanted) {
            (_, Type::Param(name)) => match bound.get(name).cloned() {
                Some(Type::Dyn) | None => {
                    bound.insert(*name, self.clone());
                    true
                }
                Some(known) => self.fits(&known, bound),
            },
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.ty.fits(&b.ty, bound),
            (Type::Map(k, v), Type::Map(l, w)) => k.fits(l, bound) && v.ty.fits(&w.ty, bound),
            // JSON objects are maps to those who do not know their fields.
            (Type::Object(_), Type::Map(l, w)) => Type::String.fits(l, bound) && Type::Dyn.fits(&w.ty, bound),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (a, b) => a == b,
        }
    }

    /// Whether values of this type may also be null.
    fn is_nullable(&self) -> bool {
        true
    }

    /// The type with its parameters replaced; those that nothing bound are dynamic.
    pub fn with(&self, bound: &BTreeMap<char, Type>) -> Type {
        let decl = |decl: &Decl| Arc::new(Decl::new(decl.ty.with(bound), decl.max));
        match self {
            Type::Param(name) => bound.get(name).cloned().unwrap_or(Type::Dyn),
            Type::List(items) => Type::List(decl(items)),
            Type::Optional(value) => Type::Optional(decl(value)),
            Type::Map(key, value) => Type::Map(Arc::new(key.with(bound)), decl(value)),
            other => other.clone(),
        }
    }

    /// Reads a signature's type: `list(A)`, `map(string, dyn)`, `quantity`.
    pub fn read(text: &str) -> Type {
        let inside =
            |name: &str| text.strip_prefix(name).and_then(|t| t.strip_prefix('(')).and_then(|t| t.strip_suffix(')'));
        if let Some(items) = inside("list") {
            return Type::List(Arc::new(Decl::of(Type::read(items))));
        }
        if let Some(value) = inside("optional") {
            return Type::Optional(Arc::new(Decl::of(Type::read(value))));
        }
        if let Some((key, value)) = inside("map").and_then(|t| t.split_once(", ")) {
            return Type::Map(Arc::new(Type::read(key)), Arc::new(Decl::of(Type::read(value))));
        }
        match text {
            "dyn" => Type::Dyn,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "type" => Type::Type,
            "A" | "B" => Type::Param(text.chars().next().unwrap_or('A')),
            other => {
                let named = NAMED.iter().find(|name| **name == other);
                Type::Named(named.copied().unwrap_or("error"))
            }
        }
    }
}

/// The types of Kubernetes' library.
const NAMED: [&str; 6] = ["quantity", "url", "ip", "cidr", "semver", "format"];

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(items) => write!(f, "list({})", items.ty),
            Type::Map(key, value) => write!(f, "map({key}, {})", value.ty),
            Type::Object(object) => f.write_str(&object.name),
            Type::Optional(value) => write!(f, "optional_type({})", value.ty),
            Type::Type => f.write_str("type"),
            Type::Named(name) => write!(f, "kubernetes.{}", title(name)),
            Type::Param(name) => write!(f, "{name}"),
        }
    }
}

fn title(name: &str) -> String {
    match name {
        "ip" | "cidr" => format!("net.{}", name.to_uppercase()),
        "url" => "URL".to_owned(),
        other => other[..1].to_uppercase() + &other[1..],
    }
}
