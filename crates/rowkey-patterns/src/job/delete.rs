//! Deleting entities of plain types, which have no other rows.

use std::fmt;

use rowkey_client::{DynamicEntity, Entity, ErrorCode, Key, Page, Result, Stored, Table};

use super::repeat::{pause, until_done};
use super::walk::PageStep;
use super::{Job, Keys, Report, Verdict, Walk, Walking, primary};
use crate::keys::{MAX_OPERATIONS, not_of_a_store};
use crate::together::try_all;

/// Partitions of a page processed at once.
const PARTITIONS: usize = 8;
/// How often the deletion of an entity is repeated if other writers change it in the meantime.
const ROUNDS: u32 = 8;

/// The page step of [`Job::delete`].
pub struct Deletion {
    /// Finds what has changed since it was found. Without it, that stays.
    walk: Option<Walk<Keys>>,
    table: Table,
}

impl Job<'static, Walking<Keys, Deletion>> {
    /// Deletes the entities that a walk finds, up to 100 of one partition per transaction.
    ///
    /// Only keys are read. An entity that another writer changed since it was found is looked up again: it
    /// is deleted if the walk still finds it, and counts as [`Verdict::Skipped`] otherwise. An entity that
    /// no longer exists counts as deleted, [`Verdict::Right`]. Entities that begin to match behind the
    /// current position are not found: run the job again. [`Job::count`] counts the entities in advance.
    ///
    /// Costs one request for each page, one for each 100 entities of a partition on it, and two for an
    /// entity that was changed in the meantime. Use `Store::delete_found`
    /// for a type with `#[entity(store)]`.
    ///
    /// ```
    /// use rowkey::pace::Pace;
    /// use rowkey::patterns::job::{Job, Walk};
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{device}", row = "{number:6}")]
    /// struct Event { device: String, number: u32, level: i32 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let events = account.table("events");
    /// events.create_if_missing().await?;
    /// for number in 0..20 {
    ///     let device = format!("device-{}", number % 3);
    ///     events.insert(&Event { device, number, level: i32::from(number % 2 == 0) }).await?;
    /// }
    ///
    /// let unimportant =
    ///     || Walk::new(&events, |events| events.scan::<Event>().filter(Event::LEVEL.is(0)));
    /// assert_eq!(Job::count(unimportant()).run().await?.total.examined, 10);
    /// let pace = Pace::background().entities_per_second(500);
    /// let report = Job::delete(unimportant()).pace(pace).run().await?;
    /// assert_eq!(report.total.right, 10);
    /// # Ok(()) }
    /// ```
    pub fn delete<E: Entity + Send + 'static>(walk: Walk<E>) -> Self {
        const { not_of_a_store::<E>() };
        let is_split = walk.locate.is_some();
        let walk = walk.project::<Keys>();
        let walk = if is_split { walk.split_automatically() } else { walk };
        let step = Deletion { walk: Some(walk.clone()), table: primary(walk.table()) };
        Self::stepping("delete", walk, step)
    }
}

impl PageStep<Keys> for Deletion {
    async fn step(&self, page: Page<Keys>) -> Result<Report> {
        self.found(&page.entities).await
    }
}

impl Deletion {
    /// Deletes entities of a table that are as they were found; others count as [`Verdict::Skipped`].
    #[doc(hidden)]
    pub fn of_unchanged(table: &Table) -> Self {
        Self { walk: None, table: primary(table) }
    }

    /// Deletes what was found, up to 100 of one partition per transaction, each under its ETag.
    #[doc(hidden)]
    pub async fn found(&self, found: &[Stored<Keys>]) -> Result<Report> {
        // It is sorted by keys. If it were not, a partition would merely be split.
        let chunks =
            found.chunk_by(|one, other| one.entity.partition_key == other.entity.partition_key);
        let mut all = Report::default();
        for report in try_all(chunks.map(|found| self.partition(found)), PARTITIONS).await? {
            all.merge(report);
        }
        Ok(all)
    }

    /// Deletes entities of one partition, one transaction after the other.
    async fn partition(&self, found: &[Stored<Keys>]) -> Result<Report> {
        let mut report = Report::default();
        for chunk in found.chunks(MAX_OPERATIONS) {
            self.transaction(chunk.to_vec(), &mut report).await?;
        }
        Ok(report)
    }

    async fn transaction(&self, mut left: Vec<Stored<Keys>>, report: &mut Report) -> Result<()> {
        let clock = self.table.account().clock();
        let (mut rounds, mut failures) = (0, 0);
        while !left.is_empty() {
            let delete = |transaction: rowkey_client::Transaction, stored: &Stored<Keys>| {
                let Keys { partition_key, row_key } = &stored.entity;
                transaction.delete(Key::<DynamicEntity>::new(partition_key, row_key), stored)
            };
            let sent = left.iter().fold(self.table.transaction(), delete).submit().await;
            let Err(error) = sent else {
                report.note(None, Verdict::Right, left.len() as u64);
                break;
            };
            // Done again here: a page that is read again lacks what was deleted, which would not be counted.
            if error.is_retryable() && error.kind() != rowkey_client::ErrorKind::Conflict {
                failures += 1;
                pause(clock, failures, error).await?;
                continue;
            }
            let Some(at) = error.details().operation_index.filter(|at| *at < left.len()) else {
                return Err(error);
            };
            if error.kind() == rowkey_client::ErrorKind::NotFound
                && error.code() != Some(&ErrorCode::TABLE_NOT_FOUND)
            {
                left.remove(at);
                report.note(None, Verdict::Right, 1);
            } else if error.kind() == rowkey_client::ErrorKind::Conflict {
                let Keys { partition_key, row_key } = left.remove(at).entity;
                rounds += 1;
                let again = match &self.walk {
                    Some(walk) => {
                        let again = async |_| walk.again((&partition_key, &row_key)).await;
                        until_done(clock, again).await?
                    }
                    None => None,
                };
                match again {
                    Some(found) if rounds <= ROUNDS => left.push(found),
                    _ => report.note(None, Verdict::Skipped, 1),
                }
            } else {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deletion").finish_non_exhaustive()
    }
}
