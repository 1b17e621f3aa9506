//! The write plan: everything that one write changes, before anything is sent.
//!
//! | phase | allowed actions |
//! |---|---|
//! | prepare | upload blobs, claim values |
//! | commit | one entity group transaction: the op row, heads, copies, lists, declarations' rows |
//! | settle | make rows and blobs elsewhere agree with the entity |
//!
//! Declarations make the plan and send nothing. The executor runs it.
//!
//! - `inline`: what the writer itself writes elsewhere · `naming`: the references to blobs that entities get
//! - `explain`: a plan as text

use std::collections::BTreeMap;

use rowkey_client::index::List;
use rowkey_client::table::{EncodedRow, RowWrite};
use rowkey_client::telemetry::TraceParent;
use rowkey_client::{DynamicEntity, ETag, Error, ErrorKind, Match, Result};
pub(crate) use rowkey_patterns::internals::MAX_OPERATIONS;

use crate::layer::Demands;
use crate::layer::place::Place;
use crate::row::Keys;
use inline::Inline;

pub(crate) mod explain;
pub(crate) mod inline;
pub(crate) mod naming;

use crate::layer::blob_field::Upload;
use crate::row::op::{ClaimRef, Op, OpRow, Target};
use naming::Naming;

/// One write of one or more entities of a partition.
pub(crate) struct Plan {
    pub(crate) partition_key: String,
    pub(crate) op: Op,
    /// The operations of the transaction, except the op row and the edits of `rows`.
    pub(crate) edits: Vec<Edit>,
    /// Rows that were read so that declarations can edit them, by RowKey.
    pub(crate) rows: BTreeMap<String, ReadRow>,
    /// Values to claim before the transaction.
    pub(crate) claims: Vec<NewClaim>,
    /// Values to release.
    pub(crate) released: Vec<Released>,
    pub(crate) targets: Vec<Target>,
    /// The targets that the writer itself settles by a conditional write.
    pub(crate) inline: Vec<Inline>,
    /// The lists in other partitions that entities join, which must have room for them.
    pub(crate) joined: Vec<Joined>,
    /// Blobs that are uploaded before the message.
    pub(crate) uploads: Vec<Upload>,
    /// The references to blobs that entities get.
    pub(crate) naming: Naming,
    /// Whether the transaction must be sent soon, because a sweep may delete blobs that it names.
    pub(crate) expires: bool,
    /// Whether all rows of an entity are written again, not only those that change.
    pub(crate) rewrites: bool,
    /// The operation of the caller's transaction whose part is being added, counted from 0; `None` if the
    /// caller writes a single entity.
    pub(crate) step: Option<usize>,
    /// By RowKey, the operation of the caller that requires the row.
    steps: BTreeMap<String, usize>,
    /// The first operation of the caller that requires the op row.
    op_step: Option<usize>,
    /// The number of entities that were read to make the plan.
    pub(crate) heads_read: usize,
    /// The trace of the call that runs the plan.
    pub(crate) trace: Option<TraceParent>,
}

/// One operation of the transaction.
#[derive(Clone)]
pub(crate) struct Edit {
    pub(crate) row_key: String,
    pub(crate) write: Write,
    pub(crate) source: Source,
}

/// The change of a row.
#[derive(Clone)]
pub(crate) enum Write {
    Insert(EncodedRow),
    Replace(EncodedRow, Match),
    /// Changes only the properties of the row.
    Merge(EncodedRow, Match),
    Delete(Match),
}

/// The part of the plan that an operation belongs to. It decides how a refusal is handled.
#[derive(Clone)]
pub(crate) enum Source {
    /// The op row.
    Op,
    /// An entity. Its condition guards the whole write and is never relaxed.
    Head,
    /// A further row of a wide entity, and the keys of its head.
    Further(Keys),
    /// A copy in an index of the partition.
    Copy(CopyOf),
    /// A row that was read to be edited. If it has changed, the plan is made again.
    Edited,
    /// A row added by a declaration or the caller.
    Note,
}

/// The index and the entity of a copy.
#[derive(Clone)]
pub(crate) struct CopyOf {
    pub(crate) index: &'static str,
    pub(crate) position: usize,
    pub(crate) owner: Keys,
    /// Checks whether another entity has the row.
    pub(crate) demands: Demands,
}

/// A row that was read, with its new content.
pub(crate) struct ReadRow {
    /// The stored row.
    pub(crate) before: Option<(DynamicEntity, ETag)>,
    /// The row to store.
    pub(crate) after: Option<DynamicEntity>,
}

