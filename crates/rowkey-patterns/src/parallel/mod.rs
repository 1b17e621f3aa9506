//! Parallel queries: many partitions, or key ranges, read as one stream.
//!
//! One query reads one partition at a time, and waits for each of its pages. [`Parallel`] reads data in many
//! partitions sooner, by running as many queries concurrently as the service and the memory allow.
//!
//! - this file: configuration · [`key_ranges`], a table in parts
//! - `run`: [`Results`], reading
//! - `checkpoint`: [`Checkpoint`], the progress of each query, as text that can be stored

use std::fmt;

use futures_util::{Stream, StreamExt as _, stream};
use rowkey_client::internals::compare_keys;
use rowkey_client::{
    Entity, Error, ErrorKind, FailedRow, Filter, Operator, Projection, Query, Result, Stored, Table,
};

mod checkpoint;
mod run;

pub use checkpoint::Checkpoint;
pub use run::Results;

const OPERATION: &str = "Parallel";

/// The default number of queries read concurrently.
const IN_FLIGHT: usize = 8;

/// Reads the results of many queries as one stream, several queries concurrently.
///
/// The queries come from an iterator or a stream, from which the next is taken only when there is room, so
/// their number is unlimited. Each query covers a partition, a range of one, or a part of a table
/// ([`key_ranges`]), with its own filter, columns and page size.
///
/// Entities are returned as they arrive, a page at a time, unless an order is set:
/// [`in_given_order`](Self::in_given_order), [`by_key`](Self::by_key) or [`by_row_key`](Self::by_row_key).
///
/// # Memory
///
/// A query holds at most one page, and requests the next when that is used up. So there are at most
/// [`in_flight`](Self::in_flight) pages of up to 1,000 entities in memory; a merge holds one page of every
/// query. Use smaller pages ([`Query::page_size`]) if entities are large or queries many.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::patterns::parallel::Parallel;
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Debug, Entity)]
/// #[entity(partition = "{state}", row = "{code}")]
/// struct Airport {
///     state: String,
///     code: String,
///     name: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let airports = account.table("airports");
/// # airports.create().await?;
/// for (state, code, name) in [("WA", "SEA", "Seattle"), ("CA", "SFO", "San Francisco")] {
///     airports.insert(&Airport { state: state.into(), code: code.into(), name: name.into() }).await?;
/// }
///
/// let coast = ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
/// let found = Parallel::new(coast).in_given_order().stream();
/// let names: Vec<_> = found.map_ok(|found| found.stored.entity.name).try_collect().await?;
/// assert_eq!(names, ["Seattle", "San Francisco"]);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// An error belongs to one query, and [`Failure`] names it. It ends the stream unless
/// [`keep_going`](Self::keep_going) is set. A row that does not decode is an error of its own, with the row's
/// keys: the stream continues after it if it is polled again. [`Found`] and such rows count for
/// [`take`](Self::take).
#[must_use = "nothing is read before `stream`"]
pub struct Parallel<P> {
    queries: stream::BoxStream<'static, Result<Query<P>>>,
    settings: Settings,
    take: Option<u64>,
    from: Checkpoint,
}

#[derive(Clone, Copy)]
struct Settings {
    order: Order,
    in_flight: usize,
    keep_going: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    AsItComes,
    Given,
    /// By PartitionKey and RowKey.
    Key,
    RowKey,
}

/// An entity, and the place where it was found.
#[derive(Clone, Debug)]
pub struct Found<P> {
    /// The query that found it, as an index into the given order.
    pub query: usize,
    /// The PartitionKey as stored.
    pub partition_key: String,
    /// The RowKey as stored.
    pub row_key: String,
    /// The entity.
    pub stored: Stored<P>,
}

/// The error that ended a query, or of a row that does not decode.
#[derive(Debug)]
pub struct Failure {
    /// The query, as an index into the given order. If the list of queries itself failed, the number of
    /// queries taken from it.
    pub query: usize,
    /// The row that does not decode; `None` for errors that end a query. Its `Debug` output does not show the
    /// keys.
    pub row: Option<FailedRow>,
    /// The error. It quotes no keys.
    pub error: Error,
}

