//! The insert that may be sent more than once.

use rowkey_wire::etag::ETag;

use super::handle::{Row, Table};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Outcome, Result};
use crate::options::{ClientOptions, RetryOptions};

const OPERATION: &str = "InsertEntity";

impl Table {
    /// Stores a new entity once, however often it is sent: like [`insert`](Self::insert), but it is
    /// repeated when nobody knows whether an attempt was applied, and an entity that is there
    /// already is no error if it is this one.
    ///
    /// One request; one more, to compare, when the keys are taken. Fails with
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if another entity has them.
    /// After an error whose outcome is unknown, call it again with the same entity. "The same" is
    /// what `E` makes of it: properties that `E` does not have are not compared.
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
            let row = row.map_err(|error| error.of(OPERATION, self.name()))?;
            let (keys, sent) = (row.keys.clone(), row.body.clone());
            let error = match self.repeating_inserts().insert_row(Ok(row)).await {
                Err(error) if error.kind() == crate::ErrorKind::AlreadyExists => error,
                result => return result,
            };
            let found = self.get_body(Ok((&keys.0, &keys.1)), None).await;
            let found = match found {
                // If this read fails, the outcome of the insert is still unknown.
                Err(reading) if error.outcome() == Outcome::Unknown => {
                    return Err(Error::after_unknown(reading));
                }
                found => found?,
            };
            let Some(reply) = found else { return Err(error) };
            // Another type of entity under these keys is another entity.
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
