//! Which changes a watch has told. A server that is asked to go on from a revision tells all objects of the transaction that made
//! it once more, since it cannot know how far the client had come; who counts changes must hear each once.

use std::collections::HashSet;

/// Where the next watch starts, and what of that very revision was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    version: Option<String>,
    /// All of it: a list or a bookmark said so.
    whole: bool,
    /// By namespace and name.
    objects: HashSet<(String, String)>,
}

impl Told {
    /// Where the next watch starts; `None` asks for a list first.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// What came is of no use any more.
    pub fn forget(&mut self) {
        *self = Self::default();
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
        told.forget();
        assert_eq!(told.version(), None);
    }
}
