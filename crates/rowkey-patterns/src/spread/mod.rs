//! Prepend/append anti-pattern: spreads writes over buckets, and gathers them again in order.
//!
//! Entities whose keys only grow, such as events by time, are all written to one end of one partition, which
//! is limited to about 2,000 entities per second, regardless of the account's limit. A bucket in the
//! PartitionKey spreads the writes over several partitions.
//!
//! - [`Spread`]: the choice of the bucket; the ordered read over all buckets · [`Gather`], [`Found`]
//!
//! [`StorageAccount::hot_partitions`](rowkey_client::StorageAccount::hot_partitions) reports which partitions need it.
//!
//! ```
//! use futures_util::TryStreamExt as _;
//! use rowkey::patterns::spread::Spread;
//! use rowkey::{Entity, StorageAccount};
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

use rowkey_client::key::bucket_of;
use rowkey_client::{Entity, Error, ErrorKind, Partition, Result, Table};

mod gather;

pub use gather::{Found, Gather};

/// The maximum number of buckets that one read can query.
const MAX_BUCKETS: u16 = 1000;

/// Spreads writes over the buckets of a partition.
///
/// The bucket is a part of the partition template, `{day:8}_{bucket:3}`, so that each bucket is a partition,
/// and each of your logical partitions has its own buckets. Choose the bucket with
/// [`bucket_of`](Self::bucket_of) if the entity is later looked up by its key; otherwise in turn, with
/// [`next_bucket`](Self::next_bucket).
///
/// A bucket computed from a field needs no `Spread`: with `{device:bucket(8)}` in the template the key
/// computes it, `Event::partitions(day)` returns the partitions of all buckets, and [`Gather::of`] reads
/// them.
///
/// The hash is [`bucket_of`], the same in every version and language.
///
/// # Changing the number of buckets
///
/// Existing rows are not moved. So first deploy `Spread::over(16)?.formerly(8)` to all readers:
/// [`gather`](Self::gather) then reads the larger number of buckets, and [`places_of`](Self::places_of)
/// returns both buckets that a key may be in. Then change the writers. Entities that are written once need
/// nothing else. An entity that is written again under the same key must be deleted from its former bucket,
/// or it exists twice.
///
/// The guide's section is
/// [Prepend/append anti-pattern](https://learn.microsoft.com/azure/storage/tables/table-storage-design-guide#prepend-append-anti-pattern).
#[derive(Clone, Debug)]
pub struct Spread {
    buckets: u16,
    /// Former numbers of buckets, the latest first.
    former: Vec<u16>,
    /// The number of buckets that [`next_bucket`](Spread::next_bucket) has returned.
    turns: Arc<AtomicU64>,
}

impl Spread {
    /// Spreads over this many buckets, 1 to 1,000.
    ///
    /// Divide the writes of the busiest second by 2,000, and add some reserve. Do not choose many more: an
    /// ordered read sends a request to each bucket.
    pub fn over(buckets: u16) -> Result<Self> {
        check(buckets)?;
        Ok(Self { buckets, former: Vec::new(), turns: Arc::default() })
    }

    /// Adds a former number of buckets, smaller or larger. Can be called several times, with the latest
    /// number first.
    ///
    /// ```
    /// use rowkey::patterns::spread::Spread;
    ///
    /// let spread = Spread::over(16)?.formerly(8)?;
    /// let places = spread.places_of("device-7");
    /// assert_eq!(places, [spread.bucket_of("device-7"), Spread::over(8)?.bucket_of("device-7")]);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn formerly(mut self, buckets: u16) -> Result<Self> {
        check(buckets)?;
        self.former.push(buckets);
        Ok(self)
    }

    /// The number of buckets that are written to.
    pub fn buckets(&self) -> u16 {
        self.buckets
    }

    /// The bucket of the entity with this lookup key, such as a device's name.
    pub fn bucket_of(&self, key: &str) -> u16 {
        bucket_of(key, self.buckets)
    }

    /// All buckets that may hold the entity with this key, the current one first. There is more than one only
    /// after [`formerly`](Self::formerly); look in each of them in this order.
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

    /// The next bucket in round-robin order. Clones share the counter.
    ///
    /// ```
    /// # use rowkey::patterns::spread::Spread;
    /// let spread = Spread::over(3)?;
    /// let buckets: Vec<_> = (0..4).map(|_| spread.next_bucket()).collect();
    /// assert_eq!(buckets, [0, 1, 2, 0]);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn next_bucket(&self) -> u16 {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % u64::from(self.buckets);
        u16::try_from(turn).unwrap_or_default()
    }

    /// Reads all buckets as one, in RowKey order. `partition` returns the partition of a bucket, optionally
    /// narrowed, in the same way for each bucket.
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
    let what = format!("the number of buckets must be between 1 and {MAX_BUCKETS}, not {buckets}");
    Err(Error::refused(ErrorKind::Invalid, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_round_robin_counter() {
        let spread = Spread::over(3).unwrap();
        let clone = spread.clone();
        let turns: Vec<_> =
            (0..4).flat_map(|_| [spread.next_bucket(), clone.next_bucket()]).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn former_bucket_counts_add_distinct_buckets() {
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
