//! A schema's JSON, asked keyword by keyword. It decides nothing: what is absent or of the wrong type is the zero value.

use serde_json::{Map, Value};

#[derive(Clone, Copy)]
pub(super) struct View<'v>(pub &'v Map<String, Value>);

impl<'v> View<'v> {
    pub fn of(value: &'v Value) -> Option<View<'v>> {
        value.as_object().map(View)
    }

    /// The keyword's value; null is absent.
    pub fn get(self, keyword: &str) -> Option<&'v Value> {
        self.0.get(keyword).filter(|value| !value.is_null())
    }
    pub fn text(self, keyword: &str) -> &'v str {
        self.get(keyword).and_then(Value::as_str).unwrap_or_default()
    }
    pub fn flag(self, keyword: &str) -> bool {
        self.get(keyword).and_then(Value::as_bool).unwrap_or_default()
    }
    pub fn schema(self, keyword: &str) -> Option<View<'v>> {
        self.get(keyword).and_then(View::of)
    }
    pub fn list(self, keyword: &str) -> &'v [Value] {
        self.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    /// The schemas of a list, such as `allOf`.
    pub fn schemas(self, keyword: &str) -> impl Iterator<Item = View<'v>> {
        self.list(keyword).iter().filter_map(View::of)
    }
    pub fn texts(self, keyword: &str) -> impl Iterator<Item = &'v str> {
        self.list(keyword).iter().filter_map(Value::as_str)
    }
    pub fn members(self, keyword: &str) -> impl Iterator<Item = (&'v str, View<'v>)> {
        let members = self.get(keyword).and_then(Value::as_object);
        members.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), View::of(value)?)))
    }
    pub fn property(self, name: &str) -> Option<View<'v>> {
        self.get("properties")?.as_object()?.get(name).and_then(View::of)
    }
    pub fn has_properties(self) -> bool {
        self.members("properties").next().is_some()
    }
}
