//! Ranges of keys, found by a key that lies in them: a treap ordered by start and end, each node knowing how far the ranges
//! below it reach. A look-up costs the logarithm of the number of ranges and what it finds.
//!
//! It keeps no single keys and knows nothing of watches.

use super::index::{Key, Targets};
use std::cmp::Ordering;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

type Link<T> = Option<Box<Node<T>>>;

/// An empty end is the end of the key space.
struct Node<T> {
    start: Key,
    end: Key,
    /// The largest end in this subtree.
    furthest: Key,
    targets: Targets<T>,
    /// Parents have larger ranks than their children.
    rank: u64,
    left: Link<T>,
    right: Link<T>,
}

pub struct Ranges<T> {
    root: Link<T>,
    /// Ranks must not be foreseeable: who picks the ranges must not be able to shape the tree.
    ranks: RandomState,
    inserted: u64,
}

/// Compares ends.
fn by_end(a: &[u8], b: &[u8]) -> Ordering {
    match (a, b) {
        ([], []) => Ordering::Equal,
        ([], _) => Ordering::Greater,
        (_, []) => Ordering::Less,
        (a, b) => a.cmp(b),
    }
}

/// Whether `key` comes before an end.
pub fn before(key: &[u8], end: &[u8]) -> bool {
    end.is_empty() || key < end
}

impl<T> Node<T> {
    fn order(&self, start: &[u8], end: &[u8]) -> Ordering {
        start.cmp(&self.start).then_with(|| by_end(end, &self.end))
    }

    fn update(&mut self) {
        let mut furthest = &self.end;
        for child in [&self.left, &self.right].into_iter().flatten() {
            if by_end(&child.furthest, furthest).is_gt() {
                furthest = &child.furthest;
            }
        }
        self.furthest = furthest.clone();
    }
}

fn merge<T>(left: Link<T>, right: Link<T>) -> Link<T> {
    let (mut left, mut right) = match (left, right) {
        (None, one) | (one, None) => return one,
        (Some(left), Some(right)) => (left, right),
    };
    if left.rank > right.rank {
        left.right = merge(left.right.take(), Some(right));
        left.update();
        Some(left)
    } else {
        right.left = merge(Some(left), right.left.take());
        right.update();
        Some(right)
    }
}

/// What comes before `(start, end)`, and the rest.
fn split<T>(link: Link<T>, start: &[u8], end: &[u8]) -> (Link<T>, Link<T>) {
    let Some(mut node) = link else { return (None, None) };
    if node.order(start, end).is_gt() {
        let (left, right) = split(node.right.take(), start, end);
        node.right = left;
        node.update();
        (Some(node), right)
    } else {
        let (left, right) = split(node.left.take(), start, end);
        node.left = right;
        node.update();
        (left, Some(node))
    }
}

fn remove<T: Copy + Ord>(link: &mut Link<T>, start: &[u8], end: &[u8], target: T) {
    let Some(node) = link else { return };
    match node.order(start, end) {
        Ordering::Less => remove(&mut node.left, start, end, target),
        Ordering::Greater => remove(&mut node.right, start, end, target),
        Ordering::Equal => {
            if node.targets.remove(target) {
                let (left, right) = (node.left.take(), node.right.take());
                *link = merge(left, right);
            }
            return;
        }
    }
    node.update();
}

fn visit<T: Copy>(link: &Link<T>, key: &[u8], found: &mut impl FnMut(T)) -> usize {
    let Some(node) = link else { return 0 };
    if !before(key, &node.furthest) {
        return 1;
    }
    let mut touched = 1 + visit(&node.left, key, found);
    if *node.start <= *key {
        if before(key, &node.end) {
            touched += node.targets.visit(found);
        }
        touched += visit(&node.right, key, found);
    }
    touched
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { root: None, ranks: RandomState::new(), inserted: 0 }
    }
}

impl<T: Copy + Ord> Ranges<T> {
    fn find_mut(&mut self, start: &[u8], end: &[u8]) -> Option<&mut Node<T>> {
        let mut link = &mut self.root;
        while let Some(node) = link {
            link = match node.order(start, end) {
                Ordering::Equal => return Some(node),
                Ordering::Less => &mut node.left,
                Ordering::Greater => &mut node.right,
            };
        }
        None
    }

    /// The range as it is kept here, so that its bytes can be shared.
    pub fn get(&self, start: &[u8], end: &[u8]) -> Option<(&Key, &Key)> {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match node.order(start, end) {
                Ordering::Equal => return Some((&node.start, &node.end)),
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
            };
        }
        None
    }

    pub fn insert(&mut self, start: Key, end: Key, target: T) {
        if let Some(node) = self.find_mut(&start, &end) {
            node.targets.insert(target);
            return;
        }
        let (left, right) = split(self.root.take(), &start, &end);
        self.inserted += 1;
        let rank = self.ranks.hash_one(self.inserted);
        let (furthest, targets) = (end.clone(), Targets::One(target));
        let node = Node { start, end, furthest, targets, rank, left: None, right: None };
        self.root = merge(merge(left, Some(Box::new(node))), right);
    }

    pub fn remove(&mut self, start: &[u8], end: &[u8], target: T) {
        remove(&mut self.root, start, end, target);
    }

    /// Answers how many entries it looked at.
    pub fn visit(&self, key: &[u8], found: &mut impl FnMut(T)) -> usize {
        visit(&self.root, key, found)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}
