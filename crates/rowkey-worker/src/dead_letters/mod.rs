//! Dead letters: tasks that could not be processed, kept as rows of a table until redriven or purged.
//!
//! A queue can be neither listed nor filtered, and its messages cannot be addressed. So a worker that gives
//! up a task writes a row with the task, the reason, the cause and the history of its attempts. (Other names:
//! dead letter queue, error queue, poison queue, dead set.)
//!
//! - [`DeadLetters`]: lists, reads, redrives, purges and exports dead letters
//! - [`count_by_queue`]: counts those of all queues in a table
//! - [`Selection`]: selects the dead letters of a call
//! - `row`: the rows, a stored format
//! - `write`: writes a message as a row, and recognizes one that is delivered again
//! - `bulk`: operations on many dead letters
//! - `claims`: deletes blobs that no message and no dead letter needs

mod bulk;
mod claims;
mod letter;
mod row;
mod selection;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use rowkey_client::{
    Continuation, DynamicEntity, ETag, Filter, Operator, Partition, Query, Result, Table,
};
use rowkey_store::Deciding;

pub use crate::task::Failure;
pub use bulk::{Failed, Summary};
pub use letter::{DeadLetter, Inspected};
pub use selection::{Cause, Selection};

use row::{LETTERS, LetterRow, TaskRow, with_etag};
pub(crate) use write::NewDeadLetter;

use crate::errors::is_missing_table;
use crate::task::{Task, Tasks};

/// The default table of dead letters; [`Tasks::dead_letters_in`] sets another.
const TABLE: &str = "deadletters";

/// The maximum number of causes that the service compares: a filter has at most 15 comparisons.
const MAX_CAUSES: usize = 8;

/// The dead letters of a task queue: rows of a table, newest first.
///
/// ```
/// # use rowkey::worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
/// use rowkey::worker::dead_letters::{Cause, Inspected, Selection};
/// use rowkey::worker::{Attempt, Done, Step, Worker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
/// tasks.create_if_missing().await?;
/// let id = tasks.put(&SendWelcome { to: "ada".into() }).await?.to_string();
/// let worker = Worker::new(tasks.clone(), |_: SendWelcome, _: Attempt| async {
///     Ok(Done::Poison("that is no address".into()))
/// });
/// assert_eq!(worker.step().await?, Step::Poisoned);
///
/// let dead = tasks.dead_letters();
/// let letter = dead.get(&id).await?.ok_or("no letter")?;
/// assert_eq!((letter.cause, &*letter.reason), (Cause::Rejected, "that is no address"));
/// assert_eq!(letter.task, Inspected::Task(SendWelcome { to: "ada".into() }));
///
/// // After the program was mended:
/// let summary = dead.redrive(&Selection::all().cause(Cause::Rejected)).await?;
/// assert_eq!((summary.done, summary.failed), (1, 0));
/// # Ok(()) }
/// ```
///
/// Reads go to the primary only. A missing table has no dead letters; the first dead letter or
/// [`Tasks::create_if_missing`] creates it.
pub struct DeadLetters<T> {
    tasks: Tasks<T>,
    table: Deciding,
}

impl<T: Task> Tasks<T> {
    /// The dead letters of the queue.
    pub fn dead_letters(&self) -> DeadLetters<T> {
        let table = self.table.clone().unwrap_or_else(|| self.queue().account().table(TABLE));
        DeadLetters { tasks: self.clone(), table: Deciding::new(&table) }
    }

    /// Creates the queue, the table of dead letters and the container for claims, unless they exist.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.queue().create_if_missing().await?;
        self.dead_letters().table().create_if_missing().await?;
        if let Some(claims) = &self.claims {
            claims.create_if_missing().await?;
        }
        Ok(())
    }
}

impl<T: Task> DeadLetters<T> {
    /// The table that stores them. Its PartitionKeys are queue names.
    pub fn table(&self) -> &Table {
        self.table.table()
    }

    /// Returns the dead letter of the task with this id. The task is included even if it is stored in a blob.
    /// Two requests, three with a claim, one if there is no such dead letter.
    pub async fn get(&self, id: &str) -> Result<Option<DeadLetter<T>>> {
        match self.find(id).await? {
            Some((row, _)) => self.inspect(row, true).await.map(Some),
            None => Ok(None),
        }
    }