/// A list in another partition or table that entities join.
pub(crate) struct Joined {
    pub(crate) at: Place,
    pub(crate) list: &'static List,
    /// The new entries.
    pub(crate) listed: Vec<String>,
}

/// A value to claim.
#[derive(Clone)]
pub(crate) struct NewClaim {
    pub(crate) reference: ClaimRef,
    pub(crate) owner: Keys,
    /// The declared name of the unique value.
    pub(crate) index: &'static str,
    pub(crate) position: usize,
    pub(crate) demands: Demands,
    /// Whether the entity is inserted, so that no version guards it.
    pub(crate) inserts: bool,
}

/// A claim to release.
pub(crate) struct Released {
    pub(crate) reference: ClaimRef,
    /// Its `ETag`, read before the commit or remembered; `None` until then.
    pub(crate) etag: Option<ETag>,
}

impl Plan {
    pub(crate) fn new(partition_key: String, op: Op) -> Self {
        Self {
            partition_key,
            op,
            edits: Vec::new(),
            rows: BTreeMap::new(),
            claims: Vec::new(),
            released: Vec::new(),
            targets: Vec::new(),
            inline: Vec::new(),
            joined: Vec::new(),
            uploads: Vec::new(),
            naming: Naming::default(),
            expires: false,
            rewrites: false,
            step: None,
            steps: BTreeMap::new(),
            op_step: None,
            heads_read: 0,
            trace: None,
        }
    }

    /// Whether the plan prepares or settles anything and therefore needs an op row and a message.
    pub(crate) fn has_op_row(&self) -> bool {
        !(self.claims.is_empty()
            && self.released.is_empty()
            && self.targets.is_empty()
            && self.uploads.is_empty())
    }

    /// Begins the part of an operation of the caller.
    pub(crate) fn begin_step(&mut self, step: usize) {
        self.end_step();
        self.step = Some(step);
    }

    /// Ends the part of the current operation.
    pub(crate) fn end_step(&mut self) {
        if self.op_step.is_none() && self.has_op_row() {
            self.op_step = self.step;
        }
        self.step = None;
    }

    /// Notes that the current operation requires this row. The first one that does is noted.
    pub(crate) fn requires(&mut self, row_key: &str) {
        if let Some(step) = self.step {
            self.steps.entry(row_key.to_owned()).or_insert(step);
        }
    }

    /// The operation of the caller that requires this row.
    pub(crate) fn step_of(&self, row_key: &str) -> Option<usize> {
        self.steps.get(row_key).copied()
    }

    /// The operation of the caller that requires this operation of the transaction.
    pub(crate) fn step_of_edit(&self, edit: &Edit) -> Option<usize> {
        match edit.source {
            Source::Op => self.op_step,
            _ => self.step_of(&edit.row_key),
        }
    }

    /// The operation of the caller that first requires an op row.
    pub(crate) fn step_of_op(&self) -> Option<usize> {
        self.op_step
    }

    /// Adds a target unless the plan has it already.
    pub(crate) fn target(&mut self, target: Target) {
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }

    /// Notes that an entity joins a list in another partition.
    pub(crate) fn join(&mut self, at: Place, list: &'static List, listed: String) {
        match self.joined.iter_mut().find(|joined| joined.at == at) {
            Some(joined) => joined.listed.push(listed),
            None => self.joined.push(Joined { at, list, listed: vec![listed] }),
        }
    }

    /// Adds an operation. A transaction may contain each row only once, so a delete and an insert of
    /// the same copy row, by two entities, become one replace.
    pub(crate) fn push(&mut self, edit: Edit) -> Result<()> {
        let Some(at) = self.edits.iter().position(|other| other.row_key == edit.row_key) else {
            self.requires(&edit.row_key);
            self.edits.push(edit);
            return Ok(());
        };
        let (first, second) = (&self.edits[at], &edit);
        let both_copies =
            matches!((&first.source, &second.source), (Source::Copy(_), Source::Copy(_)));
        let replaced = match (&first.write, &second.write) {
            (Write::Delete(condition), Write::Insert(row))
            | (Write::Insert(row), Write::Delete(condition))
                if both_copies =>
            {
                let inserted = matches!(first.write, Write::Insert(_));
                let source = if inserted { first.source.clone() } else { second.source.clone() };
                if let Some(step) = self.step.filter(|_| !inserted) {
                    self.steps.insert(edit.row_key.clone(), step);
                }
                Edit {
                    row_key: edit.row_key.clone(),
                    write: Write::Replace(row.clone(), condition.clone()),
                    source,
                }
            }
            _ => return Err(met_twice(first, second)),
        };
        self.edits[at] = replaced;
        Ok(())
    }

