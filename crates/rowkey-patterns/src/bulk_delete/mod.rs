//! Deletes what a query finds: page by page, a hundred at a time, and so that it can go on later.
//!
//! - this file: [`BulkDelete`], what to delete and how
//! - `page`: the deletes of one page
//! - [`checkpoint`](Checkpoint): how far it is, as text that can be stored

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::table::Stream;
use rowkey::{DecodeError, Error, ErrorKind, Page, Projection, Query, Result};

use self::page::Deletes;
use crate::pace::Pace;

mod checkpoint;
mod page;

pub use checkpoint::{Checkpoint, Progress};

const OPERATION: &str = "BulkDelete";

/// Deletes the entities that a query finds.
///
/// Only keys are read, a page at a time. The entities of a page are deleted in entity group
/// transactions of up to 100, one of a partition after the other and several partitions at once.
/// Unless [`unconditionally`](Self::unconditionally) is said, an entity that was changed since it was
/// found stays. One that somebody else deletes meanwhile is no failure.
///
/// After each page there is a [`Checkpoint`]. Stored, it lets the work go on in another process after
/// a failure: give it to [`resume`](Self::resume) with the same query.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::{Entity, ScanPolicy, StorageAccount};
/// use rowkey_patterns::bulk_delete::BulkDelete;
///
/// #[derive(Entity)]
/// #[entity(partition = "{device}", row = "{number:6}")]
/// struct Event { device: String, number: u32, level: i32 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let events = account.table("events");
/// events.create_if_missing().await?;
/// for number in 0..20 {
///     let device = format!("device-{}", number % 3);
///     events.insert(&Event { device, number, level: i32::from(number % 2 == 0) }).await?;
/// }
///
/// let unimportant = events.scan::<Event>().scan_policy(ScanPolicy::Allow).filter(Event::LEVEL.is(0));
/// let mut checkpoints = BulkDelete::new(unimportant).per_second(500).checkpoints();
/// while let Some(checkpoint) = checkpoints.try_next().await? {
///     let stored: String = checkpoint.to_string(); // to be parsed and resumed from
///     # assert_eq!(stored.parse::<rowkey_patterns::bulk_delete::Checkpoint>()?, checkpoint);
///     assert!(checkpoint.is_finished());
///     assert_eq!(checkpoint.progress.deleted, 10);
/// }
/// # Ok(()) }
/// ```
///
/// The guide's section "High volume delete pattern" is about not having to do this: see
/// [`rollover`](crate::rollover).
#[must_use = "nothing is deleted until `run` or `checkpoints`"]
pub struct BulkDelete {
    query: Query<Keys>,
    settings: Settings,
    from: Checkpoint,
}

#[derive(Clone, Copy)]
struct Settings {
    in_flight: usize,
    per_second: Option<u32>,
    unconditionally: bool,
    dry_run: bool,
}

/// What is read of an entity that is to be deleted.
struct Keys {
    partition_key: String,
    row_key: String,
}

impl Projection for Keys {
    const COLUMNS: Option<&'static [&'static str]> = Some(&["PartitionKey", "RowKey"]);

    fn decode(row: &rowkey::entity::RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition_key: row.partition_key()?.to_owned(),
            row_key: row.row_key()?.to_owned(),
        })
    }
}

impl BulkDelete {
    /// Deletes what `query` finds. Its filter is the service's to judge, its page size the number of
    /// entities between two checkpoints.
    pub fn new<P: Projection + Send + 'static>(query: Query<P>) -> Self {
        let settings =
            Settings { in_flight: 8, per_second: None, unconditionally: false, dry_run: false };
        Self { query: query.project(), settings, from: Checkpoint::default() }
    }

    /// Deletes what was found even if it was changed since: somebody may have written it anew, and it
    /// may not match the query any more.
    pub fn unconditionally(mut self) -> Self {
        self.settings.unconditionally = true;
        self
    }

    /// How many partitions are worked on at once, at least 1. Default: 8.
    pub fn in_flight(mut self, partitions: usize) -> Self {
        self.settings.in_flight = partitions.max(1);
        self
    }

    /// Deletes at most so many entities a second, at least 1, so that others have something left of
    /// what the table can do. Without this it is as many as can be.
    pub fn per_second(mut self, entities: u32) -> Self {
        self.settings.per_second = Some(entities.max(1));
        self
    }

    /// Deletes nothing, and counts what would be ([`Progress::found`]).
    pub fn dry_run(mut self) -> Self {
        self.settings.dry_run = true;
        self
    }

    /// Goes on after this checkpoint, which must come from the same query.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.from = checkpoint;
        self
    }

    /// Deletes page by page. Each page that is done gives a checkpoint, the last of which is
    /// [finished](Checkpoint::is_finished).
    ///
    /// An error ends the stream. What the page had deleted until then is gone, is not found by a run
    /// that resumes, and is not counted.
    pub fn checkpoints(self) -> Stream<Checkpoint> {
        let Self { query, settings, from } = self;
        if from.dry_run != settings.dry_run && from != Checkpoint::default() {
            let what = "the checkpoint is of a dry run, or this is one and the checkpoint is not: \
                        what lies before it was not deleted";
            let error = Error::refused(ErrorKind::Invalid, what);
            let error = error.of(OPERATION, query.table().name());
            return stream::once(async { Err(error) }).boxed();
        }
        if from.finished {
            return stream::empty().boxed();
        }
        let table = query.table().clone();
        let query = match from.continuation.clone() {
            Some(continuation) => query.resume(continuation),
            None => query,
        };
        let pace = Pace::new(settings.per_second);
        let deletes = Deletes { table, settings, pace };
        let begun = (query.pages(), deletes, Checkpoint { dry_run: settings.dry_run, ..from });
        stream::try_unfold(begun, |(mut pages, deletes, mut checkpoint)| async move {
            if checkpoint.finished {
                return Ok(None);
            }
            let page = pages.try_next().await?;
            let page = page.unwrap_or(Page { entities: Vec::new(), continuation: None });
            checkpoint.progress.add(deletes.page(page.entities).await?);
            checkpoint.finished = page.continuation.is_none();
            checkpoint.continuation = page.continuation;
            Ok(Some((checkpoint.clone(), (pages, deletes, checkpoint))))
        })
        .boxed()
    }

    /// Deletes everything the query finds, and says how much it was.
    pub async fn run(self) -> Result<Progress> {
        let before = self.from.progress;
        let last = |_, checkpoint: Checkpoint| async move { Ok(checkpoint.progress) };
        self.checkpoints().try_fold(before, last).await
    }
}

impl fmt::Debug for BulkDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkDelete")
            .field("query", &self.query)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
