//! An insert that is safe to retry.

use rowkey_entity::internals::Row;
use rowkey_entity::{Entity, Stored};
use rowkey_wire::etag::ETag;

use super::handle::Table;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::options::{ClientOptions, RetryOptions};

const OPERATION: &str = "InsertEntity";

impl Table {
    /// Inserts a new entity exactly once, however often it is sent. Like [`insert`](Self::insert),
    /// but it is retried when it is unknown whether an attempt was applied, and succeeds if the
    /// stored entity is already the same.
    ///
    /// One request, and another one to compare if an entity with these keys exists. Fails with
    /// [`ErrorKind::AlreadyExists`] if that is a different entity.
    /// After an error whose outcome is unknown, call it again with the same entity. Two entities
    /// are the same if they are equal when read as `E`: properties that `E` does not have are not
    /// compared.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// #[derive(Entity)]
    /// #[entity(partition = "{shop}", row = "order_{number}")]
    /// struct Order { shop: u32, number: u32, cents: i64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = account.table("orders");
    /// orders.create().await?;
    /// orders.insert_once(&Order { shop: 1, number: 7, cents: 995 }).await?;
    /// orders.insert_once(&Order { shop: 1, number: 7, cents: 995 }).await?;
    /// let other = orders.insert_once(&Order { shop: 1, number: 7, cents: 100 }).await;
    /// assert!(other.is_err_and(|error| error.kind() == rowkey::ErrorKind::AlreadyExists));
    /// # Ok(()) }
    /// ```
    pub fn insert_once<E: Entity>(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = Row::of(entity);
        async move {
            let row = row.map_err(|error| Error::from(error).of(OPERATION, self.name()))?;
            let (keys, sent) = (row.keys.clone(), row.body.clone());
            let error = match self.repeating_inserts().insert_row(Ok(row)).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => error,
                result => return result,
            };
            let found = self.get_body(Ok((&keys.0, &keys.1)), None).await;
            let found = match found {
                // If this read fails, the outcome of the insert is still unknown.
                Err(reading) if error.outcome() == Outcome::Unknown => {
                    return Err(reading.with_outcome(Outcome::Unknown));
                }
                found => found?,
            };
            let Some(reply) = found else { return Err(error) };
            // An entity of another type under these keys is a different entity.
            let Ok(stored) = self.decode_one(&reply) else { return Err(error) };
            let stored: Stored<E> = stored;
            let same = Row::of(&stored.entity).is_ok_and(|row| row.body == sent);
            if same { Ok(stored.etag) } else { Err(error) }
        }
    }

    fn repeating_inserts(&self) -> Self {
        let options = self.account().options();
        let retry = RetryOptions { repeat_inserts: true, ..options.retry.clone() };
        self.with_options(ClientOptions { retry, ..options.clone() })
    }
}