    /// All operations of the transaction, the op row first.
    pub(crate) fn operations(&self) -> Result<Vec<Edit>> {
        let mut operations = Vec::with_capacity(self.edits.len() + self.rows.len() + 1);
        if self.has_op_row() {
            let row_key = self.op.row_key()?;
            let row = self.op_row().row(&self.partition_key, &row_key)?;
            let write = Write::Insert(EncodedRow::of(&row)?);
            operations.push(Edit { row_key, write, source: Source::Op });
        }
        operations.extend(self.edits.iter().cloned());
        for (row_key, row) in &self.rows {
            let write = match (&row.before, &row.after) {
                (None, None) => continue,
                (Some((before, _)), Some(after)) if before == after => continue,
                (None, Some(after)) => Write::Insert(EncodedRow::of(after)?),
                (Some((_, etag)), Some(after)) => {
                    Write::Replace(EncodedRow::of(after)?, Match::ETag(etag.clone()))
                }
                (Some((_, etag)), None) => Write::Delete(Match::ETag(etag.clone())),
            };
            let edit = Edit { row_key: row_key.clone(), write, source: Source::Edited };
            if let Some(other) = self.edits.iter().find(|other| other.row_key == *row_key) {
                return Err(met_twice(other, &edit).at_operation(self.step_of(row_key)));
            }
            operations.push(edit);
        }
        if operations.len() > MAX_OPERATIONS {
            let what = format!(
                "the write has {} operations with all rows that it keeps in step; \
                 {MAX_OPERATIONS} are allowed",
                operations.len()
            );
            let step = operations.get(MAX_OPERATIONS).and_then(|edit| self.step_of_edit(edit));
            let advice = match step {
                Some(_) => "write fewer entities in one transaction",
                // What the type declares fits, or the store would not have been built.
                None => {
                    "correct the declaration that adds more operations than its `operations` says"
                }
            };
            return Err(Error::refused(ErrorKind::TooLarge, what)
                .advise(advice)
                .at_operation(step));
        }
        Ok(operations)
    }

    fn op_row(&self) -> OpRow {
        let claims = self.claims.iter().map(|claim| claim.reference.clone());
        let released = self.released.iter().map(|released| released.reference.clone());
        let claims = claims.chain(released).collect();
        let (created, targets) = (self.op.created(), self.targets.clone());
        OpRow::Committed { created, targets, claims, trace: self.trace }
    }

    /// Returns the operations on the entities themselves.
    pub(crate) fn heads(&self) -> impl Iterator<Item = &Edit> {
        self.edits.iter().filter(|edit| matches!(edit.source, Source::Head))
    }
}

impl Write {
    /// Adds the operation to a transaction.
    pub(crate) fn add_to(
        &self,
        transaction: rowkey_client::Transaction,
        partition_key: &str,
        row_key: &str,
    ) -> rowkey_client::Transaction {
        match self {
            Self::Insert(row) => transaction.row(row, RowWrite::Insert),
            Self::Replace(row, condition) => {
                transaction.row(row, RowWrite::Replace(condition.clone()))
            }
            Self::Merge(row, condition) => transaction.row(row, RowWrite::Merge(condition.clone())),
            Self::Delete(condition) => {
                let key = rowkey_client::Key::<DynamicEntity>::new(partition_key, row_key);
                transaction.delete(key, condition.clone())
            }
        }
    }
}

/// Returns the error of two operations on one row.
fn met_twice(first: &Edit, second: &Edit) -> Error {
    match (&first.source, &second.source) {
        (Source::Head, Source::Head) => {
            let what = "an entity occurs twice in the transaction";
            Error::refused(ErrorKind::Invalid, what).advise("write each entity once")
        }
        (Source::Copy(_), Source::Copy(copy)) => {
            let what =
                format!("two entities of the transaction have the same value in `{}`", copy.index);
            Error::refused(ErrorKind::AlreadyExists, what)
                .in_index(copy.index)
                .advise("give each entity another value")
        }
        _ => {
            let what = "two parts of the write change the same row";
            Error::refused(ErrorKind::Invalid, what)
                .advise("give the rows of each declaration unique RowKeys")
        }
    }
}

#[cfg(test)]
mod tests;
