//! Several tables read as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use rowkey::table::Stream;
use rowkey::{Entity, Key, Result, Stored};

/// Where an entity stands among those of all tables: its keys in the service's order, which is that
/// of UTF-16 units, then the place of its table.
type Place = (Vec<u16>, Vec<u16>, usize);

struct Merge<E> {
    tables: Vec<Stream<Stored<E>>>,
    /// The next entity of each table that has one.
    heads: Vec<Option<Stored<E>>>,
    order: BinaryHeap<Reverse<Place>>,
}

/// Reads tables, each of which is in key order, in key order. What stands at the same keys comes in
/// the order of the tables.
pub(super) fn merge<E: Entity + Send + 'static>(
    tables: Vec<Stream<Stored<E>>>,
) -> Stream<Stored<E>> {
    let begun = async move {
        let mut merge = Merge {
            heads: tables.iter().map(|_| None).collect(),
            order: BinaryHeap::with_capacity(tables.len()),
            tables,
        };
        // The first pages are asked for together.
        let heads = merge.tables.iter_mut().map(|table| table.try_next());
        let heads = future::try_join_all(heads).await?;
        for (at, head) in heads.into_iter().enumerate() {
            merge.push(at, head);
        }
        Ok(stream::try_unfold(merge, Merge::next))
    };
    stream::once(begun).try_flatten().boxed()
}

impl<E: Entity> Merge<E> {
    async fn next(mut self) -> Result<Option<(Stored<E>, Self)>> {
        let Some(Reverse((.., at))) = self.order.pop() else { return Ok(None) };
        let Some(first) = self.heads[at].take() else { return Ok(None) };
        let following = self.tables[at].try_next().await?;
        self.push(at, following);
        Ok(Some((first, self)))
    }

    fn push(&mut self, at: usize, head: Option<Stored<E>>) {
        if let Some(head) = head {
            let key = Key::of(&head.entity);
            let (partition_key, row_key) = key.parts().unwrap_or_default();
            let units = |key: &str| key.encode_utf16().collect();
            self.order.push(Reverse((units(partition_key), units(row_key), at)));
            self.heads[at] = Some(head);
        }
    }
}
