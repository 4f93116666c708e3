//! The completed indexes of an indexed job, as the API writes them: `1,3-5,7`. Decides the form only.

use std::collections::BTreeSet;

/// A set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<usize>);

impl Indexes {
    /// Reads the form; what is not a number or lies at or above `below` is left out.
    pub fn parse(text: &str, below: usize) -> Self {
        let mut set = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
                set.extend(first..(last.saturating_add(1)).min(below));
            }
        }
        Indexes(set)
    }

    pub fn insert(&mut self, index: usize) {
        self.0.insert(index);
    }

    pub fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Display for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut indexes = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = indexes.next() {
            let mut last = first;
            while let Some(next) = indexes.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            match last - first {
                0 => {}
                // Two neighbours are listed, as Kubernetes does.
                1 => write!(f, ",{last}")?,
                _ => write!(f, "-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_read_and_written() {
        let check = |text: &str, below, expect: &str| assert_eq!(Indexes::parse(text, below).to_string(), expect);
        check("", 10, "");
        check("1,3-5,7", 10, "1,3-5,7");
        check("0,1", 10, "0,1");
        check("0-1,2", 10, "0-2");
        check("3-20", 6, "3-5");
        check("x,2", 6, "2");
    }
}
