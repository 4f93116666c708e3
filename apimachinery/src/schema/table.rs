//! Decides how the schema tables are read and held: a text file, one line a type, one line a field, becomes a few flat
//! vectors that point back into the text. It never allocates per name: 4,000 fields cost about 200 KB.
//!
//! ```text
//! T core.v1.ServiceSpec [kind=group/version/Kind]… [atomic] [open]      a struct; `open` keeps unknown fields
//!  ports []@core.v1.ServicePort ! map=port,protocol patch=merge key=port #1
//!  │     │                      │ │              │           │         └ protobuf number; 2.16 = inside an inlined struct
//!  │     │                      │ │              │           └ merge key of a strategic patch
//!  │     │                      │ │              └ strategic patch: merge, replace, retainKeys
//!  │     │                      │ └ list rule: map=keys, set, atomic (the last also for maps)
//!  │     │                      └ required;  `*` = optional, and a zero differs from absent
//!  │     └ [] list of, {} map of, @ a struct, else a word of `Shape`
//!  └ name, sorted within the struct
//! ```

use super::types::{ListType, PatchStrategy, Shape, Type};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

const BUILT_IN: &str = concat!(include_str!("tables/kubernetes-1.35.txt"), include_str!("tables/gantry.txt"));

/// Where references without `@io.k8s.` start; a table may leave out the longest of these.
const PREFIXES: [(&str, &str); 2] = [("meta.", "io.k8s.apimachinery.pkg.apis."), ("", "io.k8s.api.")];

/// A piece of the table's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub at: u32,
    pub len: u16,
}

/// A type expression; lists and maps carry their rules, so one field's list differs from another's.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    Leaf(Shape),
    Object(u32),
    List { items: u32, list: ListType, keys: Span },
    Map { value: u32, atomic: bool },
}

#[derive(Debug, Clone)]
pub(super) struct ObjectDef {
    pub name: Span,
    pub fields: (u32, u32),
    pub atomic: bool,
    pub open: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FieldDef {
    pub name: Span,
    pub node: u32,
    pub required: bool,
    pub keeps_zero: bool,
    pub atomic: bool,
    pub patch: PatchStrategy,
    pub merge_key: Span,
    pub default: Span,
    pub proto: [u16; 3],
}

/// Every type of one table. `Type` and `Field` are cheap handles into it.
#[derive(Debug)]
pub struct Schema {
    pub(super) text: Cow<'static, str>,
    /// Whether names are short forms of the official ones, as in the committed tables.
    pub(super) abbreviates: bool,
    pub(super) objects: Vec<ObjectDef>,
    pub(super) fields: Vec<FieldDef>,
    pub(super) nodes: Vec<Node>,
    /// Sorted by kind path, `group/version/Kind`.
    pub(super) kinds: Vec<(Span, u32)>,
    /// Sorted by short name.
    pub(super) names: Vec<(Span, u32)>,
}

/// A table that does not follow its format; a programming error for the built-in ones.
#[derive(Debug, thiserror::Error)]
#[error("schema table, line {line}: {what}")]
pub struct TableError {
    pub line: usize,
    pub what: String,
}

impl Schema {
    /// The built-in kinds, read once per process (about 2 ms).
    pub fn builtin() -> &'static Schema {
        static BUILTIN: OnceLock<Schema> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            Schema::parse(Cow::Borrowed(BUILT_IN)).expect("a test reads every line of the committed tables")
        })
    }

    pub fn parse(text: Cow<'static, str>) -> Result<Schema, TableError> {
        let mut reader = Reader { text: &text, ids: HashMap::new(), schema: Schema::empty() };
        for line in text.lines().filter_map(|l| l.strip_prefix("T ")) {
            let name = line.split(' ').next().unwrap_or_default();
            let id = reader.ids.len() as u32;
            reader.ids.insert(name, id);
        }
        for (number, line) in text.lines().enumerate() {
            reader.line(line).map_err(|what| TableError { line: number + 1, what })?;
        }
        let mut schema = reader.schema;
        schema.text = text;
        let (mut kinds, mut names) = (std::mem::take(&mut schema.kinds), std::mem::take(&mut schema.names));
        kinds.sort_by_key(|(span, _)| schema.str(*span));
        names.sort_by_key(|(span, _)| schema.str(*span));
        (schema.kinds, schema.names) = (kinds, names);
        Ok(schema)
    }

    pub(super) fn empty() -> Schema {
        let leaves = Shape::WORDS.iter().map(|(_, shape)| Node::Leaf(*shape)).collect();
        Schema {
            text: Cow::Borrowed(""),
            abbreviates: true,
            objects: vec![],
            fields: vec![],
            nodes: leaves,
            kinds: vec![],
            names: vec![],
        }
    }

    /// The type of a kind (`group` is empty for the core group).
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Type<'_>> {
        self.find(&self.kinds, &format!("{group}/{version}/{kind}"))
    }

    /// The type with this official name, such as `io.k8s.api.core.v1.PodSpec`, or the table's short form of it.
    pub fn named(&self, name: &str) -> Option<Type<'_>> {
        let short = PREFIXES.iter().find_map(|(short, long)| {
            let rest = name.strip_prefix(long)?;
            rest.starts_with(short).then_some(rest)
        });
        self.find(&self.names, short.unwrap_or(name))
    }

    /// All structs, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = Type<'_>> {
        self.names.iter().map(|(_, object)| self.object_type(*object))
    }

    /// Every (`group/version/Kind`, type), sorted.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, Type<'_>)> {
        self.kinds.iter().map(|(span, object)| (self.str(*span), self.object_type(*object)))
    }

    /// A digest of the whole table, for caches of what is made from it.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    fn find(&self, index: &[(Span, u32)], key: &str) -> Option<Type<'_>> {
        let at = index.binary_search_by(|(span, _)| self.str(*span).cmp(key)).ok()?;
        Some(self.object_type(index[at].1))
    }

    fn object_type(&self, object: u32) -> Type<'_> {
        // Each struct's node is pushed together with the struct, right after the leaves: see `Reader::start_type`.
        Type::new(self, Shape::WORDS.len() as u32 + object)
    }

    pub(super) fn str(&self, span: Span) -> &str {
        &self.text[span.at as usize..span.at as usize + usize::from(span.len)]
    }
}

