//! What a list, watch or deletecollection selects. Decides which objects match and which index fits; never what happens to them.

use super::object::Object;
use super::resource::{Tree, in_namespace};
use super::watcher::Dispatch;
use crate::http::{Outcome, Query};
use crate::served::Served;
use gantry_apimachinery::fields::FieldSelector;
use gantry_apimachinery::labels::{self, Selector};
use gantry_apimachinery::status::Status;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// An index into the kind's selectable fields.
    Own(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: Field,
    value: Box<str>,
    negated: bool,
}

/// A namespace (or all), label requirements and field terms. All must hold.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub namespace: Box<str>,
    labels: Selector,
    terms: Vec<Term>,
}

impl Selection {
    pub fn everything_in(namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..Self::default() }
    }

    /// One object by name, as a `get` with `watch` selects it.
    pub fn one(namespace: &str, name: &str) -> Self {
        let term = Term { field: Field::Name, value: name.into(), negated: false };
        Self { namespace: namespace.into(), terms: vec![term], ..Self::default() }
    }

    /// Reads `labelSelector` and `fieldSelector`. A field that the kind cannot be selected by is the client's error.
    pub fn read(served: &Served, namespace: &str, name: &str, query: &Query) -> Outcome<Self> {
        let resource = &served.resource;
        let labels = match query.get("labelSelector") {
            Some(text) => labels::parse(text)
                .map_err(|error| Status::bad_request(format!("unable to parse requirement: {error}")))?,
            None => Selector::everything(),
        };
        let mut selection = if name.is_empty() { Self::everything_in(namespace) } else { Self::one(namespace, name) };
        selection.labels = labels;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or(""))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        for term in fields.terms() {
            let field = match term.field.as_str() {
                "metadata.name" => Field::Name,
                "metadata.namespace" if resource.kind.namespaced => Field::Namespace,
                label => {
                    let stored = served.stored_label(label);
                    match resource.selectable.iter().position(|field| field.label == stored) {
                        Some(at) => Field::Own(at),
                        None => return Err(Status::bad_request(format!("field label not supported: {label}")).into()),
                    }
                }
            };
            selection.terms.push(Term { field, value: term.value.as_str().into(), negated: term.negated });
        }
        Ok(selection)
    }

    pub fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.namespace)
            && self.terms.iter().all(|term| {
                let value: &str = match term.field {
                    Field::Name => &object.name,
                    Field::Namespace => &object.namespace,
                    Field::Own(at) => object.fields.get(at).map_or("", |value| value),
                };
                (value == &*term.value) != term.negated
            })
            && self.labels.matches(&object.labels)
    }

    /// Whether every object of the namespace (or of all) matches.
    pub fn is_whole(&self) -> bool {
        self.terms.is_empty() && self.labels.is_everything()
    }

    fn required(&self, wanted: &Field) -> Option<&str> {
        self.terms.iter().find(|term| !term.negated && term.field == *wanted).map(|term| &*term.value)
    }

    /// The exact store path when the selection names one object.
    pub fn exact(&self, namespaced: bool) -> Option<String> {
        let name = self.required(&Field::Name)?;
        match (namespaced, &*self.namespace) {
            (false, _) => Some(name.to_owned()),
            (true, "") => None,
            (true, namespace) => Some(format!("{namespace}/{name}")),
        }
    }

    /// The narrowest index for a watcher with this selection.
    pub fn dispatch(&self, namespaced: bool) -> Dispatch {
        if let Some(path) = self.exact(namespaced) {
            return Dispatch::Name(path.into());
        }
        let own = self.terms.iter().find_map(|term| match term.field {
            Field::Own(at) if !term.negated && !term.value.is_empty() => Some((at, term.value.clone())),
            _ => None,
        });
        match own {
            Some((at, value)) => Dispatch::Field(at, value),
            None if namespaced && !self.namespace.is_empty() => Dispatch::Namespace(self.namespace.clone()),
            None => Dispatch::Everything,
        }
    }

    /// The matching objects of a tree, in key order.
    pub fn select<'a>(
        &'a self,
        tree: &'a Tree,
        namespaced: bool,
    ) -> Box<dyn Iterator<Item = &'a Arc<Object>> + Send + 'a> {
        if let Some(path) = self.exact(namespaced) {
            return Box::new(tree.get(path.as_str()).into_iter().filter(|object| self.matches(object)));
        }
        if namespaced && !self.namespace.is_empty() {
            let inside = in_namespace(&self.namespace);
            return Box::new(tree.range(inside).map(|(_, object)| object).filter(|object| self.matches(object)));
        }
        Box::new(tree.values().filter(|object| self.matches(object)))
    }
}
