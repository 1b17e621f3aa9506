//! Cleaning: a job that deletes the rows of a retired declaration.

use futures_util::{FutureExt as _, TryStreamExt as _};
use rowkey::{DynamicEntity, Entity, Page, Result, Stored, Table};

use super::{Inner, Step, Store};
use crate::execute::settle::{Settled, delete};
use crate::job::{Job, Report, Verdict, Walk, Walking};
use crate::row::{Claim, INDEX, primary_keys, text};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes the rows of an index, a unique value or a list that is [`Gone`](super::Stage::Gone): its
    /// copies, claims and lists, including lists in blobs. Entities stay unchanged.
    ///
    /// Run the job from a program that no longer declares it, at least 12 minutes after it reached the
    /// stage. No program writes such rows then. Costs one request for each page of 1,000 rows, and one for
    /// each row that is deleted. Rows that a view or a contributor keeps in another table are not deleted.
    /// Lists in blobs require the container of [`StoreBuilder::blobs`](super::StoreBuilder::blobs).
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
            // The next run finds a row that has changed since the page was read.
            if delete(&self.inner.deciding, &keys, etag.clone()).await? == Settled::Done {
                report.repaired(part, 1);
            }
        }
        if let (None, Some(blobs)) = (&page.continuation, &self.inner.blobs) {
            // At the end of each range of the walk. Blobs deleted at the end of another range are gone.
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

/// Identifies the rows of a declaration that the program does not have.
struct Left {
    of: &'static str,
    name: String,
    /// The prefix of the RowKeys of its lists, if it is a list.
    list: String,
    /// The prefix of the PartitionKeys of its claims, if it is a unique value.
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
