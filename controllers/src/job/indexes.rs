//! The completed indexes of an indexed job, as the API writes them: `1,3-5,7`. Kept as ranges, so that a hundred thousand cost
//! what their gaps cost. Decides the form only.

use std::collections::BTreeMap;

/// A set of indexes: from the first of each range to its last; ranges neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes {
    ranges: BTreeMap<usize, usize>,
    len: usize,
}

impl Indexes {
    /// Reads the form; what is not a number or lies at or above `below` is left out.
    pub fn parse(text: &str, below: usize) -> Self {
        let mut set = Indexes::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
                && first <= last
                && first < below
            {
                set.insert_range(first, last.min(below - 1));
            }
        }
        set
    }

    pub fn insert(&mut self, index: usize) {
        if !self.contains(index) {
            self.insert_range(index, index);
        }
    }

    fn insert_range(&mut self, mut first: usize, mut last: usize) {
        while let Some((&start, &end)) = self.ranges.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            self.ranges.remove(&start);
            self.len -= end - start + 1;
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
        self.len += last - first + 1;
    }

    pub fn contains(&self, index: usize) -> bool {
        self.ranges.range(..=index).next_back().is_some_and(|(_, last)| *last >= index)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Those below `below` that are not in the set, in order.
    pub fn gaps(&self, below: usize) -> impl Iterator<Item = usize> {
        let starts = self.ranges.keys().copied().chain([below]);
        let ends = [0].into_iter().chain(self.ranges.values().map(|last| last.saturating_add(1)));
        ends.zip(starts).flat_map(move |(from, to)| from..to.min(below))
    }
}

impl std::fmt::Display for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut comma = "";
        for (first, last) in &self.ranges {
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

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
        check("5-3,2", 6, "2");
        check("0-18446744073709551615,4", usize::MAX, "0-18446744073709551614");
        check("7", 0, "");
    }

    proptest! {
        #[test]
        fn ranges_are_a_set(ranges in prop::collection::vec((0..40_usize, 0..5_usize), 0..20), below in 0..50_usize) {
            let text: Vec<String> = ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
            let naive: BTreeSet<usize> =
                ranges.iter().flat_map(|(first, more)| *first..=first + more).filter(|i| *i < below).collect();
            let mut inserted = Indexes::default();
            naive.iter().rev().for_each(|index| inserted.insert(*index));
            let read = Indexes::parse(&text.join(","), below);
            prop_assert_eq!(&read, &inserted);
            prop_assert_eq!(read.len(), naive.len());
            prop_assert!((0..50).all(|index| read.contains(index) == naive.contains(&index)));
            let gaps: Vec<usize> = (0..below).filter(|index| !naive.contains(index)).collect();
            prop_assert_eq!(read.gaps(below).collect::<Vec<_>>(), gaps);
        }
    }
}
