//! Whether reservations and entities agree, and making them.

use std::fmt;

use futures_util::TryStreamExt as _;
use rowkey::{Column, DynamicEntity, Entity, Key, Result, ScanPolicy};

use super::reservation::{self, Keys, Reservation};
use super::{Reserved, Standing, Unique, owner};

/// How many duplicates a [`Report`] names.
const MAX_NAMED: usize = 1000;

/// What [`Unique::verify`] and [`Unique::repair`] found.
#[non_exhaustive]
pub struct Report<E> {
    /// Reservations that were read.
    pub reservations: u64,
    /// Entities with a value that were read.
    pub entities: u64,
    /// Claims in progress. They are left alone.
    pub pending: u64,
    /// Reservations without an entity: a claim that was broken off, or an entity that was deleted.
    /// They keep nobody from the value, and [`Unique::repair`] removes them.
    pub abandoned: u64,
    /// Reservations that were never confirmed although the entity was written.
    /// [`Unique::repair`] confirms them.
    pub unconfirmed: u64,
    /// Entities whose value nobody has reserved, because they were written past the constraint.
    /// [`Unique::repair`] reserves it.
    pub unreserved: u64,
    /// Entities whose value is another's.
    pub duplicated: u64,
    /// The first 1,000 of them. Nobody but you can tell what becomes of them: give them another value
    /// with [`Unique::update`], or delete them.
    pub duplicates: Vec<Key<E>>,
}

impl<E> Report<E> {
    /// Whether every entity has its value alone, and every reservation has its entity.
    pub fn is_clean(&self) -> bool {
        self.abandoned + self.unconfirmed + self.unreserved + self.duplicated == 0
    }
}

impl<E> Default for Report<E> {
    fn default() -> Self {
        Self {
            reservations: 0,
            entities: 0,
            pending: 0,
            abandoned: 0,
            unconfirmed: 0,
            unreserved: 0,
            duplicated: 0,
            duplicates: Vec::new(),
        }
    }
}

impl<E> fmt::Debug for Report<E> {
    /// Counts alone: keys may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("reservations", &self.reservations)
            .field("entities", &self.entities)
            .field("pending", &self.pending)
            .field("abandoned", &self.abandoned)
            .field("unconfirmed", &self.unconfirmed)
            .field("unreserved", &self.unreserved)
            .field("duplicated", &self.duplicated)
            .finish_non_exhaustive()
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Unique<E> {
    /// Reads all reservations and all entities, and reports where they do not agree. Changes
    /// nothing. Two table scans, and one request for each reservation and each entity.
    pub async fn verify(&self) -> Result<Report<E>> {
        self.walk(false).await.map_err(|error| self.named(error))
    }

    /// The same, and mends what it reports, but for duplicates: while writers go on.
    ///
    /// It is also how entities that were there before the constraint get their reservations: let all
    /// writers use the constraint, then repair. A run that was broken off begins again.
    pub async fn repair(&self) -> Result<Report<E>> {
        self.walk(true).await.map_err(|error| self.named(error))
    }

    async fn walk(&self, mend: bool) -> Result<Report<E>> {
        let mut report = Report::default();
        let of_this = Column::<String>::named("PartitionKey");
        let mut reservations = self
            .reservations
            .scan::<DynamicEntity>()
            .filter(of_this.starts_with(&reservation::head(self.name)))
            .scan_policy(ScanPolicy::Allow)
            .stream();
        while let Some(stored) = reservations.try_next().await? {
            let reservation = Reservation::read(stored)?;
            report.reservations += 1;
            match self.standing(&reservation).await? {
                Standing::Pending(_) => {
                    report.pending += 1;
                    continue;
                }
                Standing::Holds if reservation.expires.is_none() => continue,
                Standing::Holds => report.unconfirmed += 1,
                Standing::Vacant => report.abandoned += 1,
            }
            if mend {
                self.settle(&reservation.keys, &reservation.owner, None).await?;
            }
        }
        let mut entities = self.entities.scan::<E>().scan_policy(ScanPolicy::Allow).stream();
        while let Some(stored) = entities.try_next().await? {
            if let Some(keys) = self.keys_of(&stored.entity)? {
                report.entities += 1;
                self.examine(Key::of(&stored.entity), &keys, mend, &mut report).await?;
            }
        }
        Ok(report)
    }

    /// Looks at an entity that had this value when it was read.
    async fn examine(
        &self,
        key: Key<E>,
        keys: &Keys,
        mend: bool,
        report: &mut Report<E>,
    ) -> Result<()> {
        let owner = owner(&key)?;
        let found = self.read(keys).await?;
        if found.as_ref().is_some_and(|reservation| reservation.owner == owner) {
            return Ok(());
        }
        let is_free = match &found {
            None => true,
            Some(other) => matches!(self.standing(other).await?, Standing::Vacant),
        };
        // It may have got another value since.
        match self.entities.get(key.clone()).await? {
            Some(now) if self.keys_of(&now.entity)?.as_ref() == Some(keys) => {}
            _ => return Ok(()),
        }
        let reserved = match (is_free, mend) {
            (true, false) => None,
            (true, true) => Some(self.reserve(keys, &owner).await?),
            (false, _) => Some(Reserved::Taken { until: None }),
        };
        match reserved {
            None => report.unreserved += 1,
            Some(Reserved::Ours(hold)) => {
                report.unreserved += 1;
                self.settle(keys, &owner, Some(&hold.etag)).await?;
            }
            Some(Reserved::Taken { .. }) => {
                report.duplicated += 1;
                if report.duplicates.len() < MAX_NAMED {
                    report.duplicates.push(key);
                }
            }
        }
        Ok(())
    }
}
