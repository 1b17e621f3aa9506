//! Explanations: a plan as readable text.

use std::fmt;

use rowkey_client::Result;
use rowkey_client::cost::{Class, Usage};

use super::{Plan, Source, Write};

/// A write plan as text: its requests, its operations and their conditions, without keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    lines: Vec<String>,
    reads: Usage,
    writes: Usage,
    operations: usize,
}

impl Explanation {
    /// Explains a plan that took `read` to make and uses `writes` when it is run.
    pub(crate) fn of(plan: &Plan, read: Usage, writes: Usage) -> Result<Self> {
        let operations = plan.operations()?;
        // As for reads that are not made yet, without what was received and what was not billed.
        let reads = read.iter().map(|(class, count)| Usage::of(class, count)).sum();
        let mut explained = Self { reads, ..Self::default() };
        if plan.heads_read > 0 {
            explained.lines.push("read: the entity, on the primary".to_owned());
        }
        if !plan.rows.is_empty() {
            explained.lines.push("read: rows beside it, on the primary".to_owned());
        }
        if !plan.joined.is_empty() {
            let joined = "lists elsewhere that it joins, on the primary";
            explained.read(joined, Class::TableRead, plan.joined.len());
        }
        let Self { mut lines, reads, .. } = explained;
        for upload in &plan.uploads {
            lines.push(format!("prepare: upload the blob of {}", upload.property));
        }
        if plan.has_op_row() {
            lines.push("prepare: put a message, hidden".to_owned());
        }
        for claim in &plan.claims {
            lines.push(format!("prepare: claim a value of {}", claim.index));
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
        for target in &plan.targets {
            lines.push(format!("settle: {}", target.declaration));
        }
        for released in &plan.released {
            lines.push(format!("settle: release a value of {}", released.reference.name));
        }
        Ok(Self { lines, reads, writes, operations: operations.len() })
    }

    /// Adds a number of read requests.
    pub(crate) fn read(&mut self, what: &str, class: Class, requests: usize) {
        self.lines.push(format!("read: {what}"));
        self.reads += Usage::of(class, requests as u64);
    }

    /// Explains a single merge request that changes properties and reads nothing.
    pub(crate) fn merge(properties: usize) -> Self {
        let line = format!("commit: merge {properties} properties into the entity, if it is there");
        let writes = Usage::of(Class::TableWrite, 1);
        Self { lines: vec![line], reads: Usage::default(), writes, operations: 1 }
    }

    /// Appends another plan, which runs after this one.
    pub(crate) fn add(&mut self, entities: usize, other: &Self) {
        let Self { reads, writes, operations, .. } = other;
        self.lines.push(format!("transaction: {entities} entities, {operations} operations"));
        self.reads += *reads;
        self.writes += *writes;
        self.operations += operations;
    }

    /// The number of read requests: those that make the plan, and those that return the results of
    /// a query.
    pub fn reads(&self) -> usize {
        count(self.reads)
    }

    /// The requests that the plan takes without failures and competing writers, not counting the
    /// [`reads`](Self::reads).
    ///
    /// Writes in flight at the same time, and those of a job, share their clean-up and take fewer. A declaration that
    /// finds something else than it [says](crate::Declaration::settling_usage) takes fewer or more.
    pub fn requests(&self) -> usize {
        count(self.writes)
    }

    /// The transactions by billing class of [`requests`](Self::requests) and [`reads`](Self::reads), and the bytes of the
    /// bodies that they send, without those of rows that settling reads first. The time in the mark of a write has up to
    /// seven decimals, so it may be up to seven bytes longer or shorter than that of the plan. How many bytes are
    /// received is not known before.
    ///
    /// A [`PriceTable`](rowkey_client::cost::PriceTable) prices it, and a [`Meter`](rowkey_client::cost::Meter) counts what
    /// the write used.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// use rowkey::cost::{Class, Meter};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// #[entity(unique(name = by_email, value = "{email:lower}"))]
    /// struct User { tenant: String, id: u32, email: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    /// # users.create_if_missing().await?;
    /// let user = User { tenant: "contoso".into(), id: 1, email: "ada@contoso.com".into() };
    /// let planned = users.explain().insert(&user).await?.usage();
    /// assert_eq!(planned.transactions(Class::TableBatchWrite), 1);
    ///
    /// let meter = Meter::new();
    /// meter.scope(users.insert(&user)).await?;
    /// assert!(meter.usage().sent().abs_diff(planned.sent()) <= 7);
    /// # Ok(()) }
    /// ```
    pub fn usage(&self) -> Usage {
        self.reads + self.writes
    }

    /// The number of operations in the transaction, of at most 100.
    pub fn operations(&self) -> usize {
        self.operations
    }
}

fn count(usage: Usage) -> usize {
    usize::try_from(usage.requests()).unwrap_or(usize::MAX)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} operations, {} requests", self.operations, self.requests())?;
        match self.reads() {
            0 => {}
            reads => write!(f, " and {reads} reads")?,
        }
        let classes = self.usage();
        let classes = classes.iter().map(|(class, count)| format!("{count} {class}"));
        write!(f, ": {}", classes.collect::<Vec<_>>().join(", "))
    }
}
