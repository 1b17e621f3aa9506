//! Rows that no entity demands: those of a partition are deleted by one transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::{DynamicEntity, ETag, Key, Match, Result, Transaction};
use rowkey_patterns::internals::try_all;
use rowkey_patterns::job::{Report, Verdict};
use tokio::sync::OnceCell;

use super::examine::note_failure;
use crate::declaring::settling::Settled;
use crate::execute::claim::end;
use crate::execute::release::delete;
use crate::layer::deciding::{Deciding, is_undecodable};
use crate::plan::MAX_OPERATIONS;
use crate::row::Keys;

/// Partitions in which rows are deleted at once.
const AT_A_TIME: usize = 8;

/// A copy or a claim that no entity demanded after it was read.
#[derive(Clone)]
pub(super) struct Orphan {
    pub(super) keys: Keys,
    /// Its `ETag` when it was read. If it has changed since, its writer keeps it in step.
    pub(super) etag: ETag,
    /// The declaration.
    pub(super) part: Option<&'static str>,
}

/// The orphans of a page.
#[derive(Default)]
pub(super) struct Orphans(Mutex<Collected>);

#[derive(Default)]
struct Collected {
    rows: Vec<Orphan>,
    /// The operations that were decided because a claim names them.
    ended: BTreeMap<Keys, Arc<OnceCell<()>>>,
}

impl Orphans {
    pub(super) fn add(&self, orphan: Orphan) {
        self.locked().rows.push(orphan);
    }

    /// Decides the operation that wrote a claim, once for all its claims on the page. One request, or two.
    pub(super) async fn end(&self, table: &Deciding, op: &Keys) -> Result<()> {
        let cell = Arc::clone(self.locked().ended.entry(op.clone()).or_default());
        cell.get_or_try_init(async || end(table, op).await.map(drop)).await.copied()
    }

    /// Deletes the rows, each on condition that it is as it was read. One request for up to 100 of a partition, and one
    /// for each row of a transaction that is refused or not answered.
    pub(super) fn delete(self, table: &Deciding) -> BoxFuture<'_, Result<Report>> {
        let Collected { mut rows, .. } =
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        async move {
            rows.sort_by(|one, other| one.keys.cmp(&other.keys));
            let partitions = rows.chunk_by(|one, other| one.keys.0 == other.keys.0);
            let deleted = partitions.map(|partition| async move {
                let mut report = Report::default();
                for group in partition.chunks(MAX_OPERATIONS) {
                    delete_group(table, group, &mut report).await?;
                }
                Ok(report)
            });
            let mut all = Report::default();
            for report in try_all(deleted, AT_A_TIME).await? {
                all.merge(report);
            }
            Ok(all)
        }
        .boxed()
    }

    fn locked(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn delete_group(table: &Deciding, group: &[Orphan], report: &mut Report) -> Result<()> {
    if group.len() > 1 {
        let delete = |transaction: Transaction, orphan: &Orphan| {
            let key = Key::<DynamicEntity>::new(&*orphan.keys.0, &*orphan.keys.1);
            transaction.delete(key, Match::ETag(orphan.etag.clone()))
        };
        match group.iter().fold(table.transaction(), delete).submit().await {
            Ok(_) => {
                for orphan in group {
                    note(orphan, report);
                }
                return Ok(());
            }
            Err(error) if is_undecodable(&error) => return Err(error),
            Err(error) => tracing::debug!(%error, "orphans are deleted one by one"),
        }
    }
    for orphan in group {
        match delete(table, &orphan.keys, orphan.etag.clone()).await {
            Ok(Settled::Done) => note(orphan, report),
            // Its writer keeps it in step.
            Ok(Settled::Pending) => {}
            Err(error) => note_failure(error, &orphan.keys, report)?,
        }
    }
    Ok(())
}

fn note(orphan: &Orphan, report: &mut Report) {
    report.note(orphan.part, Verdict::Orphaned, 1);
    report.repaired(orphan.part, 1);
}
