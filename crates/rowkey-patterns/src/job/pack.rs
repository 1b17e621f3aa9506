//! Packing: merges groups of one entity each into groups that fill a transaction.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};

use super::Batch;

/// Partitions packed at once. If the stream reaches another partition, the fullest group is sent.
const OPEN: usize = 64;
/// The most bytes of the groups that are packed at once. Beyond them the largest group is sent, so that entities of the largest size
/// take no more memory than others.
const OPEN_BYTES: usize = 8 * 1024 * 1024;

/// A stream of packed groups.
pub type Packs<G> = Pin<Box<dyn Stream<Item = G> + Send>>;

/// A group that can absorb another group.
pub trait Merge: Batch + Sized {
    /// Absorbs a group of the same partition; returns it if both do not fit into one transaction.
    fn merge(&mut self, other: Self) -> Option<Self>;
}

/// Packs a stream of groups of one entity each. An entity without valid keys stays alone, and storing
/// it returns the error.
pub fn pack<G, S>(ones: S) -> Packs<G>
where
    G: Merge + Send + 'static,
    S: Stream<Item = G> + Send + 'static,
{
    let packing = Packing { ones: ones.boxed(), open: HashMap::new(), bytes: 0, ended: false };
    stream::unfold(packing, |mut packing| async move {
        packing.next().await.map(|group| (group, packing))
    })
    .boxed()
}

struct Packing<G> {
    ones: Packs<G>,
    open: HashMap<String, G>,
    /// Those of the open groups.
    bytes: usize,
    /// Whether the stream has ended.
    ended: bool,
}

impl<G: Merge> Packing<G> {
    async fn next(&mut self) -> Option<G> {
        while !self.ended {
            let Some(one) = self.ones.next().await else {
                self.ended = true;
                break;
            };
            if let Some(full) = self.add(one) {
                return Some(full);
            }
        }
        self.fullest()
    }

    /// Adds a group to that of its partition; returns a group that is full or makes room.
    fn add(&mut self, one: G) -> Option<G> {
        if one.keys() == ("", "") {
            return Some(one);
        }
        self.bytes += one.bytes();
        if let Some(open) = self.open.get_mut(one.keys().0) {
            if let Some(other) = open.merge(one) {
                let full = std::mem::replace(open, other);
                self.bytes -= full.bytes();
                return Some(full);
            }
        } else {
            let partition_key = one.keys().0.to_owned();
            let room = if self.open.len() >= OPEN { self.fullest() } else { None };
            self.open.insert(partition_key, one);
            if room.is_some() {
                return room;
            }
        }
        if self.bytes > OPEN_BYTES { self.largest() } else { None }
    }

    fn fullest(&mut self) -> Option<G> {
        let fullest = self.open.iter().max_by_key(|(key, group)| (group.entities(), Reverse(*key)));
        let key = fullest.map(|(key, _)| key.clone())?;
        self.take(&key)
    }

    fn largest(&mut self) -> Option<G> {
        let largest = self.open.iter().max_by_key(|(key, group)| (group.bytes(), Reverse(*key)));
        let key = largest.map(|(key, _)| key.clone())?;
        self.take(&key)
    }

    fn take(&mut self, partition_key: &str) -> Option<G> {
        let group = self.open.remove(partition_key)?;
        self.bytes -= group.bytes();
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use rowkey_client::Result;

    use super::super::{Attempt, Report};
    use super::*;

    /// Entities of one size.
    struct Large(String, u64);

    const SIZE: usize = 512 * 1024;

    impl Batch for Large {
        fn keys(&self) -> (&str, &str) {
            (&self.0, "")
        }

        fn entities(&self) -> u64 {
            self.1
        }

        fn bytes(&self) -> usize {
            SIZE * usize::try_from(self.1).unwrap()
        }

        async fn store(&self, _: Attempt) -> Result<Report> {
            Ok(Report::default())
        }
    }

    impl Merge for Large {
        fn merge(&mut self, other: Self) -> Option<Self> {
            if self.1 + other.1 > 8 {
                return Some(other);
            }
            self.1 += other.1;
            None
        }
    }

    #[tokio::test]
    async fn large_entities_of_many_partitions_do_not_fill_the_memory() {
        let read = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = std::sync::Arc::clone(&read);
        let ones = stream::iter(0..320).map(move |number| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Large(format!("p{}", number % 32), 1)
        });
        let mut packs = pack(ones);
        let mut passed = 0;
        while let Some(group) = packs.next().await {
            passed += group.entities();
            let held = read.load(std::sync::atomic::Ordering::Relaxed) - passed;
            assert!(held * SIZE as u64 <= (OPEN_BYTES + SIZE) as u64, "{held} entities are held");
        }
        assert_eq!(passed, 320, "none is lost");
    }
}
