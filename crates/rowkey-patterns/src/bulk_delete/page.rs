//! The deletes of one page.

use futures_util::{TryStreamExt as _, stream};
use rowkey::{DynamicEntity, Error, ErrorCode, Key, Match, Outcome, Result, Stored, Table};

use super::{Keys, OPERATION, Pace, Progress, Settings};

/// Operations a transaction may have.
const MAX: usize = 100;

pub(super) struct Deletes {
    pub(super) table: Table,
    pub(super) settings: Settings,
    pub(super) pace: Pace,
}

impl Deletes {
    /// Deletes what a page found.
    pub(super) async fn page(&self, found: Vec<Stored<Keys>>) -> Result<Progress> {
        let mut all = Progress { found: found.len() as u64, pages: 1, ..Progress::default() };
        if self.settings.dry_run {
            return Ok(all);
        }
        // A page is in the order of the keys; where it is not, a partition is only split.
        let mut partitions: Vec<Vec<Stored<Keys>>> = Vec::new();
        for keys in found {
            match partitions.last_mut() {
                Some(last) if last[0].entity.partition_key == keys.entity.partition_key => {
                    last.push(keys);
                }
                _ => partitions.push(vec![keys]),
            }
        }
        stream::iter(partitions.into_iter().map(|keys| Ok(self.partition(keys))))
            .try_buffer_unordered(self.settings.in_flight)
            .try_for_each(|deleted| {
                all.add(deleted);
                std::future::ready(Ok(()))
            })
            .await?;
        Ok(all)
    }

    /// Deletes entities of one partition, one transaction after the other.
    async fn partition(&self, mut keys: Vec<Stored<Keys>>) -> Result<Progress> {
        let mut deleted = Progress::default();
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(MAX));
            deleted.add(self.transaction(keys).await?);
            keys = rest;
        }
        Ok(deleted)
    }

    /// Deletes what fits one transaction. An entity that cannot be deleted because somebody else was
    /// faster is taken out, and the others are tried again.
    async fn transaction(&self, mut keys: Vec<Stored<Keys>>) -> Result<Progress> {
        let mut progress = Progress::default();
        // Whether a request may have deleted all of them and lost its answer.
        let mut in_doubt = false;
        while !keys.is_empty() {
            self.pace.take(self.table.account().clock(), keys.len()).await;
            let transaction = keys.iter().fold(self.table.transaction(), |transaction, stored| {
                let Keys { partition_key, row_key } = &stored.entity;
                let key = Key::<DynamicEntity>::new(partition_key, row_key);
                let condition =
                    if self.settings.unconditionally { Match::Any } else { stored.into() };
                transaction.delete(key, condition)
            });
            progress.transactions += 1;
            let Err(error) = transaction.submit().await else {
                progress.deleted += keys.len() as u64;
                return Ok(progress);
            };
            in_doubt |= error.outcome() == Outcome::Unknown;
            let counted = match error.operation_index().filter(|&index| index < keys.len()) {
                Some(index) if is_gone(&error) => {
                    keys.remove(index);
                    if in_doubt { &mut progress.deleted } else { &mut progress.gone }
                }
                Some(index) if error.is_conflict() => {
                    keys.remove(index);
                    &mut progress.changed
                }
                _ => return Err(error.of(OPERATION, self.table.name())),
            };
            *counted += 1;
        }
        Ok(progress)
    }
}

/// Whether the entity is not there any more; a missing table is something else.
fn is_gone(error: &Error) -> bool {
    error.is_not_found() && error.code() != Some(&ErrorCode::TABLE_NOT_FOUND)
}
