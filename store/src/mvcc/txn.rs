//! Transactions: which branches run, whether they may, and what they do. The order is etcd's: all comparisons, then all
//! checks, then the operations, so that a refused transaction has changed nothing.

use super::read::Span;
use super::{Change, Late, Mvcc, Ranged, Version};
use crate::api::{
    Compare, CompareTarget, Delete, LeaseId, Op, OpReply, Put, RangeReply, RangeRequest, Relation, Revision,
    StoreError, Txn, TxnReply,
};

/// Which branch each transaction of a nest takes, in the order in which they are met.
struct Path(Vec<bool>);

/// A transaction under way.
struct Run {
    path: std::vec::IntoIter<bool>,
    revision: Revision,
    changes: Vec<Change>,
    lacking: Lacking,
}

/// What the replies lack so far, and by which operations the one that is under way is reached.
#[derive(Default)]
struct Lacking {
    way: Vec<usize>,
    late: Vec<Late>,
}

impl Lacking {
    fn range(&mut self, at: usize, ranged: Ranged) -> OpReply {
        OpReply::Range(match ranged {
            Ranged::Whole(reply) => reply,
            Ranged::Late(range) => {
                let path = self.way.iter().copied().chain([at]).collect();
                let (revision, count) = (range.reply.revision, range.reply.count);
                self.late.push(Late { path, range });
                RangeReply { kvs: Vec::new(), revision, count, more: false }
            }
        })
    }
}

impl Mvcc {
    /// The reply, and what it lacks.
    pub(super) fn transact(&mut self, txn: &Txn) -> Result<(TxnReply, Vec<Late>), StoreError> {
        let path = self.check(txn)?;
        let mut run = Run {
            path: path.0.into_iter(),
            revision: Revision(self.revision + 1),
            changes: Vec::new(),
            lacking: Lacking::default(),
        };
        let (succeeded, ops) = self.run(txn, &mut run)?;
        if !run.changes.is_empty() {
            self.commit_changes(run.changes);
        }
        Ok((TxnReply { succeeded, revision: self.revision(), ops }, run.lacking.late))
    }

    /// What a transaction that writes nothing answers, and what that lacks.
    pub fn read(&self, txn: &Txn) -> Result<(TxnReply, Vec<Late>), StoreError> {
        debug_assert!(!txn.writes());
        let path = self.check(txn)?;
        let mut lacking = Lacking::default();
        let reply = self.read_along(txn, &mut path.0.into_iter(), &mut lacking)?;
        Ok((reply, lacking.late))
    }

    fn read_along(
        &self,
        txn: &Txn,
        path: &mut std::vec::IntoIter<bool>,
        lacking: &mut Lacking,
    ) -> Result<TxnReply, StoreError> {
        let succeeded = path.next().unwrap_or_default();
        let mut ops = Vec::new();
        for op in branch(txn, succeeded) {
            match op {
                Op::Range(range) => ops.push(lacking.range(ops.len(), self.range(range)?)),
                Op::Txn(txn) => {
                    lacking.way.push(ops.len());
                    ops.push(OpReply::Txn(self.read_along(txn, path, lacking)?));
                    lacking.way.pop();
                }
                Op::Put(_) | Op::Delete(_) => {}
            }
        }
        Ok(TxnReply { succeeded, revision: self.revision(), ops })
    }

    fn check(&self, txn: &Txn) -> Result<Path, StoreError> {
        let mut path = Path(Vec::new());
        self.compare_all(txn, &mut path);
        self.check_ops(txn, &mut path.0.iter())?;
        Ok(path)
    }

    fn compare_all(&self, txn: &Txn, path: &mut Path) {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        path.0.push(succeeded);
        for op in branch(txn, succeeded) {
            if let Op::Txn(txn) = op {
                self.compare_all(txn, path);
            }
        }
    }

    fn check_ops(&self, txn: &Txn, path: &mut std::slice::Iter<'_, bool>) -> Result<(), StoreError> {
        let succeeded = *path.next().unwrap_or(&false);
        for op in branch(txn, succeeded) {
            match op {
                Op::Put(put) => self.check_put(put)?,
                Op::Range(RangeRequest { revision: Some(revision), .. }) => self.check_readable(*revision)?,
                Op::Range(_) | Op::Delete(_) => {}
                Op::Txn(txn) => self.check_ops(txn, path)?,
            }
        }
        Ok(())
    }

