//! Lists compared with the entities they name, and built for those that were there before.

use std::collections::HashSet;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, KeyPart, Result, Table};
use rowkey_patterns::index_entity::list::keys_of;
use rowkey_patterns::rounds::Rounds;

use super::{CONCURRENCY, RemoteIndexEntity, STEM};
use crate::repair::{Drifted, Following, Run};
use crate::settling::all;

/// How many entities of a list are looked at, and settled, together.
const BATCH: usize = 500;

/// Verifying.
impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + Sync + 'static>
    RemoteIndexEntity<E, V>
{
    /// Compares the lists with a scan of the entities, and writes nothing.
    ///
    /// What a worker has yet to settle counts as out of step.
    pub fn check(&self) -> Run<E> {
        Run::new(self.clone(), false)
    }

    /// Compares the lists with a scan of the entities, and mends them. Writers and workers may go on.
    ///
    /// To list entities that were there before, let all workers settle the lists first, then run this.
    pub fn repair(&self) -> Run<E> {
        Run::new(self.clone(), true)
    }

    async fn drifted(&self, at: &str, keys: &[Key<E>]) -> Result<Vec<Drifted<E>>> {
        let mut rounds = Rounds::new(&self.lists, at);
        loop {
            let list = self.read(at).await?;
            let listed: Vec<_> = keys.iter().map(|key| self.listed(key)).collect::<Result<_>>()?;
            let wanted: Vec<_> = keys.iter().map(|key| self.is_now_wanted(at, key)).collect();
            let wanted = all(wanted, CONCURRENCY).await?;
            let known: HashSet<_> = list.keys().collect();
            let drifted =
                keys.iter().zip(&listed).zip(wanted).filter_map(|((key, listed), wanted)| {
                    let is_wanted = wanted?;
                    let key = key.clone();
                    (is_wanted != known.contains(&**listed)).then_some(Drifted { key, is_wanted })
                });
            let drifted: Vec<_> = drifted.collect();
            // Unless it has changed, the list was as it was read when the entities were read.
            if drifted.is_empty() || list.is_current(&self.lists).await? {
                return Ok(drifted);
            }
            if !rounds.again().await {
                let what = "the list changed every time it was read";
                return Err(self.named(Error::refused(ErrorKind::Conflict, what)));
            }
        }
    }

    /// Whether an entity belongs to the list; `None` of one that cannot be read, which is left.
    async fn is_now_wanted(&self, list: &str, key: &Key<E>) -> Result<Option<bool>> {
        let row = self.entities.get::<DynamicEntity>(key.clone().cast()).await?;
        let Some(row) = row else { return Ok(Some(false)) };
        let value = row.entity.read_as::<E>().and_then(|entity| self.list_of(&entity));
        Ok(value.ok().map(|value| value.as_deref() == Some(list)))
    }
}

impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + Sync + 'static> Following<E>
    for RemoteIndexEntity<E, V>
{
    fn tables(&self) -> [&Table; 2] {
        [&self.entities, &self.lists]
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn address(&self, entity: &E) -> Result<Option<String>> {
        self.list_of(entity)
    }

    fn claims(&self, row: &DynamicEntity) -> Option<(String, Vec<Key<E>>)> {
        let value = row.partition_key.strip_prefix(self.name)?;
        let is_list = value.starts_with('_') && row.row_key.starts_with(STEM);
        is_list
            .then(|| (row.partition_key.clone(), keys_of(row).filter_map(Self::key_of).collect()))
    }

    fn drifted<'a>(
        &'a self,
        address: &'a str,
        keys: &'a [Key<E>],
    ) -> BoxFuture<'a, Result<Vec<Drifted<E>>>> {
        self.drifted(address, keys).boxed()
    }

    fn settle<'a>(&'a self, address: &'a str, keys: &'a [Key<E>]) -> BoxFuture<'a, Result<()>> {
        self.settle_all(address, keys).boxed()
    }

    /// A list says nothing but its keys.
    fn is_sound<'a>(&'a self, _: &'a DynamicEntity, _: bool) -> BoxFuture<'a, Result<bool>> {
        std::future::ready(Ok(true)).boxed()
    }
}
