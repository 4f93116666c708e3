//! Decides how the schema is asked: `Type` and `Field` are copyable handles that patches, server-side apply, decoding,
//! OpenAPI and protobuf walk. They never change the schema.

use super::table::{FieldDef, Node, ObjectDef, Schema, official_name};

/// What a value looks like in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 text.
    Bytes,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339 with six digits of a second.
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON, kept as it is.
    Any,
    /// Any JSON object, kept as it is (`runtime.RawExtension`).
    Raw,
    /// The `fieldsV1` of managed fields.
    Fields,
    /// A JSON schema, or a list of them.
    SchemaOrList,
    SchemaOrBool,
    SchemaOrStrings,
    Object,
    List,
    Map,
}

impl Shape {
    /// The words of the table's format.
    pub(super) const WORDS: [(&'static str, Shape); 16] = [
        ("string", Shape::String),
        ("bool", Shape::Bool),
        ("int32", Shape::Int32),
        ("int64", Shape::Int64),
        ("double", Shape::Double),
        ("bytes", Shape::Bytes),
        ("time", Shape::Time),
        ("microtime", Shape::MicroTime),
        ("quantity", Shape::Quantity),
        ("intstr", Shape::IntOrString),
        ("any", Shape::Any),
        ("raw", Shape::Raw),
        ("fields", Shape::Fields),
        ("props|list", Shape::SchemaOrList),
        ("props|bool", Shape::SchemaOrBool),
        ("props|strings", Shape::SchemaOrStrings),
    ];
}

/// How server-side apply treats a list: as one value, as a set of scalars, or as entries told apart by keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge a list by its merge key (or as a set of scalars) instead of replacing it.
    pub merge: bool,
    /// Drop the keys that the patch's `$retainKeys` does not list.
    pub retain_keys: bool,
    /// Replace a struct or map as a whole.
    pub replace: bool,
}

impl PatchStrategy {
    pub(super) fn parse(words: &str) -> Result<PatchStrategy, String> {
        let mut strategy = PatchStrategy::default();
        for word in words.split(',') {
            match word {
                "merge" => strategy.merge = true,
                "retainKeys" => strategy.retain_keys = true,
                "replace" => strategy.replace = true,
                _ => return Err(format!("unknown patch strategy {word}")),
            }
        }
        Ok(strategy)
    }
}

impl std::fmt::Display for PatchStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [(self.merge, "merge"), (self.retain_keys, "retainKeys"), (self.replace, "replace")];
        let words: Vec<&str> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
        f.write_str(&words.join(","))
    }
}

/// A handle to a type: a struct, a list, a map or a leaf.
#[derive(Clone, Copy)]
pub struct Type<'a> {
    schema: &'a Schema,
    node: u32,
}

impl<'a> Type<'a> {
    pub(super) fn new(schema: &'a Schema, node: u32) -> Type<'a> {
        Type { schema, node }
    }

    /// The type of arbitrary JSON: everything is known, nothing is pruned, lists and maps are plain.
    pub fn any() -> Type<'static> {
        let any = Shape::WORDS.iter().position(|(_, shape)| *shape == Shape::Any).unwrap_or_default();
        Type::new(Schema::builtin(), any as u32)
    }

    pub(super) fn node(&self) -> Node {
        self.schema.nodes[self.node as usize]
    }

    pub fn shape(&self) -> Shape {
        match self.node() {
            Node::Leaf(shape) => shape,
            Node::Object(_) => Shape::Object,
            Node::List { .. } => Shape::List,
            Node::Map { .. } => Shape::Map,
        }
    }

