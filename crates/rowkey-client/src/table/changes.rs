//! The entities that were written since a watermark: a reader of changes with a position that can be stored.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::stream;
use rowkey_entity::{FailedRow, Projection, Stored, TIMESTAMP};
use rowkey_wire::edm::DateTime;
use rowkey_wire::etag::ETag;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keyed::Keyed;
use super::pages::Reader;
use super::query::Query;
use crate::error::{Error, Result};
use crate::paging::Continuation;

/// A row of a query of changes: its keys, and the entity if it decodes.
type Row<P> = Keyed<Result<P, FailedRow>>;

/// How far before the start of a pass the next one looks, unless
/// [`Changes::overlap`] says otherwise. Long enough for a request of 30 seconds, which is the most that the
/// service allows, and clocks that differ by 90.
const OVERLAP: Duration = Duration::from_secs(120);

/// The position of a reader of changes, from [`Changes::position`]. Store it as text (`to_string` and
/// `parse`, or serde) and pass it to the same query later: [`Query::changes`].
///
/// In the middle of a pass it has a [`Continuation`], which may contain keys: protect it like the data.
///
/// ```
/// use rowkey::table::Watermark;
///
/// let stored = Watermark::since(chrono::DateTime::UNIX_EPOCH)?.to_string();
/// assert_eq!(stored.parse::<Watermark>()?.to_string(), stored);
/// assert!("".parse::<Watermark>().is_err());
/// # Ok::<_, rowkey::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// The earliest Timestamp that is read; `None` for all entities.
    since: Option<DateTime>,
    /// In the middle of a pass: when it began, by the service's clock, and where it resumes.
    pass: Option<(DateTime, Continuation)>,
}

impl Watermark {
    /// The beginning: the first pass reads all entities.
    ///
    /// ```
    /// use rowkey::table::Watermark;
    ///
    /// assert_eq!(Watermark::beginning(), Watermark::default());
    /// ```
    pub fn beginning() -> Self {
        Self::default()
    }

    /// The entities that were written at an instant of the service's clock, or later.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the instant is not an `Edm.DateTime`.
    ///
    /// ```
    /// use rowkey::table::Watermark;
    ///
    /// assert_ne!(Watermark::since(chrono::DateTime::UNIX_EPOCH)?, Watermark::beginning());
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn since(at: chrono::DateTime<chrono::Utc>) -> Result<Self> {
        let since = DateTime::try_from(at).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(Self { since: Some(since), pass: None })
    }
}

/// Numbers are ticks of 100 ns: `since`, or `since.began.continuation` in the middle of a pass.
impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.since {
            Some(since) => write!(f, "{}", since.ticks())?,
            None => f.write_str("all")?,
        }
        match &self.pass {
            Some((began, from)) => write!(f, ".{}.{from}", began.ticks()),
            None => Ok(()),
        }
    }
}

impl FromStr for Watermark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::invalid("invalid watermark");
        let instant = |text: &str| {
            let ticks = text.parse().map_err(|_| invalid())?;
            DateTime::from_ticks(ticks).map_err(|_| invalid())
        };
        let mut parts = text.splitn(3, '.');
        let since = match parts.next() {
            Some("all") => None,
            since => Some(instant(since.unwrap_or_default())?),
        };
        let pass = match (parts.next(), parts.next()) {
            (None, _) => None,
            (Some(began), Some(from)) => {
                Some((instant(began)?, from.parse().map_err(|_| invalid())?))
            }
            (Some(_), None) => return Err(invalid()),
        };
        Ok(Self { since, pass })
    }
}

