//! Reads the entries of a log in the order in which they were created, continuing from a position.
//!
//! Rows are stored newest first and read in that order, so a slice of time is read as a whole and reversed. A
//! slice that holds more than a batch is cut where the batch that was read begins, the earlier part is tried
//! next, and so on back to the oldest entry. The cuts are kept, so that each slice on the way forward costs
//! one request.

use std::fmt;
use std::ops::Bound;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rowkey_client::edm::DateTime;
use rowkey_client::internals::fnv1a;
use rowkey_client::table::Keyed;
use rowkey_client::{Entity, Error, ErrorKind, FailedRow, Partition, Result, Stored, Table};

use super::position::Position;
use super::{head, row_of, slice, ticks_in, ticks_of};

/// The default maximum number of entries in a batch.
const BATCH: usize = 500;

/// After this many cuts, the remaining time is also halved, so that a backlog of millions is not read
/// completely before the first batch. This also bounds the cuts: 62 halvings reduce all of time to one tick.
const HALVE_AFTER: usize = 8;

/// Reads a partition of a log, oldest entry first, from a [`Position`] that the consumer stores.
///
/// # Guarantees
///
/// Entries are returned in the order of their times, and within one tick in key order. From the first
/// position to the last, **an entry is returned exactly once if it is in the table before the reader's clock
/// shows its time plus `settle`**; an entry stored later is never returned.
///
/// An entry's time is that of its writer's clock when its id was created. So `settle` must be at least the
/// sum of:
///
/// - the time that a writer takes from creating the id to the end of the write, including retries: at most
///   the [`timeout`](rowkey_client::ClientOptions::timeout) of its client, 60 seconds by default, if it appends at
///   once; longer if it appends again after an unknown outcome;
/// - the time by which a writer's clock may be behind the reader's.
///
/// If a writer's clock is *ahead*, no entry is lost; its entries are returned correspondingly later. Read
/// entries that are stored with old times on purpose, such as imports, with
/// [`LogTail::between`](super::LogTail::between).
///
/// **A row that cannot be read ends nothing.** It is in [`Batch::failed_rows`], once, and the entries around it are
/// returned as if it were not there. That is a row that does not decode, and one whose RowKey does not begin with 19
/// digits of inverted ticks.
///
/// If a consumer dies before it stores the position of a batch, it gets that batch again: store the position
/// together with the results of the batch, or make processing idempotent.
///
/// # Cost
///
/// One request if there is nothing new or at most one batch. A longer backlog is read about twice, one batch
/// per request: once back to its beginning and once forward. Memory holds one batch and a few kilobytes,
/// however long the backlog is.
#[must_use = "a tail reads nothing until `next_batch`"]
pub struct Tail<E> {
    table: Table,
    partition: Partition<E>,
    settle: Duration,
    batch: usize,
    /// The ends of the slices that were cut off, before the settled end; the next one is last.
    cuts: Vec<i64>,
    position: Position,
    /// Why reading is impossible.
    refused: Option<&'static str>,
}

/// Entries of a log, oldest first, and the position after them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Batch<E> {
    /// The entries. Empty only if there are failed rows.
    pub entries: Vec<Stored<E>>,
    /// The rows among them that cannot be read, with their keys. The position is after them, so no later batch has
    /// them.
    pub failed_rows: Vec<FailedRow>,
    /// The position after the entries. Store it when they have been processed.
    pub position: Position,
}

/// A row of a slice, as it was found.
struct Found<E> {
    /// `None` if the RowKey is not that of an entry.
    ticks: Option<i64>,
    row_key: String,
    entry: Result<Stored<E>, FailedRow>,
}