    pub(super) fn object(&self) -> Option<&'a ObjectDef> {
        match self.node() {
            Node::Object(object) => Some(&self.schema.objects[object as usize]),
            _ => None,
        }
    }

    pub fn is_object(&self) -> bool {
        self.object().is_some()
    }

    /// The struct's official name, such as `io.k8s.api.core.v1.PodSpec`; empty for other shapes.
    pub fn name(&self) -> String {
        self.object().map_or_else(String::new, |object| match self.schema.abbreviates {
            true => official_name(self.schema.str(object.name)),
            false => self.schema.str(object.name).to_owned(),
        })
    }

    /// The struct's last name, such as `PodSpec`; empty for other shapes.
    pub fn short_name(&self) -> &'a str {
        let name = self.object().map_or("", |object| self.schema.str(object.name));
        name.rsplit('.').next().unwrap_or_default()
    }

    /// The (group, version, kind)s that this struct is; none for other types.
    pub fn kinds(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> + use<'a> {
        let node = self.node;
        self.schema.kinds().filter(move |(_, ty)| ty.node == node).filter_map(|(path, _)| {
            let (group, rest) = path.split_once('/')?;
            let (version, kind) = rest.split_once('/')?;
            Some((group, version, kind))
        })
    }

    /// A struct's field by its JSON name (case matters).
    pub fn field(&self, name: &str) -> Option<Field<'a>> {
        let object = self.object()?;
        let fields = &self.schema.fields[object.fields.0 as usize..object.fields.1 as usize];
        let at = fields.binary_search_by(|field| self.schema.str(field.name).cmp(name)).ok()?;
        Some(Field { schema: self.schema, def: &fields[at] })
    }

    /// A struct's fields, sorted by name; none for other shapes.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let (from, to) = self.object().map_or((0, 0), |object| object.fields);
        let schema = self.schema;
        schema.fields[from as usize..to as usize].iter().map(move |def| Field { schema, def })
    }

    /// The type of a list's items.
    pub fn items(&self) -> Option<Type<'a>> {
        match self.node() {
            Node::List { items, .. } => Some(Type::new(self.schema, items)),
            _ => None,
        }
    }

    /// The type of a map's values.
    pub fn map_value(&self) -> Option<Type<'a>> {
        match self.node() {
            Node::Map { value, .. } => Some(Type::new(self.schema, value)),
            _ => None,
        }
    }

    /// The type of a member called `name`: a struct's field, or any key of a map or of arbitrary JSON.
    pub fn member(&self, name: &str) -> Option<Type<'a>> {
        match self.node() {
            Node::Object(_) => self.field(name).map(|f| f.ty()).or_else(|| self.is_preserve_unknown().then(Type::any)),
            Node::Map { value, .. } => Some(Type::new(self.schema, value)),
            Node::Leaf(_) if self.is_preserve_unknown() => Some(Type::any()),
            _ => None,
        }
    }

    /// How server-side apply treats this list; `Atomic` for other shapes.
    pub fn list_type(&self) -> ListType {
        match self.node() {
            Node::List { list, .. } => list,
            _ => ListType::Atomic,
        }
    }

    /// The keys that tell apart the entries of a list of type `Map`.
    pub fn list_keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let keys = match self.node() {
            Node::List { keys, .. } => self.schema.str(keys),
            _ => "",
        };
        keys.split(',').filter(|key| !key.is_empty())
    }

    /// Whether server-side apply owns this struct or map as one value (`x-kubernetes-map-type: atomic`).
    pub fn is_atomic(&self) -> bool {
        match self.node() {
            Node::Object(_) => self.object().is_some_and(|object| object.atomic),
            Node::Map { atomic, .. } => atomic,
            Node::List { list, .. } => list == ListType::Atomic,
            Node::Leaf(_) => true,
        }
    }

    /// Whether members that the schema does not name are kept.
    pub fn is_preserve_unknown(&self) -> bool {
        match self.node() {
            Node::Object(_) => self.object().is_some_and(|object| object.open),
            Node::Leaf(shape) => matches!(
                shape,
                Shape::Any
                    | Shape::Raw
                    | Shape::Fields
                    | Shape::SchemaOrList
                    | Shape::SchemaOrBool
                    | Shape::SchemaOrStrings
            ),
            _ => false,
        }
    }

    /// The word Go's JSON decoder would use for this type in an error.
    pub fn go_name(&self) -> String {
        match self.node() {
            Node::Leaf(shape) => go_leaf(shape).to_string(),
            Node::Object(_) => {
                let name = self.name();
                let mut parts = name.rsplit('.');
                let (last, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                format!("{version}.{last}")
            }
            Node::List { items, .. } => format!("[]{}", Type::new(self.schema, items).go_name()),
            Node::Map { value, .. } => format!("map[string]{}", Type::new(self.schema, value).go_name()),
        }
    }
}

fn go_leaf(shape: Shape) -> &'static str {
    match shape {
        Shape::String => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Double => "float64",
        Shape::Bytes => "[]uint8",
        Shape::Time => "v1.Time",
        Shape::MicroTime => "v1.MicroTime",
        Shape::Quantity => "resource.Quantity",
        Shape::IntOrString => "intstr.IntOrString",
        Shape::Raw => "runtime.RawExtension",
        Shape::Fields => "v1.FieldsV1",
        Shape::SchemaOrList => "v1.JSONSchemaPropsOrArray",
        Shape::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
        Shape::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
        Shape::Any | Shape::Object | Shape::List | Shape::Map => "v1.JSON",
    }
}

impl std::fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Type({})", self.go_name())
    }
}

impl PartialEq for Type<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.schema, other.schema) && self.node == other.node
    }
}

/// A handle to a field of a struct.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    schema: &'a Schema,
    pub(super) def: &'a FieldDef,
}

impl<'a> Field<'a> {
    pub fn name(&self) -> &'a str {
        self.schema.str(self.def.name)
    }

    pub fn ty(&self) -> Type<'a> {
        Type::new(self.schema, self.def.node)
    }

    pub fn required(&self) -> bool {
        self.def.required
    }

    /// Whether a zero (`""`, `0`, `false`) says something else than leaving the field out.
    pub fn keeps_zero(&self) -> bool {
        self.def.keeps_zero || self.def.required
    }

    pub fn list_type(&self) -> ListType {
        self.ty().list_type()
    }

    pub fn list_keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.ty().list_keys()
    }

    /// Whether the field is owned as one value, by its own rule or by its type's.
    pub fn is_atomic(&self) -> bool {
        self.def.atomic || self.ty().is_atomic()
    }

    /// Whether the schema says `atomic` on the field itself.
    pub fn is_atomic_by_rule(&self) -> bool {
        self.def.atomic
    }

    pub fn patch_strategy(&self) -> PatchStrategy {
        self.def.patch
    }

    /// The key by which a strategic patch merges this list.
    pub fn merge_key(&self) -> Option<&'a str> {
        Some(self.schema.str(self.def.merge_key)).filter(|key| !key.is_empty())
    }

    /// The value that stands for an absent field where the schema itself says so (keys of list maps).
    pub fn default_value(&self) -> Option<&'a str> {
        Some(self.schema.str(self.def.default)).filter(|value| !value.is_empty())
    }

    /// The same as JSON: tables that are built have it as JSON, the committed ones only have texts.
    pub fn default_json(&self) -> Option<serde_json::Value> {
        let text = self.default_value()?;
        if self.schema.abbreviates { Some(text.into()) } else { serde_json::from_str(text).ok() }
    }

    /// The protobuf field number; with more than one, the field lies inside structs that JSON inlines.
    pub fn proto_path(&self) -> &'a [u16] {
        let path = &self.def.proto;
        &path[..path.iter().position(|number| *number == 0).unwrap_or(path.len())]
    }
}

impl std::fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({}: {})", self.name(), self.ty().go_name())
    }
}