/// The official name of a type that the table calls `short`.
pub(super) fn official_name(short: &str) -> String {
    if short.starts_with("io.k8s.") || short.starts_with("gantry.dev.") {
        return short.to_string();
    }
    let (_, long) = PREFIXES.iter().find(|(start, _)| short.starts_with(start)).unwrap_or(&PREFIXES[1]);
    format!("{long}{short}")
}

struct Reader<'t> {
    text: &'t str,
    ids: HashMap<&'t str, u32>,
    schema: Schema,
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: &'t str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("T ") {
            self.start_type(rest)
        } else if let Some(rest) = line.strip_prefix(' ') {
            self.field(rest)
        } else if line.is_empty() || line.starts_with('#') {
            Ok(())
        } else {
            Err(format!("neither a type nor a field: {line}"))
        }
    }

    fn start_type(&mut self, rest: &'t str) -> Result<(), String> {
        if self.schema.objects.is_empty() {
            let count = self.ids.len() as u32;
            self.schema.nodes.extend((0..count).map(Node::Object));
        }
        let mut words = rest.split(' ');
        let name = self.span(words.next().unwrap_or_default());
        let id = self.schema.objects.len() as u32;
        let first = self.schema.fields.len() as u32;
        let mut object = ObjectDef { name, fields: (first, first), atomic: false, open: false };
        for word in words {
            match word.split_once('=') {
                Some(("kind", path)) => {
                    let path = self.span(path);
                    self.schema.kinds.push((path, id));
                }
                None if word == "atomic" => object.atomic = true,
                None if word == "open" => object.open = true,
                _ => return Err(format!("unknown word {word}")),
            }
        }
        self.schema.names.push((name, id));
        self.schema.objects.push(object);
        Ok(())
    }

    fn field(&mut self, rest: &'t str) -> Result<(), String> {
        let mut words = rest.split(' ');
        let name = words.next().ok_or("no field name")?;
        let expression = words.next().ok_or("no field type")?;
        let mut field = FieldDef { name: self.span(name), ..FieldDef::default() };
        let (mut list, mut keys) = (ListType::Atomic, Span::default());
        for word in words {
            match word.split_once('=') {
                Some(("map", names)) => (list, keys) = (ListType::Map, self.span(names)),
                Some(("patch", strategy)) => field.patch = PatchStrategy::parse(strategy)?,
                Some(("key", key)) => field.merge_key = self.span(key),
                Some(("default", value)) => field.default = self.span(value),
                None if word == "!" => field.required = true,
                None if word == "*" => field.keeps_zero = true,
                None if word == "set" => list = ListType::Set,
                None if word == "atomic" => field.atomic = true,
                None if word.starts_with('#') => field.proto = proto_path(&word[1..])?,
                _ => return Err(format!("unknown word {word}")),
            }
        }
        field.node = self.node(expression, list, keys, field.atomic)?;
        self.schema.fields.push(field);
        let object = self.schema.objects.last_mut().ok_or("a field before any type")?;
        object.fields.1 += 1;
        Ok(())
    }

    fn node(&mut self, expression: &'t str, list: ListType, keys: Span, atomic: bool) -> Result<u32, String> {
        let leaves = Shape::WORDS.len() as u32;
        let node = if let Some(items) = expression.strip_prefix("[]") {
            Node::List { items: self.node(items, ListType::Atomic, Span::default(), false)?, list, keys }
        } else if let Some(value) = expression.strip_prefix("{}") {
            Node::Map { value: self.node(value, ListType::Atomic, Span::default(), false)?, atomic }
        } else if let Some(name) = expression.strip_prefix('@') {
            return self.ids.get(name).map(|id| leaves + id).ok_or_else(|| format!("no type {name}"));
        } else {
            let leaf = Shape::WORDS.iter().position(|(word, _)| *word == expression);
            return leaf.map(|at| at as u32).ok_or_else(|| format!("unknown type {expression}"));
        };
        self.schema.nodes.push(node);
        Ok(self.schema.nodes.len() as u32 - 1)
    }

    fn span(&self, part: &'t str) -> Span {
        let at = part.as_ptr() as usize - self.text.as_ptr() as usize;
        Span { at: at as u32, len: part.len() as u16 }
    }
}

fn proto_path(word: &str) -> Result<[u16; 3], String> {
    let mut path = [0; 3];
    for (depth, number) in word.split('.').enumerate() {
        let slot = path.get_mut(depth).ok_or("a protobuf path has at most three numbers")?;
        *slot = number.parse().map_err(|_| format!("not a protobuf number: {number}"))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_committed_line_is_understood() {
        let schema = Schema::builtin();
        assert!(schema.objects.len() > 700 && schema.fields.len() > 2900);
    }

    #[test]
    fn fields_are_sorted_in_every_type() {
        for ty in Schema::builtin().types() {
            let names: Vec<&str> = ty.fields().map(|f| f.name()).collect();
            assert!(names.is_sorted(), "{}", ty.name());
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = Schema::parse(Cow::Borrowed("T a.B\n x nothing\n")).expect_err("unknown type");
        assert_eq!(error.to_string(), "schema table, line 2: unknown type nothing");
    }
}