impl Serialize for Watermark {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Watermark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<P: Projection + Send + 'static> Query<P> {
    /// Reads the entities of the query that were written since `watermark`, again and again: a change feed
    /// for programs that copy a table elsewhere, such as into a search index.
    ///
    /// A pass reads the whole query with a filter on the `Timestamp` that the service sets at each write.
    /// [`Changes::next`] returns the entities one by one, and `None` at the end of the pass; the next call
    /// begins another pass, which reads what was written since this one began.
    ///
    /// Each committed write is seen at least once, unless a later write of the same entity replaced it before
    /// it was read. An entity may come several times, in any order of its versions' instants, so what you do
    /// with it must have the same effect if it happens twice.
    ///
    /// # Limits
    ///
    /// - **Deletions are not seen.** Mark entities as deleted first, or compare from time to time.
    /// - The `Timestamp` has no index: each pass costs what the query costs, which is a table scan for
    ///   [`Table::scan`](crate::Table::scan). One request for each 1,000 changed entities, and one for each
    ///   empty page that the service sends when it has searched for five seconds or the next partition
    ///   is on another server; at least one. Read one partition, or use a queue, if that is too much.
    /// - Entities are seen after they were written, by at most two passes: there is no order of the changes of
    ///   different entities.
    /// - The `Timestamp` is the time of the server that has the partition. A pass ends at the time at which it
    ///   began, by the `Date` of its first response, minus the [overlap](Changes::overlap), two
    ///   minutes by default. If the clocks of servers differ by more, or one steps back by more, changes are
    ///   missed.
    /// - What was seen within the overlap is in memory, about 200 bytes for each changed entity, so that one
    ///   reader returns a version once. A reader that begins at a stored position returns it again.
    /// - It reads the primary, even with `read_from_secondary`.
    ///
    /// ```
    /// use rowkey::table::Watermark;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents };
    /// orders.insert(&order(1, 100)).await?;
    /// let mut changes = orders.scan::<Order>().changes(Watermark::beginning());
    /// while let Some(changed) = changes.next().await? {
    ///     assert_eq!(changed.entity, order(1, 100));
    /// }
    /// orders.insert(&order(2, 200)).await?;
    /// assert_eq!(changes.next().await?.ok_or("nothing")?.entity, order(2, 200));
    /// assert!(changes.next().await?.is_none());
    ///
    /// // Another program continues there. Within the overlap, it sees entities again.
    /// let stored = changes.position().to_string();
    /// let mut later = orders.scan::<Order>().changes(stored.parse()?);
    /// assert!(later.next().await?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Changes::next`] fails like the query. A row that does not decode is an error that
    /// [names it](crate::ErrorDetails::failed_rows), and the next call returns the next row. After any other
    /// error the next call sends the same request again. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid),
    /// and nothing is sent, if the query has [`take`](Self::take) or [`resume`](Self::resume), or if the
    /// watermark is that of another query.
    pub fn changes(self, watermark: Watermark) -> Changes<P> {
        Changes {
            query: self.results().keyed().on_primary(),
            overlap: OVERLAP,
            position: watermark,
            after: None,
            pass: None,
            page: VecDeque::new(),
            again: None,
            seen: HashMap::new(),
        }
    }
}

/// A reader of changes, from [`Query::changes`].
#[must_use = "changes are read by `next`"]
pub struct Changes<P> {
    /// The query without the filter on the Timestamp.
    query: Query<Row<P>>,
    overlap: Duration,
    /// Everything before it was returned, and the caller has asked for more.
    position: Watermark,
    /// The position after the page that is being returned.
    after: Option<Watermark>,
    pass: Option<Reader<Row<P>>>,
    page: VecDeque<Stored<Row<P>>>,
    /// What was written at this instant or later is read again by the next pass.
    again: Option<DateTime>,
    /// By keys, the newest version that was returned, for as long as a pass may read it again.
    seen: HashMap<(String, String), (ETag, DateTime)>,
}

