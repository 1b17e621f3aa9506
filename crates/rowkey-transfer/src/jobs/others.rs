//! Entities of a table that another one lacks: reported, counted or deleted.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::internals::{has_order, is_of_key_range};
use rowkey_client::{DynamicEntity, Error, ErrorKind, FailedRow, Key, Page, Result, Stored, Table};
use rowkey_patterns::job::{Deletion, Job, Keys, PageStep, Report, Verdict, Walk, Walking};

use super::look_up::{AT_A_TIME, look_up, primary};

/// The page step of [`Comparison::others`](super::Comparison::others) and
/// [`delete_others`](super::Comparison::delete_others).
pub struct Others {
    /// The table that lacks them.
    of: Table,
    is_ordered: bool,
    then: Then,
}

/// What is done with them.
enum Then {
    Report,
    Count,
    Delete(Deletion),
}

impl Others {
    fn new(of: &Table, walked: &Table, then: Then) -> Self {
        Self { is_ordered: has_order(of) && has_order(walked), of: primary(of), then }
    }

    /// Their keys are among the problems of the report.
    pub(super) fn reported(of: &Table, walked: &Table) -> Self {
        Self::new(of, walked, Then::Report)
    }

    pub(super) fn counted(of: &Table, walked: &Table) -> Self {
        Self::new(of, walked, Then::Count)
    }

    pub(super) fn deleted(of: &Table, walked: &Table) -> Self {
        Self::new(of, walked, Then::Delete(Deletion::of_unchanged(walked)))
    }

    /// Separates those of a page that the table lacks.
    async fn find(&self, page: Vec<Stored<Keys>>) -> Result<Vec<Stored<Keys>>> {
        let keys: Vec<_> = page
            .iter()
            .map(|stored| (&*stored.entity.partition_key, &*stored.entity.row_key))
            .collect();
        let mut lacks = vec![false; page.len()];
        look_up(&self.of, self.is_ordered, &keys, |at, found: Option<Result<Keys, FailedRow>>| {
            lacks[at] = found.is_none();
        })
        .await?;
        Ok(page.into_iter().zip(lacks).filter_map(|(row, lacks)| lacks.then_some(row)).collect())
    }

    /// Keeps those that a read by their keys does not find either. It costs little beside the deletion, and nothing is deleted
    /// because rows of a query came in another order, or were written since.
    async fn confirm(&self, found: Vec<Stored<Keys>>) -> Result<Vec<Stored<Keys>>> {
        let reads = found.into_iter().map(|stored| async move {
            let Keys { partition_key, row_key } = &stored.entity;
            let read = self.of.get(Key::<DynamicEntity>::new(partition_key, row_key)).await?;
            Ok::<_, Error>(read.is_none().then_some(stored))
        });
        // Boxed: the compiler cannot see otherwise that the stream may be sent.
        let reads: Vec<_> = reads.map(futures_util::FutureExt::boxed).collect();
        let confirmed: Vec<_> = stream::iter(reads).buffered(AT_A_TIME).try_collect().await?;
        Ok(confirmed.into_iter().flatten().collect())
    }
}

impl PageStep<Keys> for Others {
    async fn step(&self, page: Page<Keys>) -> Result<Report> {
        // The credential may be another one than at the beginning.
        check_whole(&self.of)?;
        let all = page.entities.len();
        let mut found = self.find(page.entities).await?;
        let mut report = Report::default();
        match &self.then {
            Then::Report => {
                let error = Error::refused(ErrorKind::Invalid, "only the other table has it");
                for Stored { entity: Keys { partition_key, row_key }, .. } in &found {
                    report.problem(None, Verdict::Orphaned, (partition_key, row_key), &error);
                }
            }
            Then::Count => report.note(None, Verdict::Orphaned, found.len() as u64),
            Then::Delete(deletion) => {
                found = self.confirm(found).await?;
                let deleted = deletion.found(&found).await?.total;
                report.note(None, Verdict::Orphaned, deleted.right);
                report.repaired(None, deleted.right);
                report.note(None, Verdict::Skipped, deleted.skipped);
            }
        }
        report.note(None, Verdict::Right, (all - found.len()) as u64);
        Ok(report)
    }
}

/// Fails if the credential of the table hides entities.
pub(super) fn check_whole(of: &Table) -> Result<()> {
    if !is_of_key_range(of) {
        return Ok(());
    }
    let what = "the shared access signature of the source is for a range of keys, and entities outside of it would be taken for \
                missing";
    Err(Error::refused(ErrorKind::Invalid, what)
        .advise("use a signature for the whole table, or the account key")
        .of("Comparison", of.name()))
}

/// A job of this step, whose checkpoint is tied to both tables.
pub(super) fn job(
    name: &str,
    walk: Walk<Keys>,
    step: Others,
    of: &Table,
) -> Job<'static, Walking<Keys, Others>> {
    let (from, to) = (of.place(), walk.table().place());
    Job::stepping(name, walk, step).parameter("from", from).parameter("to", to)
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("of", &self.of.name()).finish_non_exhaustive()
    }
}
