//! Which changes a watch has told. A server that is asked to go on from a revision tells all objects of the transaction that made
//! it once more, since it cannot know how far the client had come; who counts changes must hear each once.

use std::collections::{BTreeMap, HashSet};

/// Where the next watch starts, and what of that very revision was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    version: Option<String>,
    /// All of it: a list or a bookmark said so.
    whole: bool,
    objects: HashSet<Name>,
    /// What a list told that is newer than the list claims to be, by revision: of a transaction some objects were there already.
    ahead: BTreeMap<u64, HashSet<Name>>,
}

/// Namespace and name.
type Name = (String, String);

impl Told {
    /// Where the next watch starts; `None` asks for a list first.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// What came is of no use any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// A list told of this object. Called after [`Self::all_up_to`] with the list's own version.
    pub fn listed(&mut self, version: &str, namespace: &str, name: &str) {
        let of = |version: &str| version.parse::<u64>().unwrap_or(0);
        if of(version) > self.version().map_or(0, of) {
            self.ahead.entry(of(version)).or_default().insert((namespace.to_owned(), name.to_owned()));
        }
    }

    /// Everything up to this version was told.
    pub fn all_up_to(&mut self, version: &str) {
        self.objects.clear();
        (self.version, self.whole) = (Some(version.to_owned()), true);
    }

    /// Takes one change in. Returns whether it was not told before. Of a server that names no version, everything is news.
    pub fn is_news(&mut self, version: &str, namespace: &str, name: &str) -> bool {
        if self.version.as_deref() != Some(version) {
            self.objects.clear();
            (self.version, self.whole) = (Some(version.to_owned()), false);
            if let (false, Ok(revision)) = (self.ahead.is_empty(), version.parse()) {
                let later = self.ahead.split_off(&revision);
                self.ahead = later;
                self.objects = self.ahead.remove(&revision).unwrap_or_default();
            }
        }
        version.is_empty() || !self.whole && self.objects.insert((namespace.to_owned(), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_told_again_is_told_once() {
        let mut told = Told::default();
        assert!(told.is_news("7", "a", "x"));
        assert!(told.is_news("7", "a", "y") && told.is_news("7", "b", "x"));
        // The watch was cut off here, and starts again.
        assert_eq!(told.version(), Some("7"));
        assert!(!told.is_news("7", "a", "x") && !told.is_news("7", "a", "y"));
        assert!(told.is_news("7", "a", "z"), "it had not come");
        assert!(told.is_news("8", "a", "x"));
        assert!(!told.is_news("8", "a", "x"));
        told.all_up_to("9");
        assert!(!told.is_news("9", "a", "x"), "a list has it");
        assert!(told.is_news("10", "a", "x"));
        told.all_up_to("10");
        assert!(!told.is_news("10", "a", "y"));
        told.all_up_to("20");
        for (version, name) in [("20", "old"), ("22", "x"), ("22", "y"), ("23", "x")] {
            told.listed(version, "a", name);
        }
        assert!(!told.is_news("22", "a", "x") && told.is_news("22", "a", "z") && !told.is_news("22", "a", "y"));
        assert!(!told.is_news("23", "a", "x") && told.is_news("23", "a", "y"));
        assert!(told.ahead.is_empty());
        told.forget();
        assert_eq!(told.version(), None);
    }
}