    /// Lists dead letters, newest first. Tasks that are stored in a blob are not read; [`get`](Self::get)
    /// reads them. One request for up to 1,000 dead letters.
    ///
    /// Fails with the service's errors. A row that another program damaged is listed as
    /// [`Inspected::Unreadable`].
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// use futures_util::TryStreamExt as _;
    /// use rowkey::worker::dead_letters::{Cause, Selection};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// # let poison = account.queue("welcome-poison");
    /// # poison.create().await?;
    /// # for to in ["ada", "kim"] {
    /// #     poison.put(rowkey::queue::Body::text(format!(r#"{{"to":"{to}"}}"#))).send().await?;
    /// # }
    /// # let _ = tasks.dead_letters().collect().await?;
    /// let dead = tasks.dead_letters();
    /// let foreign = Selection::all().cause(Cause::Foreign);
    /// assert_eq!(dead.count(&foreign).await?, 2);
    /// let mut letters = dead.list(&foreign);
    /// while let Some(letter) = letters.try_next().await? {
    ///     println!("{}: {}", letter.id, letter.reason);
    /// }
    ///
    /// let (first, next) = dead.page(&foreign, 1, None).await?;
    /// let (second, _) = dead.page(&foreign, 1, next).await?;
    /// assert!(first[0].put_aside >= second[0].put_aside);
    ///
    /// let mut lines = Vec::new(); // or a file
    /// assert_eq!(dead.export(&foreign, &mut lines).await?, 2);
    /// # Ok(()) }
    /// ```
    pub fn list(
        &self,
        which: &Selection,
    ) -> impl Stream<Item = Result<DeadLetter<T>>> + Send + Unpin + use<T> {
        let this = self.clone();
        let letters = self.rows(which, self.now()).and_then(move |(row, _)| {
            let this = this.clone();
            async move { this.inspect(row, false).await }
        });
        letters.boxed()
    }

    /// Returns one page of the [list](Self::list): at most `size` dead letters, 1 to 1000, from the end of an
    /// earlier page. A page may have fewer or none, and still have a continuation.
    ///
    /// Ages in `which` are measured when this is called, so a continuation is only valid for a selection
    /// without ages. With ages, use [`list`](Self::list).
    pub async fn page(
        &self,
        which: &Selection,
        size: u32,
        from: Option<Continuation>,
    ) -> Result<(Vec<DeadLetter<T>>, Option<Continuation>)> {
        let page = match self.query(which, self.now()).page(size, from).await {
            Err(error) if is_missing_table(&error) => return Ok((Vec::new(), None)),
            page => page?,
        };
        let rows = page.entities.iter().map(|stored| LetterRow::read(&stored.entity));
        let mut letters = Vec::new();
        for row in rows.filter(|row| which.has(row)) {
            letters.push(self.inspect(row, false).await?);
        }
        Ok((letters, page.continuation))
    }

    /// Counts dead letters. One request for up to 1,000 of them.
    pub async fn count(&self, which: &Selection) -> Result<u64> {
        self.rows(which, self.now()).try_fold(0, |count, _| async move { Ok(count + 1) }).await
    }

    /// Reads the row of a task's dead letter.
    async fn find(&self, id: &str) -> Result<Option<(LetterRow, ETag)>> {
        let Some((TaskRow { letter: Some(row_key), .. }, _)) = self.task_row(id).await? else {
            return Ok(None);
        };
        let key = rowkey_client::Key::<DynamicEntity>::new(self.queue(), row_key);
        Ok(self.table.get(key).await?.map(|stored| with_etag(stored, LetterRow::read)))
    }

    /// Reads the row of the task; `None` if the table does not exist.
    async fn task_row(&self, id: &str) -> Result<Option<(TaskRow, ETag)>> {
        match self.table.get(TaskRow::key(self.queue(), id)).await {
            Err(error) if is_missing_table(&error) => Ok(None),
            row => Ok(row?.map(|stored| with_etag(stored, TaskRow::read))),
        }
    }

    /// Returns whether the task with this id has a dead letter. One request.
    pub(crate) async fn has(&self, id: &str) -> Result<bool> {
        Ok(self.task_row(id).await?.is_some_and(|(row, _)| row.letter.is_some()))
    }

    /// Reads the rows of a selection, whose ages are measured at `now`.
    fn rows(
        &self,
        which: &Selection,
        now: DateTime<Utc>,
    ) -> impl Stream<Item = Result<(LetterRow, ETag)>> + Send + Unpin + use<T> {
        let selection = which.clone();
        let found = if let Some(id) = which.id.clone() {
            let this = self.clone();
            let one = async move { this.find(&id).await.transpose() };
            futures_util::stream::once(one).filter_map(std::future::ready).boxed()
        } else {
            let read = |stored| with_etag(stored, LetterRow::read);
            let stored = self.query(which, now).stream().map_ok(read);
            // A missing table has no rows.
            let is_there = |row: &Result<_>| !matches!(row, Err(error) if is_missing_table(error));
            stored.take_while(move |row| std::future::ready(is_there(row))).boxed()
        };
        let range = selection.range(now);
        found.try_filter(move |(row, _)| {
            std::future::ready(range.contains(&row.row_key()) && selection.has(row))
        })
    }

