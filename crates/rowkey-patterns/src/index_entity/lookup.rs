//! Reading: the list once, then the entities it names.

use futures_util::stream::{iter, once};
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::table::Stream;
use rowkey::{Arg, Entity, Key, KeyPart, Partition, Result, Stored};

use super::list::List;
use super::{IndexEntity, OPERATION};

/// Reading.
impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + 'static> IndexEntity<E, V> {
    /// The entities of a partition whose value this is: one read of the list, and a point query an
    /// entity, several at a time.
    ///
    /// An entity that was deleted or got another value since the list was read is left out, and one
    /// that joined the list since then is not met.
    pub async fn find(
        &self,
        partition: Partition<E>,
        value: impl Arg<V>,
    ) -> Result<Vec<Stored<E>>> {
        self.stream(partition, value).try_collect().await
    }

    /// As [`find`](Self::find), one after the other: those that are next are being read while one is
    /// looked at.
    pub fn stream(&self, partition: Partition<E>, value: impl Arg<V>) -> Stream<Stored<E>> {
        let (this, value) = (self.clone(), value.into_arg());
        let entities = async move {
            let stem = this.stem(&value)?;
            let keys = this.keys_in(&partition, &stem).await?;
            let concurrency = this.concurrency;
            let read = move |key| this.clone().read_listed(key, stem.clone());
            Ok(iter(keys).map(read).buffered(concurrency))
        };
        once(entities).try_flatten().try_filter_map(|found| std::future::ready(Ok(found))).boxed()
    }

    /// The keys of the entities of a partition whose value this is: one read.
    pub async fn keys(&self, partition: Partition<E>, value: impl Arg<V>) -> Result<Vec<Key<E>>> {
        let stem = self.stem(&value.into_arg())?;
        self.keys_in(&partition, &stem).await
    }

    async fn keys_in(&self, partition: &Partition<E>, stem: &str) -> Result<Vec<Key<E>>> {
        let partition_key =
            partition.partition_key().map_err(|error| self.refused(error.to_string()))?;
        let head = self.head()?;
        let list = self.read(partition_key, stem).await?;
        let key = |listed: &str| Key::new(partition_key, format!("{head}{listed}"));
        Ok(list.keys().map(key).collect())
    }

    /// A listed entity, if it is still there and still belongs to the list.
    async fn read_listed(self, key: Key<E>, stem: String) -> Result<Option<Stored<E>>> {
        let Some(stored) = self.table.get(key).await? else { return Ok(None) };
        Ok((self.stem_of(&stored.entity)? == Some(stem)).then_some(stored))
    }
}

impl<E: Entity, V: KeyPart> IndexEntity<E, V> {
    pub(super) async fn read(&self, partition_key: &str, stem: &str) -> Result<List> {
        let list = List::read(&self.table, partition_key, stem).await;
        list.map_err(|error| error.of(OPERATION, self.table.name()))
    }
}
