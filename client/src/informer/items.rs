//! Takes a list apart while it arrives, object by object, so that no list is held as a whole. Knows how JSON nests, and that a list's
//! `items` are objects; everything else it leaves to the parser.

use serde::Deserialize;
use serde::de::Error;

use super::lines::MAX_LINE;
use crate::response::ListMeta;

/// The list without its items may be this long.
const MOST_AROUND: usize = 1 << 20;
/// One object may be this long, as in a watch.
const MOST_ITEM: usize = MAX_LINE;

#[derive(Deserialize)]
struct Around {
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Between,
    Item,
    After,
}

#[derive(Debug, Default)]
pub(super) struct Items {
    place: Place,
    /// The list with nothing between the brackets of `items`.
    around: Vec<u8>,
    /// The beginning of an object whose end has not come.
    item: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Items {
    /// Takes the next piece in and hands out each object that is whole.
    pub fn push(&mut self, piece: &[u8], mut item: impl FnMut(&[u8])) -> serde_json::Result<()> {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = match self.place {
                Place::Before => self.before(rest),
                Place::Between => self.between(rest)?,
                Place::Item => self.item(rest, &mut item),
                Place::After => {
                    self.around.extend_from_slice(rest);
                    rest.len()
                }
            };
            rest = &rest[taken..];
            if self.around.len() > MOST_AROUND {
                return Err(Error::custom("a list says more than 1 MiB about itself"));
            }
            if self.item.len() > MOST_ITEM {
                return Err(Error::custom(format!("an object of a list is longer than {MOST_ITEM} bytes")));
            }
        }
        Ok(())
    }

    /// The list has come to its end.
    pub fn finish(self) -> serde_json::Result<ListMeta> {
        if !self.around.trim_ascii_start().starts_with(b"{") {
            return Err(Error::custom("a list is an object"));
        }
        let around: Around = serde_json::from_slice(&self.around)?;
        Ok(around.metadata)
    }

    /// Up to the bracket of `items`. Returns how much was taken.
    fn before(&mut self, rest: &[u8]) -> usize {
        for (at, byte) in rest.iter().enumerate() {
            let begins = *byte == b'[' && !self.in_string && self.depth == 1 && self.names_items(&rest[..at]);
            self.step(*byte);
            if begins {
                self.around.extend_from_slice(&rest[..=at]);
                self.place = Place::Between;
                return at + 1;
            }
        }
        self.around.extend_from_slice(rest);
        rest.len()
    }

    /// Whether what came last is `"items":`.
    fn names_items(&self, new: &[u8]) -> bool {
        let mut last = new.iter().rev().chain(self.around.iter().rev()).filter(|byte| !byte.is_ascii_whitespace());
        b"\"items\":".iter().rev().all(|expected| last.next() == Some(expected))
    }

    fn between(&mut self, rest: &[u8]) -> serde_json::Result<usize> {
        let skipped = rest.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        match rest.get(skipped) {
            None => Ok(skipped),
            Some(b'{') => {
                (self.place, self.depth) = (Place::Item, 0);
                Ok(skipped)
            }
            Some(b']') => {
                self.place = Place::After;
                Ok(skipped)
            }
            Some(_) => Err(Error::custom("a list's items are objects")),
        }
    }

    /// Up to the brace that closes the object.
    fn item(&mut self, rest: &[u8], item: &mut impl FnMut(&[u8])) -> usize {
        let mut at = 0;
        while at < rest.len() {
            if self.in_string && !self.escaped {
                // Texts are most of an object.
                at += memchr::memchr2(b'"', b'\\', &rest[at..]).unwrap_or(rest.len() - at);
            }
            let Some(byte) = rest.get(at) else { break };
            self.step(*byte);
            at += 1;
            if self.depth == 0 && !self.in_string {
                let last = &rest[..at];
                if self.item.is_empty() {
                    item(last);
                } else {
                    self.item.extend_from_slice(last);
                    item(&self.item);
                    self.item.clear();
                }
                self.place = Place::Between;
                return at;
            }
        }
        self.item.extend_from_slice(rest);
        rest.len()
    }

    #[inline]
    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn taken(text: &str, piece: usize) -> serde_json::Result<(Vec<Value>, ListMeta)> {
        let (mut items, mut all) = (Items::default(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            items.push(piece, |item| all.push(serde_json::from_slice(item).unwrap()))?;
        }
        Ok((all, items.finish()?))
    }

    proptest! {
        #[test]
        fn any_list_in_any_pieces(texts in prop::collection::vec(".*", 0..5), piece in 1..40_usize, pretty in any::<bool>()) {
            let objects: Vec<Value> =
                texts.iter().map(|text| json!({text: [{"items": [text]}, "]}", {}], "other": text})).collect();
            let list = json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata":
                {"continue": texts.first().cloned().unwrap_or_default(), "resourceVersion": "7", "items": [1]}});
            let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
            let (all, meta) = taken(&text, piece).unwrap();
            prop_assert_eq!(all, objects);
            prop_assert_eq!(Some(&*meta.continue_token), list["metadata"]["continue"].as_str());
            prop_assert_eq!(meta.resource_version, "7");
        }
    }

    #[test]
    fn metadata_may_come_first_and_items_may_be_nothing() {
        let meta = |version: &str| ListMeta { resource_version: version.to_owned(), ..ListMeta::default() };
        let check = |text: &str, expect: (Vec<Value>, ListMeta)| assert_eq!(taken(text, 5).unwrap(), expect, "{text}");
        check(
            r#"{"metadata":{"resourceVersion":"1"},"items":[{"a":1}, {}]}"#,
            (vec![json!({"a": 1}), json!({})], meta("1")),
        );
        check(r#"{"metadata":{"items":[{"x":1}],"resourceVersion":"2"},"items":[]}"#, (vec![], meta("2")));
        check(r#"{"metadata":{"resourceVersion":"3"},"items":null}"#, (vec![], meta("3")));
        check(r#"{"metadata":{"resourceVersion":"4"}}"#, (vec![], meta("4")));
    }

    #[test]
    fn an_object_without_an_end_is_an_error() {
        let mut items = Items::default();
        let mut push = |piece: &str| items.push(piece.as_bytes(), |_| {});
        push("{\"items\":[{\"a\":\"").unwrap();
        let piece = "x".repeat(MOST_ITEM / 2);
        push(&piece).unwrap();
        assert!(push(&piece).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn what_is_cut_off_or_no_list_is_an_error() {
        for text in [r#"{"items":[{"a":1}"#, r#"{"items":[{"a":1}]"#, r#"{"items":["a"]}"#, "", "[]", "not found"] {
            assert!(taken(text, 3).is_err(), "{text}");
        }
    }
}
