//! How expressions see objects of the table's kinds: names, types, and no bounds but a request's. It decides what is visible; a type
//! that holds itself is not looked into a second time.

use super::{Schema, Shape, Type};
use crate::cel::{self, Decl, FieldDecl, ObjectType};
use crate::structural::escape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The declaration of a kind's objects; `None` for a kind that the schema does not have.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<Decl> {
    let ty = Schema::builtin().kind(group, version, kind)?;
    Some(Declarer::default().of(ty))
}

/// What was declared so far, and what is being declared.
#[derive(Default)]
struct Declarer {
    done: BTreeMap<String, Decl>,
    open: Vec<String>,
}

impl Declarer {
    fn of(&mut self, ty: Type<'_>) -> Decl {
        match ty.shape() {
            Shape::String => Decl::of(cel::Type::String),
            Shape::Bool => Decl::of(cel::Type::Bool),
            Shape::Int32 | Shape::Int64 => Decl::of(cel::Type::Int),
            Shape::Double => Decl::of(cel::Type::Double),
            Shape::Bytes => Decl::of(cel::Type::Bytes),
            Shape::Time | Shape::MicroTime => Decl::of(cel::Type::Timestamp),
            Shape::List => {
                let items = ty.items().map_or_else(|| Decl::dynamic().clone(), |items| self.of(items));
                Decl::list(items, cel::MAX_SIZE)
            }
            Shape::Map => {
                let values = ty.map_value().map_or_else(|| Decl::dynamic().clone(), |value| self.of(value));
                Decl::map(values, cel::MAX_SIZE)
            }
            Shape::Object => self.object(ty),
            // A quantity is a number or a text, whichever its writer chose; others may be anything.
            _ => Decl::dynamic().clone(),
        }
    }

    fn object(&mut self, ty: Type<'_>) -> Decl {
        let name = ty.name();
        if let Some(known) = self.done.get(&name) {
            return known.clone();
        }
        if self.open.contains(&name) || ty.is_preserve_unknown() {
            return Decl::dynamic().clone();
        }
        self.open.push(name.clone());
        let mut fields = BTreeMap::new();
        for field in ty.fields() {
            let json = field.name().to_owned();
            let decl = self.of(field.ty());
            // Both names find it: expressions that run do not need the escaped one either.
            for name in escape(&json).into_iter().chain([json.clone()]) {
                fields.insert(name, FieldDecl { json: json.clone(), decl: decl.clone() });
            }
        }
        self.open.pop();
        let object = ObjectType { name: name.clone(), fields };
        let decl = Decl::of(cel::Type::Object(Arc::new(object)));
        self.done.insert(name, decl.clone());
        decl
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::compile;
    use crate::kinds::KINDS;

    #[test]
    fn expressions_are_checked_against_a_kind() {
        let check = |expression: &str, expect: &str| {
            let object = of_kind("apps", "v1", "Deployment").unwrap();
            let text = match compile(expression, &[("object", object)]) {
                Ok(program) => program.result().to_string(),
                Err(error) => error.to_string(),
            };
            assert!(text.contains(expect), "{expression}: {text}");
        };
        check("object.spec.replicas > 1", "bool");
        check("object.spec.nothing > 1", "undefined field 'nothing'");
        check("object.spec.replicas + 'x'", "found no matching overload for '_+_'");
        check("object.metadata.labels['a']", "string");
        check("object.metadata.__namespace__ + object.metadata.namespace", "string");
        check("object.spec.template.spec.containers.all(c, c.image.startsWith('a'))", "bool");
        check("object.spec.template.spec.containers.all(c, c.imag == 'a')", "undefined field 'imag'");
        check("object.spec.strategy.rollingUpdate.maxSurge", "dyn");
    }

    #[test]
    fn every_kind_has_a_declaration() {
        for kind in KINDS {
            assert!(of_kind(kind.group, kind.version, kind.kind).is_some(), "{}", kind.kind);
        }
        assert_eq!(of_kind("apps", "v9", "Deployment"), None);
    }
}