    fn check_put(&self, put: &Put) -> Result<(), StoreError> {
        if put.lease != LeaseId::NONE && !self.leases.contains_key(&put.lease) {
            return Err(StoreError::NoLease(put.lease));
        }
        if (put.keep_value || put.keep_lease) && self.get(&put.key).is_none() {
            return Err(StoreError::NoKey(put.key.clone()));
        }
        Ok(())
    }

    fn holds(&self, compare: &Compare) -> bool {
        let span = Span::new(compare.start.clone(), compare.end.clone());
        let mut found = self.span(&span).peekable();
        if found.peek().is_none() {
            return missing_holds(compare);
        }
        found.all(|kv| stands(compare, kv))
    }

    /// Whether the transaction succeeded, and its replies. Nothing here fails after `check`; the errors are only passed on.
    fn run(&mut self, txn: &Txn, run: &mut Run) -> Result<(bool, Vec<OpReply>), StoreError> {
        let succeeded = run.path.next().unwrap_or_default();
        let ops = branch(txn, succeeded);
        let mut replies = Vec::with_capacity(ops.len());
        for op in ops {
            replies.push(match op {
                Op::Put(put) => {
                    let change = self.put(put, run.revision);
                    let prev = change.prev.as_ref().filter(|_| put.prev_kv).map(Version::key_value);
                    run.changes.push(change);
                    OpReply::Put { prev }
                }
                Op::Delete(delete) => self.delete_span(delete, run),
                Op::Range(range) => {
                    let now = if run.changes.is_empty() { self.revision() } else { run.revision };
                    let ranged = self.range_at(range, now)?;
                    run.lacking.range(replies.len(), ranged)
                }
                Op::Txn(txn) => {
                    run.lacking.way.push(replies.len());
                    let (succeeded, ops) = self.run(txn, run)?;
                    run.lacking.way.pop();
                    let revision = if run.changes.is_empty() { self.revision() } else { run.revision };
                    OpReply::Txn(TxnReply { succeeded, revision, ops })
                }
            });
        }
        Ok((succeeded, replies))
    }

    fn delete_span(&mut self, delete: &Delete, run: &mut Run) -> OpReply {
        let span = Span::new(delete.start.clone(), delete.end.clone());
        let found: Vec<_> = self.span(&span).cloned().collect();
        let before = run.changes.len();
        run.changes.extend(found.iter().filter_map(|kv| self.delete(kv.key(), run.revision)));
        let deleted = &run.changes[before..];
        let prev =
            deleted.iter().filter(|_| delete.prev_kv).filter_map(|change| Some(change.prev.as_ref()?.key_value()));
        OpReply::Delete { deleted: deleted.len() as u64, prev: prev.collect() }
    }

    pub(super) fn span<'a>(&'a self, span: &'a Span) -> impl Iterator<Item = &'a Version> + 'a {
        self.live.range::<_, [u8]>(span.bounds()).map(|live| &live.0)
    }
}

fn branch(txn: &Txn, succeeded: bool) -> &[Op] {
    if succeeded { &txn.success } else { &txn.failure }
}

/// How a comparison goes with a key that is not there.
fn missing_holds(compare: &Compare) -> bool {
    let order = match &compare.target {
        CompareTarget::Value(_) => return false,
        CompareTarget::Version(version) => 0.cmp(version),
        CompareTarget::CreateRevision(revision) | CompareTarget::ModRevision(revision) => 0.cmp(&revision.0),
        CompareTarget::Lease(lease) => LeaseId::NONE.cmp(lease),
    };
    related(compare.relation, order)
}

fn stands(compare: &Compare, kv: &Version) -> bool {
    let order = match &compare.target {
        CompareTarget::Version(version) => kv.version().cmp(version),
        CompareTarget::CreateRevision(revision) => kv.create_revision().cmp(revision),
        CompareTarget::ModRevision(revision) => kv.mod_revision().cmp(revision),
        CompareTarget::Value(value) => kv.value().cmp(value),
        CompareTarget::Lease(lease) => kv.lease().cmp(lease),
    };
    related(compare.relation, order)
}

fn related(relation: Relation, order: std::cmp::Ordering) -> bool {
    match relation {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Greater => order.is_gt(),
        Relation::Less => order.is_lt(),
    }
}
