//! Cleaning: a job that deletes what a declaration left that has been retired.

use futures_util::{FutureExt as _, TryStreamExt as _};
use rowkey::{DynamicEntity, Entity, Page, Result, Stored, Table};

use super::{Inner, Step, Store};
use crate::execute::settle::{Settled, delete};
use crate::job::{Job, Report, Verdict, Walk, Walking};
use crate::row::{Claim, INDEX, primary_keys, text};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes the rows of an index, a unique value or a list that is [`Gone`](super::Stage::Gone): its
    /// copies, claims, lists and the blobs of its lists. Entities stay as they are.
    ///
    /// Run the job from a program that does not declare it any more, 12 minutes after it was gone at the
    /// earliest: no program writes such a row then. A page of 1,000 rows is a request, and each row that is
    /// deleted another one. Rows that a view or a contributor keeps in another table are not deleted. The
    /// blobs of a list need the container of [`StoreBuilder::blobs`](super::StoreBuilder::blobs).
    ///
    /// Two requests before the job. Fails with [`ErrorKind::Unavailable`](rowkey::ErrorKind) if it is too
    /// early, and with [`ErrorKind::Invalid`](rowkey::ErrorKind) if the declaration is not gone, if this
    /// program declares it, or if the store was not opened.
    pub async fn clean(&self, name: &str) -> Result<Job<'static, Walking<DynamicEntity, Step>>> {
        self.check_gone(name).await.map_err(|error| self.named("Clean", error))?;
        let (store, name) = (self.clone(), name.to_owned());
        let of = Inner::<E>::of();
        let title = format!("clean {of} {name}");
        let step: Step = Box::new(move |page: Page<DynamicEntity>| {
            let (store, left) = (store.clone(), Left::new(of, &name));
            async move { store.clean_page(page, &left).await }.boxed()
        });
        let walk = Walk::new(self.inner.deciding.table(), Table::scan::<DynamicEntity>);
        Ok(Job::walk(title, walk, step))
    }

    async fn clean_page(&self, page: Page<DynamicEntity>, left: &Left) -> Result<Report> {
        let mut report = Report::default();
        let part = Some(&*left.name);
        for Stored { entity: row, etag, .. } in
            page.entities.iter().filter(|row| left.is(&row.entity))
        {
            report.note(part, Verdict::Orphaned, 1);
            let keys = (row.partition_key.clone(), row.row_key.clone());
            // One that has changed since the page was read is found by the next run.
            if delete(&self.inner.deciding, &keys, etag.clone()).await? == Settled::Done {
                report.repaired(part, 1);
            }
        }
        if let (None, Some(blobs)) = (&page.continuation, &self.inner.blobs) {
            // The end of a range of the walk; what was deleted at the end of another is not there.
            let lists = blobs.deciding().blobs().starting_with(&blobs.prefix(&left.list));
            let mut lists = lists.stream();
            while let Some(list) = lists.try_next().await? {
                if blobs.deciding().blob(&list.name).delete_if_exists().await? {
                    report.note(part, Verdict::Orphaned, 1);
                    report.repaired(part, 1);
                }
            }
        }
        Ok(report)
    }
}

/// What the rows of a declaration are known by that the program does not have.
struct Left {
    of: &'static str,
    name: String,
    /// What the RowKey of each of its lists begins with, if it is one.
    list: String,
    /// What the PartitionKey of each of its claims begins with, if it is a unique value.
    claims: String,
}

impl Left {
    fn new(of: &'static str, name: &str) -> Self {
        let (list, claims) = (format!("list_{of}{name}_"), format!("unique_{of}{name}_"));
        Self { of, name: name.to_owned(), list, claims }
    }

    fn is(&self, row: &DynamicEntity) -> bool {
        if row.partition_key.starts_with(&self.claims) {
            return Claim::read(row).is_ok_and(|claim| claim.owner.1.starts_with(self.of));
        }
        if text(row, INDEX) != Some(&*self.name) {
            return false;
        }
        match primary_keys(row) {
            Some(owner) => owner.1.starts_with(self.of),
            None => row.row_key.starts_with(&self.list),
        }
    }
}
