//! Explanations: a plan as readable text.

use std::collections::BTreeSet;
use std::fmt;

use rowkey_client::Result;

use super::inline::{Effect, Known};
use super::{Plan, Source, Write};

/// A write plan as text: its requests, its operations and their conditions, without keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    lines: Vec<String>,
    reads: usize,
    requests: usize,
    operations: usize,
}

impl Explanation {
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let operations = plan.operations()?;
        let mut explained = Self::default();
        if plan.heads_read > 0 {
            explained.read("the entity, on the primary", plan.heads_read);
        }
        if !plan.rows.is_empty() {
            explained.read("rows beside it, on the primary", plan.rows.len());
        }
        if !plan.joined.is_empty() {
            explained.read("lists elsewhere that it joins, on the primary", plan.joined.len());
        }
        let Self { mut lines, reads, .. } = explained;
        let mut requests = 1;
        for upload in &plan.uploads {
            lines.push(format!("prepare: upload the blob of {}", upload.property));
            requests += 1;
        }
        if plan.has_op_row() {
            lines.push("prepare: put a message, hidden".to_owned());
            requests += 3;
        }
        for claim in &plan.claims {
            lines.push(format!("prepare: claim a value of {}", claim.index));
            requests += 1;
        }
        for edit in &operations {
            let what = match &edit.source {
                Source::Op => "op row".to_owned(),
                Source::Head => "entity".to_owned(),
                Source::Further(_) => "further row of the entity".to_owned(),
                Source::Copy(copy) => format!("copy in {}", copy.index),
                Source::Edited => "edited row".to_owned(),
                Source::Note => "row beside it".to_owned(),
            };
            let (verb, condition) = match &edit.write {
                Write::Insert(_) => ("insert", "if it is new"),
                Write::Replace(_, rowkey_client::Match::Any) => ("replace", "if it is there"),
                Write::Replace(..) => ("replace", "if it is as it was read"),
                Write::Merge(_, rowkey_client::Match::Any) => ("merge into", "if it is there"),
                Write::Merge(..) => ("merge into", "if it is as it was read"),
                Write::Delete(rowkey_client::Match::Any) => ("delete", "if it is there"),
                Write::Delete(_) => ("delete", "if it is as it was read"),
            };
            lines.push(format!("commit: {verb} the {what}, {condition}"));
        }
        // Each entity whose targets are not written at once is read again at the end.
        let mut entities = BTreeSet::new();
        for target in &plan.targets {
            lines.push(format!("settle: {}", target.declaration));
            let inline = plan.inline.iter().find(|inline| inline.target == *target);
            requests += match inline.map(|inline| &inline.effect) {
                Some(Effect::Row(row)) if row.known == Known::New => 1,
                Some(Effect::Row(row)) if matches!(row.known, Known::Present(_)) => 1,
                // It is looked at before the commit.
                Some(Effect::Row(_)) => 2,
                Some(Effect::Free(_)) => 1,
                None => {
                    entities.insert(&target.row_key);
                    3
                }
            };
        }
        for released in &plan.released {
            lines.push(format!("settle: release a value of {}", released.reference.name));
            // It is looked at before the commit, unless this program remembers it.
            requests += if released.etag.is_some() { 1 } else { 2 };
        }
        requests += entities.len();
        Ok(Self { lines, reads, requests, operations: operations.len() })
    }

    /// Adds a number of read requests.
    pub(crate) fn read(&mut self, what: &str, requests: usize) {
        self.lines.push(format!("read: {what}"));
        self.reads = self.reads.saturating_add(requests);
    }

    /// Explains a single merge request that changes properties and reads nothing.
    pub(crate) fn merge(properties: usize) -> Self {
        let line = format!("commit: merge {properties} properties into the entity, if it is there");
        Self { lines: vec![line], reads: 0, requests: 1, operations: 1 }
    }

    /// Appends another plan, which runs after this one.
    pub(crate) fn add(&mut self, entities: usize, other: &Self) {
        let Self { reads, requests, operations, .. } = other;
        self.lines.push(format!("transaction: {entities} entities, {operations} operations"));
        self.reads += reads;
        self.requests += requests;
        self.operations += operations;
    }

    /// The number of read requests: those that make the plan, and those that return the results of
    /// a query.
    pub fn reads(&self) -> usize {
        self.reads
    }

    /// The most requests that the plan takes without failures and competing writers, not counting
    /// the [`reads`](Self::reads).
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The number of operations in the transaction, of at most 100.
    pub fn operations(&self) -> usize {
        self.operations
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} operations, at most {} requests", self.operations, self.requests)?;
        match self.reads {
            0 => Ok(()),
            reads => write!(f, " and {reads} reads"),
        }
    }
}