impl<E: Entity + Send + 'static> Tail<E> {
    pub(super) fn new(table: Table, partition: Partition<E>, settle: Duration) -> Self {
        let name = table.name().to_ascii_lowercase();
        let key = partition.partition_key().unwrap_or_default().to_owned();
        let log = fnv1a([&*name, &*key, head::<E>()].join("/").into_bytes());
        let position = Position { log, ticks: DateTime::MIN.ticks(), after: None };
        Self { table, partition, settle, batch: BATCH, cuts: Vec::new(), position, refused: None }
    }

    /// Continues from this position, which must come from the same partition of the same table.
    pub fn resume(mut self, position: Position) -> Self {
        if position.log == self.position.log {
            self.position = position;
        } else {
            self.refused =
                Some("the position belongs to another log: its table or partition differs");
        }
        self
    }

    /// Starts with the entries of this time and later.
    pub fn start_at(mut self, time: chrono::DateTime<Utc>) -> Self {
        self.position.ticks = ticks_of(time);
        self.position.after = None;
        self
    }

    /// Sets the maximum number of entries in a batch, and approximately in memory. Default: 500.
    pub fn batch_size(mut self, entries: usize) -> Self {
        if entries == 0 {
            self.refused = Some("a batch must have at least 1 entry");
        }
        self.batch = entries;
        self
    }

    /// The current position. After `None` it may be past the last batch, because empty ranges are not read
    /// again.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Returns the next entries, or `None` if all entries that had settled at the time of the call were
    /// returned; more may settle later.
    ///
    /// A batch has the rows that cannot be read, too: look at [`Batch::failed_rows`].
    ///
    /// It does not wait: sleep on [`Table::account`]'s clock before the next call. After an error, the next
    /// call requests the same entries again.
    pub async fn next_batch(&mut self) -> Result<Option<Batch<E>>> {
        if let Some(what) = self.refused {
            return Err(Error::refused(ErrorKind::Invalid, what).of("Tail", self.table.name()));
        }
        // Read the clock once. With a clock that advances between requests, each request would be followed by
        // a new slice, and the loop would never end.
        let settled = self.settled();
        while self.position.ticks < settled {
            let rows = match self.position.after.clone() {
                Some(after) => self.rest_of_tick(after).await?,
                None => self.slice_until(settled).await?,
            };
            if !rows.is_empty() {
                let mut failed_rows = Vec::new();
                let entries = rows
                    .into_iter()
                    .filter_map(|row| row.entry.map_err(|failed| failed_rows.push(failed)).ok())
                    .collect();
                return Ok(Some(Batch { entries, failed_rows, position: self.position.clone() }));
            }
        }
        Ok(None)
    }

    /// The first tick that has not settled, by the account's clock. The current tick may still get entries,
    /// so with a `settle` of zero it is the first.
    fn settled(&self) -> i64 {
        let now = self.table.account().clock().now();
        let settle = TimeDelta::from_std(self.settle).unwrap_or(TimeDelta::MAX);
        now.checked_sub_signed(settle).map_or(DateTime::MIN.ticks(), ticks_of)
    }

    /// Reads the next slice; returns nothing if it was too large and was cut.
    async fn slice_until(&mut self, settled: i64) -> Result<Vec<Found<E>>> {
        let from = self.position.ticks;
        while self.cuts.pop_if(|cut| *cut <= from).is_some() {}
        let to = self.cuts.last().map_or(settled, |cut| settled.min(*cut));
        // One more than a batch shows whether the slice is complete.
        let most = self.batch.saturating_add(1);
        let mut rows = self.read(slice(self.partition.clone(), from, to), most).await?;
        if rows.len() > self.batch {
            if to - from > 1 {
                // Rows without ticks have no place in time; where there are only such, the time is halved.
                let oldest = rows.iter().rev().find_map(|row| row.ticks);
                self.cut(from, oldest.unwrap_or(from + (to - from) / 2 - 1), to);
                return Ok(Vec::new());
            }
            // A single tick cannot be cut: its rows are in key order.
            rows.truncate(self.batch);
            self.position.after = rows.last().map(|row| row.row_key.clone());
        } else {
            self.position.ticks = to;
        }
        // A stable sort: the rows of one tick stay in key order.
        rows.sort_by_key(|row| row.ticks);
        Ok(rows)
    }

    /// Cuts a slice that holds more than a batch. `oldest` is the oldest tick read.
    fn cut(&mut self, from: i64, oldest: i64, to: i64) {
        // The oldest tick may have more entries than were read, so it belongs to the part before the cut. If
        // all entries read are of the last tick, that tick becomes its own slice.
        let cut = if oldest + 1 < to { oldest + 1 } else { oldest };
        self.cuts.push(cut);
        if self.cuts.len().is_multiple_of(HALVE_AFTER) {
            self.cuts.push(from + (cut - from) / 2);
        }
    }

    /// Continues, by RowKey, in a tick that holds more than a batch.
    async fn rest_of_tick(&mut self, after: String) -> Result<Vec<Found<E>>> {
        let ticks = self.position.ticks;
        let end = row_of::<E>(ticks - 1);
        let rows = (Bound::Excluded(&*after), Bound::Excluded(&*end));
        let rest = self.partition.clone().row_keys(rows);
        let rows = self.read(rest, self.batch).await?;
        if rows.len() < self.batch {
            self.position.ticks = ticks + 1;
            self.position.after = None;
        } else {
            self.position.after = rows.last().map(|row| row.row_key.clone());
        }
        Ok(rows)
    }

    /// The first rows of a part of the partition.
    async fn read(&self, rows: Partition<E>, most: usize) -> Result<Vec<Found<E>>> {
        let query = self.table.query(rows).results().keyed().take(most as u64);
        let rows = query.all().await?;
        Ok(rows.into_iter().map(row).collect())
    }
}

fn row<E: Entity>(stored: Stored<Keyed<Result<E, FailedRow>>>) -> Found<E> {
    let Stored { entity: keyed, etag, timestamp, receipt } = stored;
    let Keyed { entity, partition_key, row_key } = keyed;
    let ticks = ticks_in::<E>(&row_key);
    let entry = match (entity, ticks) {
        (Ok(entity), Some(_)) => Ok(Stored { entity, etag, timestamp, receipt }),
        (Err(failed), _) => Err(failed),
        (Ok(_), None) => {
            let reason = "its RowKey does not begin with 19 digits of inverted ticks; keep other rows out of the \
                          partition, or begin the log's RowKeys with a literal prefix";
            Err(FailedRow::new(partition_key, row_key.clone(), &reason))
        }
    };
    Found { ticks, row_key, entry }
}

impl<E> fmt::Debug for Tail<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("table", &self.table.name())
            .field("settle", &self.settle)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rowkey_client::{DynamicEntity, StorageAccount};

    use super::*;

    #[test]
    fn a_time_range_is_split_logarithmically() {
        let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
        let partition = Partition::<DynamicEntity>::new("p");
        let mut tail = Tail::new(account.table("log"), partition, Duration::ZERO);
        let (from, mut to) = (DateTime::MIN.ticks(), DateTime::MAX.ticks());
        // The worst case: every slice except a single tick is full up to its last tick.
        while to - from > 1 {
            tail.cut(from, to - 1, to);
            let next = tail.cuts.last().copied().unwrap();
            assert!((from..to).contains(&next), "each cut is a step back");
            to = next;
        }
        assert!(tail.cuts.len() < 600, "{}", tail.cuts.len());
    }
}