    fn query(&self, which: &Selection, now: DateTime<Utc>) -> Query<DynamicEntity> {
        let range = which.range(now);
        let partition = Partition::<DynamicEntity>::new(self.queue());
        let query = self.table.query(partition.row_keys(&*range.start..&*range.end));
        which.filters().into_iter().fold(query, Query::filter)
    }

    pub(crate) fn queue(&self) -> &str {
        self.tasks.queue().name()
    }

    fn now(&self) -> DateTime<Utc> {
        self.table().account().clock().now()
    }
}

impl Selection {
    /// The range of RowKeys for the selected ages.
    fn range(&self, now: DateTime<Utc>) -> std::ops::Range<String> {
        let ago = |age: Duration| {
            let age = chrono::TimeDelta::from_std(age).unwrap_or(chrono::TimeDelta::MAX);
            now.checked_sub_signed(age).unwrap_or(DateTime::UNIX_EPOCH)
        };
        row::letters(self.newer.map(ago), self.older.map(ago))
    }

    /// The conditions that the service evaluates.
    fn filters(&self) -> Vec<Filter> {
        let is = |name, value: String| Filter::dynamic(name, Operator::Equal, value);
        let causes = self.causes.iter().map(|cause| is("Cause", cause.to_string()));
        let causes = causes.reduce(Filter::or).filter(|_| self.causes.len() <= MAX_CAUSES);
        let kind = self.kind.clone().map(|kind| is("Kind", kind));
        let redriven = self.redriven_less_than.map(|times| {
            let times = i32::try_from(times).unwrap_or(i32::MAX);
            Filter::dynamic("Redriven", Operator::Less, times)
        });
        [causes, kind, redriven].into_iter().flatten().collect()
    }

    /// Returns whether a row matches all conditions except the age.
    fn has(&self, row: &LetterRow) -> bool {
        (self.causes.is_empty() || self.causes.contains(&row.cause))
            && self.id.as_ref().is_none_or(|id| *id == row.id)
            && self.kind.as_ref().is_none_or(|kind| Some(kind) == row.kind.as_ref())
            && self.reason.as_ref().is_none_or(|text| row.reason.contains(text))
            && self.redriven_less_than.is_none_or(|times| row.redriven < times)
    }
}

/// Counts the dead letters in a table by queue. Queues without any are missing, and a table that does not exist has none.
///
/// Reads the whole table, with one request for each 1,000 rows. [`DeadLetters::count`] reads those of one queue.
///
/// ```
/// use rowkey::worker::dead_letters;
/// # use rowkey::worker::{AnyTask, Tasks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let poison = account.queue("welcome-poison");
/// # poison.create().await?;
/// # poison.put(rowkey::queue::Body::text(r#"{"to":"ada"}"#)).send().await?;
/// # assert!(dead_letters::count_by_queue(&account.table("deadletters")).await?.is_empty());
/// # let _ = Tasks::<AnyTask>::new(account.queue("welcome")).dead_letters().collect().await?;
/// let counts = dead_letters::count_by_queue(&account.table("deadletters")).await?;
/// assert_eq!(counts["welcome"], 1);
/// # Ok(()) }
/// ```
pub async fn count_by_queue(table: &Table) -> Result<BTreeMap<String, u64>> {
    let is = |operator, key: &str| Filter::dynamic("RowKey", operator, key);
    let letters = is(Operator::GreaterOrEqual, LETTERS.start).and(is(Operator::Less, LETTERS.end));
    let query = Deciding::new(table).table().scan::<DynamicEntity>().filter(letters);
    let mut rows = query.select(["Cause"]).stream();
    let mut counts = BTreeMap::new();
    loop {
        match rows.try_next().await {
            Ok(Some(row)) => *counts.entry(row.entity.partition_key).or_default() += 1,
            Ok(None) => return Ok(counts),
            Err(error) if is_missing_table(&error) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        }
    }
}

/// Reads the text of a message of the kind `job` and writes it again. For fuzzing.
#[doc(hidden)]
pub fn reread_message(text: &str) -> Option<String> {
    crate::task::Envelope::read(text, "m1", "job").ok().map(|envelope| envelope.text("job"))
}

/// Reads a row as a dead letter and as a task, and writes both again. For fuzzing.
#[doc(hidden)]
pub fn reread_row(row: &DynamicEntity) -> [DynamicEntity; 2] {
    [LetterRow::read(row).entity(), TaskRow::read(row).entity()]
}

impl<T> Clone for DeadLetters<T> {
    fn clone(&self) -> Self {
        Self { tasks: self.tasks.clone(), table: self.table.clone() }
    }
}

impl<T> fmt::Debug for DeadLetters<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("tasks", &self.tasks)
            .field("table", self.table.table())
            .finish()
    }
}