impl<P: Projection + Send + 'static> Parallel<P> {
    /// Reads these queries: `states.map(|state| airports.query(Airport::partition(state)))`.
    pub fn new(queries: impl IntoIterator<Item = Query<P>, IntoIter: Send + 'static>) -> Self {
        Self::of_stream(stream::iter(queries).map(Ok))
    }

    /// Reads the queries of a stream, for example derived from the results of another query. An error of the
    /// stream ends the whole read.
    ///
    /// ```
    /// use futures_util::stream::{self, StreamExt as _};
    ///
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::parallel::Parallel;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{state}", row = "{code}")]
    /// # struct Airport { state: String, code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let airports = account.table("airports");
    /// # airports.create().await?;
    /// # for (state, code) in [("WA", "SEA"), ("CA", "SFO"), ("CA", "LAX"), ("OR", "PDX")] {
    /// #     airports.insert(&Airport { state: state.into(), code: code.into() }).await?;
    /// # }
    /// let coast = || ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
    /// # let _ = coast;
    /// let queries = stream::iter(["WA", "CA"]).map({
    ///     let airports = airports.clone();
    ///     move |state| Ok(airports.query(Airport::partition(state)))
    /// });
    /// let found: Vec<_> = Parallel::of_stream(queries).in_flight(2).stream().try_collect().await?;
    /// assert_eq!(found.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn of_stream(queries: impl Stream<Item = Result<Query<P>>> + Send + 'static) -> Self {
        let settings =
            Settings { order: Order::AsItComes, in_flight: IN_FLIGHT, keep_going: false };
        Self { queries: queries.boxed(), settings, take: None, from: Checkpoint::default() }
    }

    /// Sets how many requests run concurrently, at least 1. Also limits how many queries are started but not
    /// finished, except in a merge. Default: 8.
    pub fn in_flight(mut self, queries: usize) -> Self {
        self.settings.in_flight = queries.max(1);
        self
    }

    /// Returns the results of one query after the other, in the given order.
    ///
    /// The first pages of the next queries are read ahead; further pages of a query are read when the queries
    /// before it are finished, so large partitions are read one after another.
    pub fn in_given_order(mut self) -> Self {
        self.settings.order = Order::Given;
        self
    }

    /// Merges by PartitionKey, then RowKey, then the given order: for example, several tables as one.
    ///
    /// All queries are started before the first entity is returned, and a page of each is in memory.
    ///
    /// ```
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::parallel::Parallel;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{state}", row = "{code}")]
    /// # struct Airport { state: String, code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let airports = account.table("airports");
    /// # airports.create().await?;
    /// # for (state, code) in [("WA", "SEA"), ("CA", "SFO"), ("CA", "LAX"), ("OR", "PDX")] {
    /// #     airports.insert(&Airport { state: state.into(), code: code.into() }).await?;
    /// # }
    /// let coast = || ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
    /// let found = Parallel::new(coast()).by_key().stream();
    /// let states: Vec<_> = found.map_ok(|found| found.partition_key).try_collect().await?;
    /// assert_eq!(states, ["CA", "CA", "OR", "WA"]);
    /// # Ok(()) }
    /// ```
    pub fn by_key(mut self) -> Self {
        self.settings.order = Order::Key;
        self
    }

    /// Merges by RowKey, then the given order: several partitions as one. Otherwise like
    /// [`by_key`](Self::by_key).
    ///
    /// Each query must cover one partition, because only a partition is sorted by RowKey: a query whose rows
    /// arrive in another order fails.
    ///
    /// ```
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::parallel::Parallel;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{state}", row = "{code}")]
    /// # struct Airport { state: String, code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let airports = account.table("airports");
    /// # airports.create().await?;
    /// # for (state, code) in [("WA", "SEA"), ("CA", "SFO"), ("CA", "LAX"), ("OR", "PDX")] {
    /// #     airports.insert(&Airport { state: state.into(), code: code.into() }).await?;
    /// # }
    /// let coast = || ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
    /// let found = Parallel::new(coast()).by_row_key().take(3).stream();
    /// let codes: Vec<_> = found.map_ok(|found| found.row_key).try_collect().await?;
    /// assert_eq!(codes, ["LAX", "PDX", "SEA"]);
    /// # Ok(()) }
    /// ```
    pub fn by_row_key(mut self) -> Self {
        self.settings.order = Order::RowKey;
        self
    }

    /// Continues the other queries when one fails. The stream then returns an error for each failed query,
    /// and a run that [resumes](Self::resume) tries them again.
    ///
    /// ```
    /// use futures_util::StreamExt as _;
    ///
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::parallel::Parallel;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{state}", row = "{code}")]
    /// # struct Airport { state: String, code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let airports = account.table("airports");
    /// # airports.create().await?;
    /// # for (state, code) in [("WA", "SEA"), ("CA", "SFO"), ("CA", "LAX"), ("OR", "PDX")] {
    /// #     airports.insert(&Airport { state: state.into(), code: code.into() }).await?;
    /// # }
    /// let coast = || ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
    /// # let _ = coast;
    /// let missing = account.table("missing").query(Airport::partition("WA"));
    /// let queries = [missing, airports.query(Airport::partition("CA"))];
    /// let all = Parallel::new(queries).in_given_order().keep_going();
    /// let results: Vec<_> = all.stream().collect().await;
    /// assert_eq!(results[0].as_ref().unwrap_err().query, 0);
    /// assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2);
    /// # Ok(()) }
    /// ```
    pub fn keep_going(mut self) -> Self {
        self.settings.keep_going = true;
        self
    }

    /// Returns at most this many entities of all queries together. Then the stream ends, and requests in
    /// flight are cancelled.
    pub fn take(mut self, entities: u64) -> Self {
        self.take = Some(entities);
        self
    }

    /// Resumes from this checkpoint, in this process or another. The same queries must be given in the same
    /// order; otherwise this fails before anything is sent. More queries may follow them.
    ///
    /// The remaining count of a [`take`](Self::take) still applies, or the new `take` if that is smaller.
    ///
    /// ```
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::parallel::Parallel;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{state}", row = "{code}")]
    /// # struct Airport { state: String, code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let airports = account.table("airports");
    /// # airports.create().await?;
    /// # for (state, code) in [("WA", "SEA"), ("CA", "SFO"), ("CA", "LAX"), ("OR", "PDX")] {
    /// #     airports.insert(&Airport { state: state.into(), code: code.into() }).await?;
    /// # }
    /// let coast = || ["WA", "OR", "CA"].map(|state| airports.query(Airport::partition(state)));
    /// let mut found = Parallel::new(coast()).in_given_order().stream();
    /// assert_eq!(found.try_next().await?.ok_or("there are airports")?.row_key, "SEA");
    /// let stored = found.checkpoint().to_string();
    ///
    /// let rest = Parallel::new(coast()).in_given_order().resume(stored.parse()?);
    /// let codes: Vec<_> = rest.stream().map_ok(|found| found.row_key).try_collect().await?;
    /// assert_eq!(codes, ["PDX", "LAX", "SFO"]);
    /// # Ok(()) }
    /// ```
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.from = checkpoint;
        self
    }

    /// Returns the results. Nothing happens until the stream is polled, and dropping it cancels requests in
    /// flight.
    pub fn stream(self) -> Results<P> {
        Results::new(self.queries, self.settings, self.take, self.from)
    }
}

