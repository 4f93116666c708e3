//! Decides how a table is made in memory, for kinds that are only known at run time. It takes what it is told; it never
//! looks at a custom resource.

use super::table::{FieldDef, Node, ObjectDef, Schema, Span};
use super::types::{ListType, Shape, Type};
use std::borrow::Cow;
use std::collections::HashMap;

/// A type that a builder made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built(u32);

/// A field of a struct to be built.
#[derive(Debug, Clone)]
pub struct Member<'n> {
    pub name: &'n str,
    pub ty: Built,
    pub required: bool,
    /// The JSON that stands for an absent key of a list map; empty if there is none.
    pub default: &'n str,
}

/// Makes a `Schema` from the inside out: a type exists before what contains it.
pub struct Builder {
    text: String,
    schema: Schema,
    /// Lists and maps. They come after all structs in the table, so their places are only known at the end.
    others: Vec<Node>,
    imported: HashMap<String, Built>,
}

/// Marks the place of a list or map among `others`.
const OTHER: u32 = 1 << 31;

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    pub fn new() -> Builder {
        let schema = Schema { abbreviates: false, ..Schema::empty() };
        Builder { text: String::new(), schema, others: vec![], imported: HashMap::new() }
    }

    /// A scalar, or one of the shapes whose inside has no rules.
    pub fn leaf(&self, shape: Shape) -> Built {
        let place = Shape::WORDS.iter().position(|(_, word)| *word == shape);
        Built(place.unwrap_or_default() as u32)
    }

    pub fn list(&mut self, items: Built, list: ListType, keys: &[&str]) -> Built {
        let keys = self.span(&keys.join(","));
        self.other(Node::List { items: items.0, list, keys })
    }

    pub fn map(&mut self, value: Built, atomic: bool) -> Built {
        self.other(Node::Map { value: value.0, atomic })
    }

    /// A struct. Members whose names do not fit the table (64 KiB) are left out.
    pub fn object(&mut self, name: &str, mut members: Vec<Member<'_>>, atomic: bool, open: bool) -> Built {
        members.sort_by_key(|member| member.name);
        members.dedup_by_key(|member| member.name);
        let fields = members.into_iter().filter(|member| u16::try_from(member.name.len()).is_ok());
        let fields = fields.map(|member| FieldDef {
            name: self.span(member.name),
            node: member.ty.0,
            required: member.required,
            keeps_zero: true,
            default: self.span(member.default),
            ..FieldDef::default()
        });
        let fields = fields.collect();
        self.define(name, fields, atomic, open)
    }

    /// A type of another table, with all that it consists of.
    pub fn import(&mut self, ty: Type<'_>) -> Built {
        match ty.node() {
            Node::Leaf(shape) => self.leaf(shape),
            Node::List { list, .. } => {
                let items = self.import(ty.items().unwrap_or(Type::any()));
                let keys: Vec<&str> = ty.list_keys().collect();
                self.list(items, list, &keys)
            }
            Node::Map { atomic, .. } => {
                let value = self.import(ty.map_value().unwrap_or(Type::any()));
                self.map(value, atomic)
            }
            Node::Object(_) => self.import_object(ty),
        }
    }

    fn import_object(&mut self, ty: Type<'_>) -> Built {
        let name = ty.name();
        if let Some(known) = self.imported.get(&name) {
            return *known;
        }
        let mut fields = Vec::new();
        for field in ty.fields() {
            let node = self.import(field.ty()).0;
            fields.push(FieldDef {
                name: self.span(field.name()),
                node,
                merge_key: self.span(field.merge_key().unwrap_or_default()),
                default: self.span(&field.default_json().map(|json| json.to_string()).unwrap_or_default()),
                ..field.def.clone()
            });
        }
        let built = self.define(&name, fields, ty.is_atomic(), ty.is_preserve_unknown());
        self.imported.insert(name, built);
        built
    }

    fn define(&mut self, name: &str, fields: Vec<FieldDef>, atomic: bool, open: bool) -> Built {
        let id = self.schema.objects.len() as u32;
        let first = self.schema.fields.len() as u32;
        self.schema.fields.extend(fields);
        let name = self.span(name);
        let fields = (first, self.schema.fields.len() as u32);
        self.schema.objects.push(ObjectDef { name, fields, atomic, open });
        self.schema.names.push((name, id));
        Built(Shape::WORDS.len() as u32 + id)
    }

    /// The table, in which `root` is the type of `kind` (`group` is empty for the core group).
    pub fn finish(mut self, group: &str, version: &str, kind: &str, root: Built) -> Schema {
        let path = self.span(&format!("{group}/{version}/{kind}"));
        let leaves = Shape::WORDS.len() as u32;
        let objects = self.schema.objects.len() as u32;
        let place = |node: &mut u32| {
            if *node & OTHER != 0 {
                *node = leaves + objects + (*node & !OTHER);
            }
        };
        for node in &mut self.others {
            match node {
                Node::List { items, .. } => place(items),
                Node::Map { value, .. } => place(value),
                Node::Leaf(_) | Node::Object(_) => {}
            }
        }
        self.schema.fields.iter_mut().for_each(|field| place(&mut field.node));
        let mut schema = self.schema;
        schema.nodes.extend((0..objects).map(Node::Object));
        schema.nodes.extend(self.others);
        if let Some(Node::Object(object)) = schema.nodes.get(root.0 as usize) {
            schema.kinds.push((path, *object));
        }
        schema.text = Cow::Owned(self.text);
        let mut names = std::mem::take(&mut schema.names);
        names.sort_by_key(|(span, _)| schema.str(*span));
        schema.names = names;
        schema
    }

    fn other(&mut self, node: Node) -> Built {
        self.others.push(node);
        Built(OTHER | (self.others.len() as u32 - 1))
    }

    /// Keeps `part` in the table's text; what is too long for a span is as if it were empty.
    fn span(&mut self, part: &str) -> Span {
        let (Ok(at), Ok(len)) = (u32::try_from(self.text.len()), u16::try_from(part.len())) else {
            return Span::default();
        };
        self.text.push_str(part);
        Span { at, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_after_everything_has_its_place() {
        let mut builder = Builder::new();
        let meta = Schema::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").unwrap();
        let meta = builder.import(meta);
        let text = builder.leaf(Shape::String);
        let member = |name, ty| Member { name, ty, required: false, default: "" };
        let port = builder.object("Port", vec![member("port", text), member("name", text)], false, false);
        let ports = builder.list(port, ListType::Map, &["name", "port"]);
        let labels = builder.map(text, true);
        let root = vec![member("ports", ports), member("metadata", meta), member("labels", labels)];
        let root = builder.object("com.example.Root", root, false, true);
        let schema = builder.finish("example.com", "v1", "Root", root);

        let root = schema.kind("example.com", "v1", "Root").unwrap();
        assert_eq!((root.name().as_str(), root.is_preserve_unknown()), ("com.example.Root", true));
        let ports = root.member("ports").unwrap();
        assert_eq!(ports.list_keys().collect::<Vec<_>>(), ["name", "port"]);
        assert_eq!(ports.items().unwrap().fields().map(|f| f.name()).collect::<Vec<_>>(), ["name", "port"]);
        assert!(root.member("labels").unwrap().is_atomic());
        let owners = root.member("metadata").unwrap().field("ownerReferences").unwrap();
        assert_eq!((owners.merge_key(), owners.ty().list_type()), (Some("uid"), ListType::Map));
    }
}
