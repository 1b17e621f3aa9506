//! What a plan would send, for people.

use std::collections::BTreeSet;
use std::fmt;

use rowkey::Result;

use super::{Plan, Source, Write};

/// A write plan as text: its requests, its operations and their conditions, without keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    lines: Vec<String>,
    requests: usize,
    operations: usize,
}

impl Explanation {
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let operations = plan.operations()?;
        let mut lines = Vec::new();
        let mut requests = 1;
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
                Source::Copy(copy) => format!("copy in {}", copy.index),
                Source::Edited => "edited row".to_owned(),
                Source::Note => "row beside it".to_owned(),
            };
            let (verb, condition) = match &edit.write {
                Write::Insert(_) => ("insert", "if it is new"),
                Write::Replace(_, rowkey::Match::Any) => ("replace", "if it is there"),
                Write::Replace(..) => ("replace", "if it is as it was read"),
                Write::Upsert(_) => ("insert or replace", "in any case"),
                Write::Delete(rowkey::Match::Any) => ("delete", "if it is there"),
                Write::Delete(_) => ("delete", "if it is as it was read"),
            };
            lines.push(format!("commit: {verb} the {what}, {condition}"));
        }
        for target in &plan.targets {
            lines.push(format!("settle: {}", target.contributor));
            requests += 3;
        }
        for claim in &plan.released {
            lines.push(format!("settle: release a value of {}", claim.name));
            requests += 4;
        }
        // Each entity is read again when its targets are settled.
        let entities: BTreeSet<_> = plan.targets.iter().map(|target| &target.row_key).collect();
        requests += entities.len();
        Ok(Self { lines, requests, operations: operations.len() })
    }

    /// The most requests that it takes if nothing fails and no other writer is met, without the reads
    /// that made the plan.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The operations of the transaction, of the 100 that one has.
    pub fn operations(&self) -> usize {
        self.operations
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} operations, at most {} requests", self.operations, self.requests)
    }
}
