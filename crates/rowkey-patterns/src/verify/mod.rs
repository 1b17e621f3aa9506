//! Verifies the declared indexes of a table, mends them, and builds new ones while writers go on.
//!
//! A copy falls out of step with its entity when somebody writes to the table past the pattern that
//! keeps it, when a worker that keeps it is behind, or when the index was declared after the entities
//! were stored. [`Verify`] reads every entity and every copy once and counts what is missing, stale or
//! left over; [`repair`](Verify::repair) mends it, and [`build`](Verify::build) is the same for an index
//! that does not exist yet. All kinds of indexes are verified, those in other partitions and tables
//! as well.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_patterns::verify::{Checkpoint, Verify};
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! #[entity(index(name = by_email, row = "email_{email:lower}"))]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     email: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! # account.table("staff").create().await?;
//! // Stored before there was an index.
//! let table = account.table("staff");
//! let ada = Employee { department: "sales".into(), id: 7, email: "ada@contoso.com".into() };
//! table.insert(&ada).await?;
//! let verify = Verify::<Employee>::new(table);
//! let mut check = verify.check();
//! let report = check.run().await?;
//! assert_eq!(report.index("by_email").map(|index| index.missing), Some(1));
//!
//! // At most 500 requests a second, in steps that can be gone on from after a crash.
//! let mut build = verify.requests_per_second(500).build("by_email");
//! while build.step().await? {
//!     let stored = serde_json::to_string(build.checkpoint())?;
//!     // ... and in another process, `build.resume(serde_json::from_str(&stored)?)`.
//! #   let _: Checkpoint = serde_json::from_str(&stored)?;
//! }
//! assert_eq!(build.report().index("by_email").map(|index| index.mended), Some(1));
//! # Ok(())
//! # }
//! ```

mod examine;
mod report;
mod run;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rowkey::{Entity, Error, ErrorKind, Result, Table};

use examine::OPERATION;
pub use report::{Checkpoint, Drift, Finding, IndexReport, Report};
pub use run::Run;

const CONCURRENCY: usize = 16;
const PAGE: u32 = 1000;

/// The entities of type `E` in a table, and their copies in the indexes that `E` declares: what to
/// verify, and how fast.
pub struct Verify<E> {
    primary: Table,
    /// The tables of indexes that are not in that of the entities.
    elsewhere: Vec<(Vec<String>, Table)>,
    /// The names of the indexes, if not all.
    only: Option<Vec<String>>,
    requests_per_second: Option<u32>,
    concurrency: usize,
    page_size: u32,
    found: Arc<dyn Fn(&Finding) + Send + Sync>,
    entity: PhantomData<fn() -> E>,
}

/// What to verify.
impl<E: Entity + Send + Sync + 'static> Verify<E> {
    /// All indexes of `E`, in the table of its entities. Sends nothing.
    pub fn new(table: Table) -> Self {
        Self {
            primary: table,
            elsewhere: Vec::new(),
            only: None,
            requests_per_second: None,
            concurrency: CONCURRENCY,
            page_size: PAGE,
            found: Arc::new(|_| {}),
            entity: PhantomData,
        }
    }

    /// The indexes with these names are in another table.
    #[must_use = "the settings themselves do not change"]
    pub fn index_table<N: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = N>,
        table: Table,
    ) -> Self {
        self.elsewhere.push((names.into_iter().map(Into::into).collect(), table));
        self
    }

    /// Only the indexes with these names.
    #[must_use = "the settings themselves do not change"]
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sends no more requests in a second than this, so that the table's other users are not slowed
    /// down; as many as there are answers, if it is not set.
    #[must_use = "the settings themselves do not change"]
    pub fn requests_per_second(mut self, requests: u32) -> Self {
        self.requests_per_second = Some(requests);
        self
    }

    /// How many rows are looked at closely at a time; 16 unless set.
    #[must_use = "the settings themselves do not change"]
    pub fn concurrency(mut self, rows: usize) -> Self {
        self.concurrency = rows.max(1);
        self
    }

    /// How many rows a step reads, 1 to 1000, which is what it is unless set. So many are in memory.
    #[must_use = "the settings themselves do not change"]
    pub fn page_size(mut self, rows: u32) -> Self {
        self.page_size = rows;
        self
    }

    /// Calls `found` with each row that is out of step, at the end of the step that found it.
    #[must_use = "the settings themselves do not change"]
    pub fn found(mut self, found: impl Fn(&Finding) + Send + Sync + 'static) -> Self {
        self.found = Arc::new(found);
        self
    }
}

/// What to do about it.
impl<E: Entity + Send + Sync + 'static> Verify<E> {
    /// Counts what is out of step, and writes nothing.
    ///
    /// A row counts only if reading it again proves that it is not just being written. Copies in other
    /// partitions that a worker has yet to write do count.
    pub fn check(&self) -> Run<E> {
        Run::new(self.clone(), false)
    }

    /// Counts what is out of step, and mends it: writes what is missing or stale, deletes what is left
    /// over. Writers may go on meanwhile.
    pub fn repair(&self) -> Run<E> {
        Run::new(self.clone(), true)
    }

    /// Adds an index to a table that is in use: [`repair`](Self::repair), of the index with this name
    /// alone.
    ///
    /// Begin when all writers keep the new index, so that what they write is not missed. Look things
    /// up in it when the run is done.
    pub fn build(&self, index: &str) -> Run<E> {
        self.clone().only([index]).repair()
    }

    /// The tables to read, that of the entities first, and the places of the indexes in each.
    fn sources(&self) -> Result<Vec<(Table, Vec<usize>)>> {
        let place = |name: &String| {
            let place = E::INDEXES.iter().position(|index| index.name == name);
            place.ok_or_else(|| self.refused("the type has no index of this name"))
        };
        let mut wanted: Vec<usize> = match &self.only {
            Some(names) => names.iter().map(place).collect::<Result<_>>()?,
            None => (0..E::INDEXES.len()).collect(),
        };
        let mut elsewhere = Vec::new();
        for (names, table) in &self.elsewhere {
            let places: Vec<_> = names.iter().map(place).collect::<Result<_>>()?;
            if places.iter().any(|&place| !examine::is_elsewhere::<E>(place)) {
                return Err(self.refused(
                    "an index in the partition of its entities cannot be in another table",
                ));
            }
            let (here, rest) = wanted.into_iter().partition(|place| places.contains(place));
            wanted = rest;
            elsewhere.push((table.clone(), here));
        }
        elsewhere.insert(0, (self.primary.clone(), wanted));
        Ok(elsewhere)
    }

    fn refused(&self, what: &'static str) -> Error {
        Error::refused(ErrorKind::Invalid, what).of(OPERATION, self.primary.name())
    }
}

impl<E> Clone for Verify<E> {
    fn clone(&self) -> Self {
        Self {
            primary: self.primary.clone(),
            elsewhere: self.elsewhere.clone(),
            only: self.only.clone(),
            requests_per_second: self.requests_per_second,
            concurrency: self.concurrency,
            page_size: self.page_size,
            found: Arc::clone(&self.found),
            entity: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Verify<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("table", &self.primary.name())
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}
