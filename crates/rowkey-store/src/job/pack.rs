//! Packing: groups of one entity each become groups that fill a transaction.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};

use super::Batch;

/// Partitions that are packed at a time. A stream that comes to one more sends the fullest group.
const OPEN: usize = 64;

/// Groups that are packed from a stream.
pub type Packs<G> = Pin<Box<dyn Stream<Item = G> + Send>>;

/// A group that takes in another one.
pub(crate) trait Merge: Batch + Sized {
    /// Takes in a group of the same partition; gives it back if both do not fit one transaction.
    fn merge(&mut self, other: Self) -> Option<Self>;
}

/// Packs a stream of groups of one entity each. One without keys is a group of its own, whose storing
/// tells why.
pub(crate) fn pack<G, S>(ones: S) -> Packs<G>
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

    /// Adds a group to that of its partition; returns one that is full, or that makes room.
    fn add(&mut self, one: G) -> Option<G> {
        let partition_key = one.keys().0.to_owned();
        if one.keys() == ("", "") {
            return Some(one);
        }
        if let Some(open) = self.open.get_mut(&partition_key) {
            let other = open.merge(one)?;
            return self.open.insert(partition_key, other);
        }
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
