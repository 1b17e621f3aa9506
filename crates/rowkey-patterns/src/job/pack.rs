//! Packing: merges groups of one entity each into groups that fill a transaction.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};

use super::Batch;

/// Partitions packed at once. If the stream reaches another partition, the fullest group is sent.
const OPEN: usize = 64;

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
    let packing = Packing { ones: ones.boxed(), open: HashMap::new(), ended: false };
    stream::unfold(packing, |mut packing| async move {
        packing.next().await.map(|group| (group, packing))
    })
    .boxed()
}

struct Packing<G> {
    ones: Packs<G>,
    open: HashMap<String, G>,
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
        if let Some(open) = self.open.get_mut(one.keys().0) {
            let other = open.merge(one)?;
            return Some(std::mem::replace(open, other));
        }
        let partition_key = one.keys().0.to_owned();
        let room = if self.open.len() >= OPEN { self.fullest() } else { None };
        self.open.insert(partition_key, one);
        room
    }

    fn fullest(&mut self) -> Option<G> {
        let fullest = self.open.iter().max_by_key(|(key, group)| (group.entities(), Reverse(*key)));
        let key = fullest.map(|(key, _)| key.clone())?;
        self.open.remove(&key)
    }
}