impl<P: Projection + Send + 'static> Changes<P> {
    /// Sets how far before the start of a pass the next one looks. It must be longer than the
    /// difference between any two clocks of the service plus the time of a request. A longer
    /// overlap costs no more requests, only larger responses and memory.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rowkey::table::Watermark;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let orders = account.table("orders");
    /// let changes = orders.scan::<DynamicEntity>().changes(Watermark::beginning());
    /// let changes = changes.overlap(Duration::from_secs(300));
    /// # let _ = changes;
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn overlap(mut self, overlap: Duration) -> Self {
        self.overlap = overlap;
        self
    }

    /// The position of this reader: all entities before it were returned, and [`next`](Self::next) was called
    /// after the last one of them. It moves from page to page of the service.
    ///
    /// Store it after the entities were processed. A reader that begins there returns everything that this one
    /// has not returned yet, and may return entities again.
    pub fn position(&self) -> &Watermark {
        &self.position
    }

    /// The next changed entity; `None` at the end of a pass. The next call then begins another pass, so wait
    /// in between, for example for a minute.
    ///
    /// The future may be dropped: no change is lost.
    pub async fn next(&mut self) -> Result<Option<Stored<P>>> {
        loop {
            while let Some(row) = self.page.pop_front() {
                if let Some(changed) = self.unseen(row)? {
                    return Ok(Some(changed));
                }
            }
            if let Some(after) = self.after.take() {
                self.position = after;
                if self.position.pass.is_none() {
                    self.end_pass();
                    return Ok(None);
                }
            }
            self.read_page().await?;
        }
    }

    /// The entities of the current pass, or of the next one, as a stream. A row that does not decode is an
    /// error, after which the stream continues; any other error ends it.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// use rowkey::table::Watermark;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&DynamicEntity::new("contoso", "1")).await?;
    /// let mut changes = orders.scan::<DynamicEntity>().changes(Watermark::beginning());
    /// let changed: Vec<_> = changes.pass().try_collect().await?;
    /// assert_eq!(changed.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn pass(&mut self) -> impl stream::Stream<Item = Result<Stored<P>>> + Send + Unpin + '_
    where
        P: Send,
    {
        Box::pin(stream::unfold(Some(self), |changes| async move {
            let changes = changes?;
            match changes.next().await {
                Ok(changed) => changed.map(|changed| (Ok(changed), Some(changes))),
                Err(error) => {
                    let is_about_rows = !error.details().failed_rows.is_empty();
                    Some((Err(error), is_about_rows.then_some(changes)))
                }
            }
        }))
    }

    /// Reads the next page of the pass, or the first page of a new one.
    async fn read_page(&mut self) -> Result<()> {
        let mut reader = match self.pass.take() {
            Some(reader) => reader,
            None => self.begin_pass()?,
        };
        // If the future is dropped, the pass begins again at the position.
        let page = reader.next().await;
        let (began, since) = (reader.began, self.position.since);
        let reader = self.pass.insert(reader);
        let page = page?;
        let began = match (self.position.pass.as_ref().map(|(began, _)| *began), began) {
            (Some(began), _) | (None, Some(began)) => began,
            (None, None) if page.is_none() => {
                self.after = Some(Watermark { since, pass: None });
                return Ok(());
            }
            (None, None) => {
                let error = Error::decode("the response has no `Date` header");
                return Err(reader.source.named(error));
            }
        };
        let (entities, continuation) =
            page.map_or((Vec::new(), None), |page| (page.entities, page.continuation));
        self.page = entities.into();
        self.after = Some(match continuation {
            Some(from) => Watermark { since, pass: Some((began, from)) },
            None => Watermark { since: self.earlier(began), pass: None },
        });
        self.again = self.earlier(began);
        Ok(())
    }

    fn begin_pass(&self) -> Result<Reader<Row<P>>> {
        let mut query = self.query.again();
        if query.is_part() {
            let what = "a query of changes has no `take` and no `resume`";
            return Err(Error::invalid(what).of("QueryEntities", query.table_name()));
        }
        if let Some(since) = self.position.since {
            query = query.filter(TIMESTAMP.ge(since));
        }
        if let Some((_, from)) = &self.position.pass {
            query = query.resume(from.clone());
        }
        query.into_reader()
    }

    fn end_pass(&mut self) {
        self.pass = None;
        if let Some(since) = self.position.since {
            self.seen.retain(|_, (_, at)| *at >= since);
        }
    }

    /// An instant minus the overlap; `None` if all Timestamps are later.
    fn earlier(&self, at: DateTime) -> Option<DateTime> {
        let overlap = i64::try_from(self.overlap.as_nanos() / 100).unwrap_or(i64::MAX);
        DateTime::from_ticks(at.ticks().saturating_sub(overlap)).ok()
    }

    /// The entity in a row, unless this version was returned before.
    fn unseen(&mut self, row: Stored<Row<P>>) -> Result<Option<Stored<P>>> {
        let Stored { entity, etag, timestamp, receipt } = row;
        let Keyed { partition_key, row_key, entity } = entity;
        let keys = (partition_key, row_key);
        if self.seen.get(&keys).is_some_and(|(known, _)| *known == etag) {
            return Ok(None);
        }
        // The next pass reads older entities only if they are written again.
        if self.again.is_none_or(|again| timestamp >= again) {
            self.seen.insert(keys, (etag.clone(), timestamp));
        }
        let entity = entity.map_err(|row| {
            Error::of_rows(vec![row]).of("QueryEntities", self.query.table_name())
        })?;
        Ok(Some(Stored { entity, etag, timestamp, receipt }))
    }
}

impl<P> fmt::Debug for Changes<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("since", &self.position.since).finish_non_exhaustive()
    }
}
