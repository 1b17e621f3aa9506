//! Deleting many entities, with all that belongs to them.

use futures_util::FutureExt as _;
use rowkey::{DynamicEntity, Entity, Key, Page, Partition, Result};

use super::{Inner, ReadHead, Step, Store, is_race};
use crate::execute::Ran;
use crate::job::{Job, Report, Verdict, Walk, Walking};
use crate::plan::{MAX_OPERATIONS, Op, Plan};
use crate::row::{Keys, keys_of};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes every entity of a partition, or of a part of one, with all that belongs to it.
    ///
    /// Entities are deleted as many to a transaction as fit with their rows. One that another writer
    /// changes meanwhile is deleted by itself, as it is then. The report counts entities; run it again to
    /// delete what was inserted behind it.
    pub fn delete_where(
        &self,
        partition: Partition<E>,
    ) -> Job<'static, Walking<DynamicEntity, Step>>
    where
        Partition<E>: Clone,
    {
        let store = self.clone();
        let step: Step = Box::new(move |page| {
            let store = store.clone();
            async move { store.delete_page(page).await }.boxed()
        });
        let walk = Walk::new(&self.inner.table, move |table| {
            table.query(partition.clone()).project::<DynamicEntity>()
        });
        Job::walk(format!("delete {}", Inner::<E>::of()), walk, step)
    }

    async fn delete_page(&self, page: Page<DynamicEntity>) -> Result<Report> {
        let mut report = Report::default();
        let mut heads = Vec::new();
        for stored in page.entities {
            let stored = self.inner.layers.open::<E>(self.inner.deciding.table(), stored).await?;
            heads.push((keys_of(&stored.entity.entity)?, ReadHead::of(stored)));
        }
        let each = self.inner.contributors.iter().map(|one| one.operations()).sum::<usize>() + 1;
        for group in heads.chunks(((MAX_OPERATIONS - 1) / each).max(1)) {
            match self.delete_group(group).await {
                Ok(()) => report.note(None, Verdict::Right, group.len() as u64),
                Err(error) if is_race(&error) => {
                    for (keys, _) in group {
                        self.delete(Key::new(&*keys.0, &*keys.1)).await?;
                        report.note(None, Verdict::Right, 1);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    async fn delete_group(&self, group: &[(Keys, ReadHead<E>)]) -> Result<()> {
        let Some((first, _)) = group.first() else { return Ok(()) };
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(first.0.clone(), op);
        for (keys, head) in group {
            self.add(&mut plan, keys, Some(head), None).await?;
        }
        match self.executor().run(plan).await? {
            Ran::Done { .. } => Ok(()),
            Ran::Stale(error) => Err(error),
        }
    }
}
