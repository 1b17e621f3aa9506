//! Expired entities: what reads leave out, an insert over one, and the job that removes them.

use chrono::{DateTime, Utc};
use rowkey_client::rounds::Rounds;
use rowkey_client::{Entity, Error, ErrorKind, Filter, Operator, Outcome, Properties, Result, edm};
use rowkey_patterns::job::{Job, Walk, Walking};

use super::version::Versioned;
use super::writing::OneWritten;
use super::{Deletions, ReadHead, Store, is_race};
use crate::row::Keys;
use crate::row::declared::prefix;
use crate::row::op::Op;

/// Whether an entity is expired at a time.
pub(super) fn is_expired<E: Entity>(entity: &E, now: edm::DateTime) -> bool {
    entity.expires_at().is_some_and(|at| at <= now)
}

/// The time with the resolution of a stored one.
fn stored(now: DateTime<Utc>) -> edm::DateTime {
    // A clock outside of the years 1601 to 9999 expires nothing.
    edm::DateTime::try_from(now).unwrap_or(edm::DateTime::MIN)
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes the entities that are expired, with all their rows: the type has a field with `#[entity(expiry)]`. For
    /// other types it does not compile. Until then an expired entity keeps its rows, its unique values, its entries in
    /// lists and its share in views.
    ///
    /// The time of the call decides, by the clock of the account; it may differ by up to 15 minutes
    /// from the clocks of other programs. The service finds the entities: one request for each 1,000 of them, which
    /// reads the whole table. A transaction deletes as many entities of a partition as fit with their rows,
    /// only if they are unchanged since they were read: an entity whose expiry is moved to a later time
    /// meanwhile stays, and counts as [`Verdict::Skipped`](rowkey_patterns::job::Verdict::Skipped). Otherwise like
    /// [`delete_found`](Self::delete_found).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use chrono::{DateTime, Utc};
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "session_{id:6}")]
    /// struct Session {
    ///     tenant: String,
    ///     id: u32,
    ///     #[entity(expiry)]
    ///     until: Option<DateTime<Utc>>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let sessions = Store::<Session>::builder(account.table("sessions")).build()?;
    /// sessions.create_if_missing().await?;
    /// let ago = Utc::now() - Duration::from_secs(60);
    /// sessions.insert(&Session { tenant: "contoso".into(), id: 1, until: Some(ago) }).await?;
    /// sessions.insert(&Session { tenant: "contoso".into(), id: 2, until: None }).await?;
    /// assert!(!sessions.exists(Session::key("contoso", 1)).await?);
    ///
    /// assert_eq!(sessions.delete_expired().run().await?.total.right, 1);
    /// assert!(sessions.exists(Session::key("contoso", 2)).await?);
    /// # Ok(()) }
    /// ```
    pub fn delete_expired(
        &self,
    ) -> Job<'static, Walking<rowkey_client::DynamicEntity, Deletions<E>>> {
        const {
            assert!(
                E::DECLARED.expiry.is_some(),
                "entities of this type never expire: mark a field with #[entity(expiry)]"
            );
        }
        let now = self.now();
        // A missing property meets no comparison, so entities without an expiry are not found.
        let expired =
            Filter::dynamic(E::DECLARED.expiry.unwrap_or_default(), Operator::LessOrEqual, now);
        let walk =
            Walk::new(&self.inner.table, move |table| table.scan::<E>().filter(expired.clone()));
        let walk = walk.project();
        let step = Deletions::of_expired(self, walk.clone(), now);
        Job::stepping(format!("delete expired {}", prefix::<E>()), walk, step)
    }

    pub(super) fn now(&self) -> edm::DateTime {
        stored(self.inner.table.account().clock().now())
    }

    /// What a read returns: nothing for an expired entity.
    pub(super) fn unexpired(&self, found: Option<Versioned<E>>) -> Option<Versioned<E>> {
        found.filter(|found| E::DECLARED.expiry.is_none() || !is_expired(&found.entity, self.now()))
    }

    /// The head of an entity that a write changes, unless it is expired.
    pub(super) fn unexpired_head(&self, head: Option<ReadHead<E>>) -> Option<ReadHead<E>> {
        head.filter(|head| E::DECLARED.expiry.is_none() || !is_expired(&head.entity, self.now()))
    }

    /// The head of an entity that a write replaces. The properties of an expired entity that the type does not
    /// have are not kept, because a new entity takes its place. Encrypted ones are not kept either.
    pub(super) fn replaced(&self, mut head: Option<ReadHead<E>>) -> Option<ReadHead<E>> {
        if let Some(head) = &mut head
            && E::DECLARED.expiry.is_some()
            && is_expired(&head.entity, self.now())
        {
            head.head.unknown = Properties::new();
            head.is_of_another = true;
        }
        head
    }

    /// Replaces an expired entity by a new one whose insert failed with `refused`, on condition that the expired
    /// one is unchanged since it was read. Fails with `refused` if there is no expired entity with these keys.
    pub(super) async fn insert_over(
        &self,
        keys: &Keys,
        entity: &E,
        refused: Error,
        rounds: &mut Rounds<'_>,
    ) -> Result<(OneWritten, Op)> {
        let is_refused =
            refused.kind() == ErrorKind::AlreadyExists && refused.outcome() != Outcome::Unknown;
        if E::DECLARED.expiry.is_none() || !is_refused {
            return Err(refused);
        }
        loop {
            let before = match self.read_before(keys).await? {
                Some(head) if is_expired(&head.entity, self.now()) => self.replaced(Some(head)),
                // It was removed in the meantime.
                None if refused.details().index.is_none() => None,
                // Another entity has the keys or a value.
                _ => return Err(refused),
            };
            let error = match self.write(keys, before, Some(entity), rounds).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            if !is_race(&error) || !rounds.again().await {
                return Err(error);
            }
        }
    }
}
