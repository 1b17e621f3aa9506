//! Changes of several entities of a partition, with their copies, in one transaction.

use std::fmt;
use std::sync::Arc;

use rowkey::{ETag, Entity, Error, Result, Table};

use super::alongside::Alongside;
use super::change::Changes;
use super::indexed::Indexed;

/// A transaction in the making, from [`LocalIndex::transaction`](super::LocalIndex::transaction).
///
/// Each entity counts with its copies: all of them together are at most 100 operations in 4 MiB. A
/// value of a unique index that one entity gives up may be taken by another in the same transaction.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_patterns::local_index::LocalIndex;
///
/// #[derive(Clone, Debug, Entity)]
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
/// let seats = LocalIndex::<Seat>::new(account.table("seats"));
/// seats.table().create_if_missing().await?;
/// let first = Seat { room: "blue".into(), seat: 1, guest: Some("ada".into()) };
/// let second = Seat { seat: 2, guest: None, ..first.clone() };
/// seats.transaction().insert(&first).insert(&second).submit().await?;
///
/// // Ada moves: at no time is she on two seats, or on none.
/// let from = seats.find(Seat::by_guest("blue", "ada")).await?.ok_or("not seated")?;
/// let to = seats.get(Seat::key("blue", 2)).await?.ok_or("no such seat")?;
/// let (from, to) = (from.map(|s| s.guest = None), to.map(|s| s.guest = Some("ada".into())));
/// seats.transaction().replace(&from).replace(&to).submit().await?;
/// let seat = seats.find(Seat::by_guest("blue", "ada")).await?.ok_or("not seated")?;
/// assert_eq!(seat.seat, 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until `submit`"]
pub struct IndexedTransaction<'e, E> {
    table: Table,
    changes: Changes<'e, E>,
    error: Option<Error>,
}

impl<'e, E: Entity + Send + Sync + 'static> IndexedTransaction<'e, E> {
    pub(super) fn new(table: Table, alongside: Option<Arc<Alongside<E>>>) -> Self {
        Self { table, changes: Changes::new(alongside), error: None }
    }

    /// Stores a new entity, as [`LocalIndex::insert`](super::LocalIndex::insert) does.
    pub fn insert(mut self, entity: &'e E) -> Self {
        let added = self.changes.insert(entity);
        self.note(added)
    }

    /// Replaces an entity, if nobody wrote since it was read.
    pub fn replace(mut self, indexed: &'e Indexed<E>) -> Self {
        let added = self.changes.replace(&indexed.entity, indexed);
        self.note(added)
    }

    /// Deletes an entity, if nobody wrote since it was read.
    pub fn delete(mut self, indexed: &Indexed<E>) -> Self {
        let added = self.changes.delete(indexed);
        self.note(added)
    }

    /// Sends the transaction: all of it happens, or nothing. One request.
    ///
    /// Returns the ETag of each entity in their order, `None` for those that were deleted.
    ///
    /// Fails with [`ErrorKind::Conflict`](rowkey::ErrorKind::Conflict) if one of the entities was changed
    /// since it was read: read all of them again. That two of them were read with the same value of a
    /// unique index says so as well, without a request.
    pub async fn submit(mut self) -> Result<Vec<Option<ETag>>> {
        if let Some(error) = self.error {
            return Err(error.of("EntityGroupTransaction", self.table.name()));
        }
        self.changes.join();
        self.changes
            .reads_agree()
            .map_err(|error| error.of("EntityGroupTransaction", self.table.name()))?;
        self.changes.submit(&self.table).await
    }

    /// Keeps the first error until the transaction is submitted.
    fn note(mut self, added: Result<()>) -> Self {
        if let Err(error) = added {
            self.error.get_or_insert(error);
        }
        self
    }
}

impl<E> fmt::Debug for IndexedTransaction<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedTransaction")
            .field("table", &self.table.name())
            .finish_non_exhaustive()
    }
}
