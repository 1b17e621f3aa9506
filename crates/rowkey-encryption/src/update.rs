//! The read-modify-write loop, over ciphertext.

use std::time::Duration;

use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Match, Outcome, Result, Stored};

use crate::encrypted::Encrypted;
use crate::format::METADATA;

/// How often a change is tried against other writers before the caller is told.
const MAX_ROUNDS: u32 = 16;

/// The longest wait before the third round; later ones double, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(10);
const MAX_WAIT: Duration = Duration::from_secs(1);

impl<E: Entity + Send + 'static> Encrypted<E> {
    /// Reads the entity at `key`, changes it and replaces it under the ETag that was read; if
    /// somebody else wrote in between, reads and changes it again, up to 16 times, as
    /// [`Table::update`](rowkey::Table::update) does.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do
    /// nothing but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity,
    /// and with [`ErrorKind::Conflict`] if other writers won every round.
    ///
    /// When the answer to the write is lost, the entity is read, and known for this call's own by its
    /// data key. If another one is there by then, the error stays, with [`Outcome::Unknown`].
    pub async fn update(&self, key: Key<E>, mut change: impl FnMut(&mut E)) -> Result<Stored<E>> {
        let of = |error: Error| error.of("UpdateEntity", self.table().name());
        for round in 0..MAX_ROUNDS {
            self.pause(round).await?;
            let Some(row) = self.table().get_as::<DynamicEntity>(key.clone()).await? else {
                let error = Error::refused(ErrorKind::NotFound, "the entity does not exist");
                return Err(of(error));
            };
            let keys = row.entity.key();
            let mut stored = self.decrypt(row).await?;
            change(&mut stored.entity);
            let sent = self.encrypt(&stored.entity).await?;
            if sent.key() != keys {
                let what = "the change alters a part of the key, and keys cannot change";
                return Err(of(Error::refused(ErrorKind::Invalid, what)
                    .advise("delete the entity and insert the other one")));
            }
            match self.table().replace((&sent, Match::ETag(stored.etag))).await {
                Ok(etag) => {
                    let timestamp = etag.timestamp().unwrap_or(stored.timestamp);
                    return Ok(Stored { entity: stored.entity, etag, timestamp });
                }
                Err(error) if !error.is_conflict() => return Err(error),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    return self.own(key, &sent).await.ok_or(error);
                }
                Err(_) => {}
            }
        }
        let what = "other writers were faster every time the entity was to be changed";
        Err(of(Error::refused(ErrorKind::Conflict, what)))
    }

    /// The entity, if it is the one that was sent: no other write has its data key.
    async fn own(&self, key: Key<E>, sent: &DynamicEntity) -> Option<Stored<E>> {
        let row = self.table().get_as::<DynamicEntity>(key).await.ok()??;
        let same = row.entity.get(METADATA) == sent.get(METADATA);
        if same { self.decrypt(row).await.ok() } else { None }
    }

    /// Nothing before the second round; then waits of random length.
    async fn pause(&self, round: u32) -> Result<()> {
        let Some(doublings) = round.checked_sub(2) else { return Ok(()) };
        let longest = FIRST_WAIT.saturating_mul(1 << doublings).min(MAX_WAIT);
        let [part] = self.cipher.random.bytes()?;
        self.table().account().clock().sleep(longest * u32::from(part) / 255).await;
        Ok(())
    }
}
