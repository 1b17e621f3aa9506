//! A view compared with the entities it is of, and built for those that were there before.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, Entity, Key, Result, Table};
use rowkey_patterns::index_row::primary_key;
use rowkey_patterns::rounds::Rounds;

use super::group::{Group, is_of_view};
use super::settle::{CONCURRENCY, is_settled};
use super::{BATCH, View};
use crate::repair::{Drifted, Following, Run};
use crate::settling::all;

/// Verifying.
impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> View<E, S> {
    /// Compares the view with a scan of the entities, and writes nothing.
    ///
    /// What a worker has yet to settle counts as out of step.
    pub fn check(&self) -> Run<E> {
        Run::new(self.clone(), false)
    }

    /// Compares the view with a scan of the entities, and mends it. Writers and workers may go on.
    ///
    /// For a view of entities that were there before, and after a change of what it says: let all
    /// workers use the declaration first, then run this.
    pub fn repair(&self) -> Run<E> {
        Run::new(self.clone(), true)
    }

    async fn drifted(&self, group: &Group, keys: &[Key<E>]) -> Result<Vec<Drifted<E>>> {
        let mut rounds = Rounds::new(&self.table, group.address());
        let (mut drifted, mut keys) = (Vec::new(), keys.to_vec());
        loop {
            let before = self.stored(group, &keys).await?;
            let wanted: Vec<_> = keys.iter().map(|key| self.now_wanted(group, key)).collect();
            let wanted = all(wanted, CONCURRENCY).await?;
            let mut doubts = Vec::new();
            for ((key, before), wanted) in keys.into_iter().zip(before).zip(wanted) {
                if let Some(wanted) = wanted
                    && !is_settled(before.as_ref(), wanted.as_ref())
                {
                    let before = before.map(|before| before.etag);
                    doubts.push((Drifted { key, is_wanted: wanted.is_some() }, before));
                }
            }
            // Unless it has changed, it was as it was read when the entity was read.
            keys = doubts.iter().map(|(doubt, _)| doubt.key.clone()).collect();
            let after = self.stored(group, &keys).await?;
            keys = Vec::new();
            for ((doubt, before), after) in doubts.into_iter().zip(after) {
                if before == after.map(|after| after.etag) {
                    drifted.push(doubt);
                } else {
                    keys.push(doubt.key);
                }
            }
            if keys.is_empty() {
                return Ok(drifted);
            }
            if !rounds.again().await {
                return Err(self.restless());
            }
        }
    }

    /// What the entity at `key` is to contribute by now; `None` of one that cannot be read, and whose
    /// contribution is left.
    async fn now_wanted(
        &self,
        group: &Group,
        key: &Key<E>,
    ) -> Result<Option<Option<DynamicEntity>>> {
        let row = self.entities.get::<DynamicEntity>(key.clone().cast()).await?;
        let Some(row) = row else { return Ok(Some(None)) };
        let entity = row.entity.read_as::<E>();
        Ok(entity.and_then(|entity| self.contribution(group, key, &entity)).ok())
    }
}

impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> Following<E>
    for View<E, S>
{
    fn tables(&self) -> [&Table; 2] {
        [&self.entities, &self.table]
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn address(&self, entity: &E) -> Result<Option<String>> {
        let Some(summary) = (self.group)(entity) else { return Ok(None) };
        let group = Group::of(&summary)?;
        // One that cannot contribute is unfit.
        self.contribution(&group, &Key::of(entity), entity)?;
        Ok(Some(group.address()))
    }

    fn claims(&self, row: &DynamicEntity) -> Option<(String, Vec<Key<E>>)> {
        let entity = primary_key(row).filter(|_| is_of_view(row, self.name))?;
        Some((Group::of_contribution(row)?.address(), vec![entity]))
    }

    fn drifted<'a>(
        &'a self,
        address: &'a str,
        keys: &'a [Key<E>],
    ) -> BoxFuture<'a, Result<Vec<Drifted<E>>>> {
        async move { self.drifted(&self.group_at(address)?, keys).await }.boxed()
    }

    fn settle<'a>(&'a self, address: &'a str, keys: &'a [Key<E>]) -> BoxFuture<'a, Result<()>> {
        async move { self.settle_all(&self.group_at(address)?, keys).await }.boxed()
    }

    fn is_sound<'a>(&'a self, row: &'a DynamicEntity, mend: bool) -> BoxFuture<'a, Result<bool>> {
        async move {
            if !is_of_view(row, self.name) {
                return Ok(true);
            }
            match Group::of_contribution(row) {
                Some(group) => {
                    let summary = self.table.get::<DynamicEntity>(group.summary()).await?;
                    // It is looked at in its place.
                    Ok(summary.is_some() || self.recount(&group, mend).await?)
                }
                None => self.recount(&Group::of(&row.key())?, mend).await,
            }
        }
        .boxed()
    }
}
