//! Prepend/append anti-pattern: spread writes over buckets, and gather them again in order.
//!
//! Entities whose keys only grow, such as events by time, all go to one end of one partition, which
//! takes about 2,000 entities a second, however many the account takes. A bucket in the PartitionKey
//! makes many ends of one.
//!
//! - [`Spread`]: which bucket; the ordered read over all of them · [`Gather`], [`Found`]
//! - [`Traffic`]: what this client writes where, and a [`Report`] of hot and append-only partitions
//!
//! ```
//! use futures_util::TryStreamExt as _;
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_patterns::spread::Spread;
//!
//! #[derive(Debug, Entity)]
//! #[entity(partition = "{day:8}_{bucket:3}", row = "{second:5}_{device}")]
//! struct Event {
//!     day: u32,
//!     bucket: u16,
//!     second: u32,
//!     device: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rowkey::Result<()> {
//! # let server = rowkey_emulator::Server::start().await.unwrap();
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let events = account.table("events");
//! events.create().await?;
//! let spread = Spread::over(8)?;
//! for (second, device) in [(3, "door"), (1, "lamp"), (2, "gate")] {
//!     let (bucket, device) = (spread.bucket_of(device), device.to_owned());
//!     events.insert(&Event { day: 20260101, bucket, second, device }).await?;
//! }
//! let found = spread.gather(&events, |bucket| Event::partition(20260101, bucket)).stream();
//! let seconds: Vec<_> = found.map_ok(|found| found.stored.entity.second).try_collect().await?;
//! assert_eq!(seconds, [1, 2, 3]);
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowkey::key::bucket_of;
use rowkey::{Entity, Error, ErrorKind, Partition, Result, Table};

mod gather;
mod traffic;

pub use gather::{Found, Gather};
pub use traffic::{Load, Order, Report, Traffic};

/// Buckets that a reader still asks in one go.
const MAX_BUCKETS: u16 = 1000;

/// How writes are spread over the buckets of a partition.
///
/// The bucket is a part of the partition template, `{day:8}_{bucket:3}`, so that each bucket is a
/// partition, and every partition of yours has its own buckets. Choose it by
/// [`bucket_of`](Self::bucket_of) if an entity is looked up by its key later, or else in turn, by
/// [`next_bucket`](Self::next_bucket).
///
/// A bucket of a field needs no `Spread`: with `{device:bucket(8)}` in the template the key computes
/// it, `Event::partitions(day)` are the partitions of all buckets, and [`Gather::of`] reads them.
///
/// The hash is [`bucket_of`], the same in every version and language.
///
/// # Another number of buckets
///
/// Rows stay where they are. So tell everybody who reads first, with
/// `Spread::over(16)?.formerly(8)`: [`gather`](Self::gather) then reads the larger number of buckets,
/// and [`places_of`](Self::places_of) names both buckets that a key may be in. Then let the writers
/// change. Entities that are written once need nothing else. One that is written again under the
/// same key has to be deleted from its former bucket, or it is there twice.
///
/// The guide's section is
/// [Prepend/append anti-pattern](https://learn.microsoft.com/azure/storage/tables/table-storage-design-guide#prepend-append-anti-pattern).
#[derive(Clone, Debug)]
pub struct Spread {
    buckets: u16,
    /// Numbers of buckets of earlier times, the latest first.
    former: Vec<u16>,
    /// How many turns were taken.
    turns: Arc<AtomicU64>,
}

impl Spread {
    /// Over this many buckets, 1 to 1,000.
    ///
    /// As many as the writes of the busiest second divided by 2,000, and some in reserve: each
    /// bucket costs every ordered read a request.
    pub fn over(buckets: u16) -> Result<Self> {
        check(buckets)?;
        Ok(Self { buckets, former: Vec::new(), turns: Arc::default() })
    }

    /// The same, where there were once this many buckets, more or fewer. May be said several times,
    /// the latest number first.
    pub fn formerly(mut self, buckets: u16) -> Result<Self> {
        check(buckets)?;
        self.former.push(buckets);
        Ok(self)
    }

    /// How many buckets are written to.
    pub fn buckets(&self) -> u16 {
        self.buckets
    }

    /// The bucket of the entity with this key: what it is looked up by, such as a device's name.
    pub fn bucket_of(&self, key: &str) -> u16 {
        bucket_of(key, self.buckets)
    }

    /// All buckets that the entity with this key may be in, where it is written first. One, unless
    /// there were [formerly](Self::formerly) others: get from one after the other.
    pub fn places_of(&self, key: &str) -> Vec<u16> {
        let mut places = vec![self.bucket_of(key)];
        for buckets in &self.former {
            let place = bucket_of(key, *buckets);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// The bucket whose turn it is. Clones take turns together.
    pub fn next_bucket(&self) -> u16 {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % u64::from(self.buckets);
        u16::try_from(turn).unwrap_or_default()
    }

    /// Reads all buckets as one, in the order of the RowKey. `partition` makes the partition of a
    /// bucket, narrowed as you like: the same for each.
    pub fn gather<E>(&self, table: &Table, partition: impl Fn(u16) -> Partition<E>) -> Gather<E>
    where
        E: Entity + Send + 'static,
    {
        let buckets = self.former.iter().copied().fold(self.buckets, u16::max);
        Gather::of(table, (0..buckets).map(partition).collect())
    }
}

fn check(buckets: u16) -> Result<()> {
    if (1..=MAX_BUCKETS).contains(&buckets) {
        return Ok(());
    }
    let what = format!("{buckets} buckets are not 1 to {MAX_BUCKETS}");
    Err(Error::refused(ErrorKind::Invalid, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_clones_take_them_together() {
        let spread = Spread::over(3).unwrap();
        let clone = spread.clone();
        let turns: Vec<_> =
            (0..4).flat_map(|_| [spread.next_bucket(), clone.next_bucket()]).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn places_are_those_of_all_numbers_of_buckets_once() {
        let spread = Spread::over(16).unwrap().formerly(8).unwrap().formerly(1).unwrap();
        let places = spread.places_of("door");
        assert_eq!(places[0], spread.bucket_of("door"));
        assert!(places.contains(&bucket_of("door", 8)) && places.contains(&0));
        assert_eq!(Spread::over(1).unwrap().formerly(1).unwrap().places_of("door"), [0]);
        for buckets in [0, 1001] {
            assert_eq!(Spread::over(buckets).unwrap_err().kind(), ErrorKind::Invalid);
            assert!(spread.clone().formerly(buckets).is_err());
        }
    }
}
