//! Parallel queries: many partitions, or ranges of keys, read as one stream.
//!
//! One query reads one partition at a time, and waits for each of its pages. What is spread over
//! many partitions is read sooner by several queries at once, as many as the service and the
//! memory can take: [`Parallel`].
//!
//! - this file: what to read and how · [`key_ranges`], a table in parts
//! - `run`: [`Results`], the reading itself
//! - `checkpoint`: [`Checkpoint`], how far each query is, as text that can be stored

use std::fmt;

use futures_util::{Stream, StreamExt as _, stream};
use rowkey::{
    Entity, Error, ErrorKind, Filter, Operator, Projection, Query, Result, Stored, Table,
};

mod checkpoint;
mod run;

pub use checkpoint::Checkpoint;
pub use run::Results;

const OPERATION: &str = "Parallel";

/// How many queries are read at a time, unless it is said otherwise.
const IN_FLIGHT: usize = 8;

/// Reads the results of many queries as one stream, several queries at a time.
///
/// The queries come from an iterator or a stream, which is asked for the next one only when there is
/// room: there may be any number of them. Each is of a partition, a range of one, or a part of a
/// table ([`key_ranges`]), with the filter, columns and page size that it was given.
///
/// Entities come as they arrive, a page at a time, unless an order is asked for:
/// [`in_given_order`](Self::in_given_order), [`by_key`](Self::by_key) or
/// [`by_row_key`](Self::by_row_key).
///
/// # Memory
///
/// A query holds a page at most, and asks for the next when that is used up. So there are at most
/// [`in_flight`](Self::in_flight) pages, of up to 1,000 entities; of a merge, one of every query. Make
/// pages smaller ([`Query::page_size`]) where entities are large or queries many.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_patterns::parallel::Parallel;
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
/// An error is of one query, and says of which: [`Failure`]. It ends the stream, unless
/// [`keep_going`](Self::keep_going) is said.
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

/// An entity, and where it was found.
#[derive(Clone, Debug)]
pub struct Found<P> {
    /// Which query found it, counted from 0 in the given order.
    pub query: usize,
    /// The PartitionKey as it is stored.
    pub partition_key: String,
    /// The RowKey as it is stored.
    pub row_key: String,
    /// The entity.
    pub stored: Stored<P>,
}

/// Why one of the queries found no more.
#[derive(Debug)]
pub struct Failure {
    /// Which query, counted from 0 in the given order. If the list of queries itself failed, how many
    /// were taken from it.
    pub query: usize,
    /// What happened. It quotes no keys.
    pub error: Error,
}

impl<P: Projection + Send + 'static> Parallel<P> {
    /// Reads these queries: `states.map(|state| airports.query(Airport::partition(state)))`.
    pub fn new(queries: impl IntoIterator<Item = Query<P>, IntoIter: Send + 'static>) -> Self {
        Self::of_stream(stream::iter(queries).map(Ok))
    }

    /// Reads the queries of a stream, which may be made of what another query finds. An error of the
    /// stream ends everything.
    pub fn of_stream(queries: impl Stream<Item = Result<Query<P>>> + Send + 'static) -> Self {
        let settings =
            Settings { order: Order::AsItComes, in_flight: IN_FLIGHT, keep_going: false };
        Self { queries: queries.boxed(), settings, take: None, from: Checkpoint::default() }
    }

    /// How many requests are under way at a time, at least 1, and how many queries are begun and not
    /// yet finished, unless they are merged. Default: 8.
    pub fn in_flight(mut self, queries: usize) -> Self {
        self.settings.in_flight = queries.max(1);
        self
    }

    /// One query after the other, in the order in which they were given.
    ///
    /// The first pages of those that are next are read ahead; what a query has beyond its first page
    /// is read when it is its turn, so large partitions take their time one by one.
    pub fn in_given_order(mut self) -> Self {
        self.settings.order = Order::Given;
        self
    }

    /// Merged by PartitionKey, then RowKey, then the given order: several tables as one, say.
    ///
    /// All queries are begun before the first entity comes, and a page of each is in memory.
    pub fn by_key(mut self) -> Self {
        self.settings.order = Order::Key;
        self
    }

    /// Merged by RowKey, then the given order: several partitions as one. As [`by_key`](Self::by_key)
    /// otherwise.
    ///
    /// Each query must be of one partition, for only that is sorted by RowKey: a query whose rows
    /// come in another order fails.
    pub fn by_row_key(mut self) -> Self {
        self.settings.order = Order::RowKey;
        self
    }

    /// Lets the other queries go on when one fails. The stream then has an error for each that failed,
    /// and a run that [resumes](Self::resume) tries them again.
    pub fn keep_going(mut self) -> Self {
        self.settings.keep_going = true;
        self
    }

    /// At most this many entities of all queries together. Then the stream ends, and requests that
    /// are under way are cancelled.
    pub fn take(mut self, entities: u64) -> Self {
        self.take = Some(entities);
        self
    }

    /// Goes on at this checkpoint, in this process or another. The same queries must be given in the
    /// same order; others are refused before anything is sent. There may be more of them by now.
    ///
    /// What was left of a [`take`](Self::take) is left, or less if less is taken now.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.from = checkpoint;
        self
    }

    /// Reads. Nothing happens unless the stream is polled, and dropping it cancels what is under way.
    pub fn stream(self) -> Results<P> {
        Results::new(self.queries, self.settings, self.take, self.from)
    }
}

/// The queries of a whole table in parts, cut at each PartitionKey of `cuts` as it is stored:
/// `["g", "n"]` makes three, of all partitions before `g`, of those from `g` on and before `n`, and of those from
/// `n` on. In the given order they are in the order of the table.
///
/// Each is a table scan of its part, which the [`ScanPolicy`](rowkey::ScanPolicy) has to allow. All
/// together read what one scan reads, sooner. Good places to cut are those that part the entities
/// evenly.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey_patterns::parallel::{Parallel, key_ranges};
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
/// Of kind [`ErrorKind::Invalid`] when the keys do not ascend: parts would overlap.
pub fn key_ranges<E: Entity + Send + 'static>(
    table: &Table,
    cuts: impl IntoIterator<Item = impl Into<String>>,
) -> Result<Vec<Query<E>>> {
    let cuts: Vec<String> = cuts.into_iter().map(Into::into).collect();
    if !cuts.is_sorted_by(|one, next| one.encode_utf16().lt(next.encode_utf16())) {
        let what = "the keys to cut the table at do not ascend";
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
