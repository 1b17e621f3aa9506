//! The read-modify-write loop.

use std::time::Duration;

use rowkey_entity::internals::{Row, names};
use rowkey_entity::key::KeyError;
use rowkey_entity::{Entity, Key, Receipt, Stored};
use rowkey_wire::edm::DateTime;
use rowkey_wire::etag::{ETag, Match};

use super::handle::Table;
use super::unknown::{Carrying, Known};
use crate::backoff::doubled;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::telemetry::with_receipt;
use crate::transport::Reply;

/// How often a change is tried before the caller gets the conflict.
const MAX_ROUNDS: u32 = 16;

/// The longest wait before the third round. Later ones double, up to [`MAX_WAIT`]: after two
/// conflicts there are probably many writers, and without spreading out nearly all of them lose
/// every round.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const MAX_WAIT: Duration = Duration::from_secs(1);

impl Table {
    /// Reads the entity at `key`, changes it and writes it under the ETag that was read. If another
    /// writer changed it in between, reads and changes it again, up to 16 times: the second time at
    /// once, later after random waits of at most a second.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should have no
    /// effect other than changing the entity. Each round takes two requests.
    ///
    /// Properties that `E` does not know, because a newer program or another one wrote them, keep
    /// their values and types. The write is a Merge if no stored property is removed, and otherwise
    /// a Replace that includes them; it then fails with
    /// [`ErrorKind::TooLarge`] if they and the changed entity exceed
    /// the limits of the service. [`replace`](Self::replace) erases them. Fails with
    /// [`ErrorKind::NotFound`] if the entity does not exist, and with
    /// [`ErrorKind::Conflict`] if other writers won every round.
    ///
    /// If the response to the write is lost, the entity is read to find out whether the write was
    /// applied. That is conclusive if `change` sets values that do not depend on the old ones. If
    /// it adds to a value, as a counter does, another writer's entity may look like this one's.
    /// Then the error is returned with [`Outcome::Unknown`], so that no change is lost.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// orders.insert(&order(1, 995)).await?;
    /// let updated = orders.update(Order::key("contoso", 1), |order| order.cents -= 100).await?;
    /// assert_eq!(updated.entity.cents, 895);
    /// # Ok(()) }
    /// ```
    pub async fn update<E: Entity>(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let (updated, receipt) = with_receipt(self.update_rounds(key, &mut change)).await;
        updated.map(|stored| Stored { receipt, ..stored })
    }

    async fn update_rounds<E: Entity>(
        &self,
        key: Key<E>,
        change: &mut impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let keys = key.parts();
        for round in 1..MAX_ROUNDS {
            match self.update_once(keys, change).await {
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        && error.outcome() == Outcome::Rejected => {}
                result => return result,
            }
            if let Some(doublings) = round.checked_sub(2) {
                let longest = doubled(FIRST_WAIT, doublings, MAX_WAIT);
                self.pipeline().pause(longest).await;
            }
        }
        self.update_once(keys, change).await
    }

    async fn update_once<E: Entity>(
        &self,
        keys: Result<(&str, &str), &KeyError>,
        change: &mut impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let read: Stored<Known<E>> = self.decode_one(&self.read(keys).await?)?;
        let Stored { entity, etag, timestamp, .. } = read;
        let Known { mut entity, unknown, stored } = entity;
        change(&mut entity);
        let row =
            Row::of(&entity).map_err(|error| Error::from(error).of("UpdateEntity", self.name()))?;
        if keys.is_ok_and(|keys| keys != row.keys()) {
            let what = "the change alters a part of the key, and keys cannot change: delete the \
                        entity and insert the other one, in one transaction if the partition is \
                        the same";
            return Err(Error::invalid(what).of("UpdateEntity", self.name()));
        }
        let sent = row.body.clone();
        let condition = Match::ETag(etag);
        let written = names(&entity);
        // A Merge keeps properties that it does not name, and cannot remove one (a null in it
        // leaves the property unchanged).
        let write = if stored.iter().all(|name| written.contains(name)) {
            self.merge_row(Ok(row), Some(&condition)).await
        } else {
            let carried = unknown.beside(&entity);
            let row = Row::of(&Carrying { entity: &entity, carried: &carried });
            self.replace_row(row, Some(&condition)).await
        };
        match write {
            Ok(etag) => Ok(now_stored(entity, timestamp, etag)),
            // The conflict may be caused by this loop's own write, whose response was lost; then
            // the stored entity equals the written one. Another writer may have written the same, though,
            // which makes a difference only if the change adds to the stored values.
            Err(error)
                if error.kind() == ErrorKind::Conflict && error.outcome() == Outcome::Unknown =>
            {
                // If this read fails, the outcome of the write is still unknown.
                let lost = |error: Error| error.with_outcome(Outcome::Unknown);
                let reply = self.read(keys).await.map_err(lost)?;
                let mut again: Stored<E> = self.decode_one(&reply).map_err(lost)?;
                change(&mut again.entity);
                let now: Stored<E> = self.decode_one(&reply).map_err(lost)?;
                let is_sent = |entity| Row::of(entity).is_ok_and(|row| row.body == sent);
                if is_sent(&now.entity) && is_sent(&again.entity) { Ok(now) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&self, keys: Result<(&str, &str), &KeyError>) -> Result<Reply> {
        match self.get_body(keys, None).await? {
            Some(reply) => Ok(reply),
            None => Err(Error::absent().of("UpdateEntity", self.name())),
        }
    }
}

/// The entity with the ETag of its last write, from which its Timestamp is derived.
fn now_stored<E>(entity: E, before: DateTime, etag: ETag) -> Stored<E> {
    let timestamp = etag.timestamp().unwrap_or(before);
    Stored { entity, etag, timestamp, receipt: Receipt::default() }
}
