//! The read-modify-write loop.

use std::time::Duration;

use rowkey_wire::edm::DateTime;
use rowkey_wire::etag::{ETag, Match};

use super::handle::{Row, Table};
use crate::entity::unknown::{Carrying, Known, names};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Outcome, Result};
use crate::key::Key;
use crate::transport::Reply;

/// How often a change is tried against other writers before the caller is told.
const MAX_ROUNDS: u32 = 16;

/// The longest wait before the third round. Later ones double, up to [`MAX_WAIT`]: whoever lost
/// twice has met a crowd, and a crowd that does not spread loses nearly every round.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const MAX_WAIT: Duration = Duration::from_secs(1);

impl Table {
    /// Reads the entity at `key`, changes it and writes it under the ETag that was read; if another
    /// writer came in between, reads and changes it again, up to 16 times: the second time at
    /// once, later after waits of random length, a second at most.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do
    /// nothing but change the entity. Two requests a round.
    ///
    /// Properties that `E` does not know, because a newer program or another one wrote them, stay as
    /// they are, with their types. The write is a Merge if no stored property goes away, and otherwise a
    /// Replace that carries them; it then fails with [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge)
    /// if they and the changed entity are more than the service takes. [`replace`](Self::replace) erases
    /// them. Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such entity,
    /// and with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if other writers won every round.
    ///
    /// When the answer to the write is lost, the entity is read to see whether it was applied. That
    /// settles it if `change` sets what it sets. If it adds to what is there, as a counter does,
    /// another writer's entity may look like this one's: then the error stays, with
    /// [`Outcome::Unknown`], rather than that a change is lost.
    pub async fn update<E: Entity>(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let keys = key.parts();
        for round in 1..MAX_ROUNDS {
            match self.update_once(keys, &mut change).await {
                Err(error)
                    if error.kind() == crate::ErrorKind::Conflict
                        && error.outcome() == Outcome::Rejected => {}
                result => return result,
            }
            if let Some(doublings) = round.checked_sub(2) {
                let longest = FIRST_WAIT.saturating_mul(1 << doublings).min(MAX_WAIT);
                self.pipeline().pause(longest).await;
            }
        }
        self.update_once(keys, &mut change).await
    }

    async fn update_once<E: Entity>(
        &self,
        keys: Result<(&str, &str), &crate::key::KeyError>,
        change: &mut impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let read: Stored<Known<E>> = self.decode_one(&self.read(keys).await?)?;
        let Stored { entity: Known { mut entity, unknown, stored }, etag, timestamp } = read;
        change(&mut entity);
        let row = Row::of(&entity).map_err(|error| error.of("UpdateEntity", self.name()))?;
        if keys.is_ok_and(|keys| keys != row.keys()) {
            let what = "the change alters a part of the key, and keys cannot change: delete the \
                        entity and insert the other one, in one transaction if the partition is \
                        the same";
            return Err(Error::invalid(what).of("UpdateEntity", self.name()));
        }
        let sent = row.body.clone();
        let condition = Match::ETag(etag);
        let written = names(&entity);
        // A Merge leaves alone what it does not name, and cannot remove a property (a null in it leaves
        // the property as it was).
        let write = if stored.iter().all(|name| written.contains(name)) {
            self.merge_row(Ok(row), Some(&condition)).await
        } else {
            let carried = unknown.beside(&entity);
            let row = Row::of(&Carrying { entity: &entity, carried: &carried });
            self.replace_row(row, Some(&condition)).await
        };
        match write {
            Ok(etag) => Ok(now_stored(entity, timestamp, etag)),
            // The refusal may be the echo of this loop's own write, whose answer was lost, and then
            // the entity is now what was written. Another writer may have written the same, though.
            // That makes no difference unless the change adds to what is there.
            Err(error)
                if error.kind() == crate::ErrorKind::Conflict
                    && error.outcome() == Outcome::Unknown =>
            {
                // If this read fails, the outcome of the write is still unknown.
                let reply = self.read(keys).await.map_err(Error::after_unknown)?;
                let mut again: Stored<E> = self.decode_one(&reply).map_err(Error::after_unknown)?;
                change(&mut again.entity);
                let now: Stored<E> = self.decode_one(&reply).map_err(Error::after_unknown)?;
                let is_sent = |entity| Row::of(entity).is_ok_and(|row| row.body == sent);
                if is_sent(&now.entity) && is_sent(&again.entity) { Ok(now) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&self, keys: Result<(&str, &str), &crate::key::KeyError>) -> Result<Reply> {
        match self.get_body(keys, None).await? {
            Some(reply) => Ok(reply),
            None => Err(Error::absent().of("UpdateEntity", self.name())),
        }
    }
}

/// The entity under the ETag of its last write, which tells its Timestamp, too.
fn now_stored<E>(entity: E, before: DateTime, etag: ETag) -> Stored<E> {
    let timestamp = etag.timestamp().unwrap_or(before);
    Stored { entity, etag, timestamp }
}