/// Splits a whole table into queries, cut at each PartitionKey in `cuts` as stored: `["g", "n"]` gives three,
/// for all partitions before `g`, those from `g` up to but excluding `n`, and those from `n`. In the given
/// order, the results are in table order.
///
/// Each query is a table scan of its part, which the [`ScanPolicy`](rowkey_client::ScanPolicy) must allow. Together
/// they read what one scan reads, sooner. Good cuts split the entities evenly.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::patterns::parallel::{Parallel, key_ranges};
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Entity)]
/// # #[entity(partition = "{name}", row = "_")]
/// # struct User { name: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let users = account.table("users");
/// # users.create().await?;
/// # for name in ["zoe", "ada", "grace"] { users.insert(&User { name: name.into() }).await?; }
/// let parts = key_ranges::<User>(&users, ["g", "n"])?;
/// let all = Parallel::new(parts).in_given_order().stream();
/// let names: Vec<_> = all.map_ok(|found| found.partition_key).try_collect().await?;
/// assert_eq!(names, ["ada", "grace", "zoe"]);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Of kind [`ErrorKind::Invalid`] if the keys do not ascend: parts would overlap.
pub fn key_ranges<E: Entity + Send + 'static>(
    table: &Table,
    cuts: impl IntoIterator<Item = impl Into<String>>,
) -> Result<Vec<Query<E>>> {
    let cuts: Vec<String> = cuts.into_iter().map(Into::into).collect();
    if !cuts.is_sorted_by(|one, next| compare_keys(one, next).is_lt()) {
        let what = "the split keys must ascend";
        return Err(Error::refused(ErrorKind::Invalid, what).of(OPERATION, table.name()));
    }
    let key = |operator, cut: &String| Filter::dynamic("PartitionKey", operator, cut.as_str());
    Ok((0..=cuts.len())
        .map(|part| {
            let mut query = table.scan::<E>();
            if let Some(cut) = part.checked_sub(1).and_then(|before| cuts.get(before)) {
                query = query.filter(key(Operator::GreaterOrEqual, cut));
            }
            if let Some(cut) = cuts.get(part) {
                query = query.filter(key(Operator::Less, cut));
            }
            query
        })
        .collect())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query {}: {}", self.query, self.error)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<P> fmt::Debug for Parallel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parallel")
            .field("in_flight", &self.settings.in_flight)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
