//! A row that goes with every change of an entity, in its transaction: what tells others of it.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, Entity, Result};

use super::LocalIndex;

/// Makes the row from the entity before and after the change, `None` where there is none.
type Row<E> = dyn Fn(Option<&E>, Option<&E>) -> Result<Option<DynamicEntity>> + Send + Sync;

pub(super) struct Alongside<E> {
    pub(super) row: Box<Row<E>>,
    pub(super) committed: Box<dyn Fn(Vec<DynamicEntity>) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl<E: Entity> LocalIndex<E> {
    /// Lets every change of an entity write one more row, in the same transaction: whoever finds the
    /// row knows of the change, and no change is without its row.
    ///
    /// `row` makes it from the entity before and after the change, `None` where there is none; it may
    /// find that this change needs none. Its PartitionKey has to be that of the entity, and its RowKey
    /// one that nothing else ever has. An error of it refuses the change. `committed` is called with the
    /// rows of each transaction that has happened, and of one of which nobody knows whether it has.
    ///
    /// A row is one operation of the 100 that a transaction has, which is what
    /// [`OPERATIONS`](Self::OPERATIONS) leaves at least.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Entity, Key, Partition, StorageAccount};
    /// use rowkey_patterns::local_index::LocalIndex;
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{room}", row = "seat_{seat:3}")]
    /// #[entity(index(name = by_guest, row = "guest_{guest}"))]
    /// struct Seat {
    ///     room: String,
    ///     seat: u16,
    ///     guest: Option<String>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_server::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let seats = LocalIndex::<Seat>::new(account.table("seats")).alongside(
    ///     |before, after| {
    ///         let Some(after) = after else { return Ok(None) };
    ///         let left = before.and_then(|seat| seat.guest.clone());
    ///         let mut row = DynamicEntity::new(&*after.room, format!("moved_{:03}", after.seat));
    ///         row.set("left", left.unwrap_or_default());
    ///         Ok(Some(row))
    ///     },
    ///     |rows| async move { println!("{} moved", rows.len()) },
    /// );
    /// seats.table().create_if_missing().await?;
    /// seats.insert(&Seat { room: "blue".into(), seat: 1, guest: None }).await?;
    /// let moved = seats.table().get(Key::<DynamicEntity>::new("blue", "moved_001")).await?;
    /// assert!(moved.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn alongside<F: Future<Output = ()> + Send + 'static>(
        mut self,
        row: impl Fn(Option<&E>, Option<&E>) -> Result<Option<DynamicEntity>> + Send + Sync + 'static,
        committed: impl Fn(Vec<DynamicEntity>) -> F + Send + Sync + 'static,
    ) -> Self {
        let committed = move |rows| committed(rows).boxed();
        self.alongside =
            Some(Arc::new(Alongside { row: Box::new(row), committed: Box::new(committed) }));
        self
    }
}
