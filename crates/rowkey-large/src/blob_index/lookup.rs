//! Reading: the list once, then the entities it names.

use futures_util::stream::{iter, once};
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::table::Stream;
use rowkey::{Entity, Key, Result, Stored};

use super::BlobIndex;

/// Reading.
impl<E: Entity + Send + Sync + 'static> BlobIndex<E> {
    /// The entities whose value this is, in the order of their keys: one read of the list, and a point
    /// query an entity, several at a time.
    ///
    /// An entity that was deleted or got another value since the list was read is left out, and one
    /// that joined the list since then is not met.
    pub async fn find(&self, value: &str) -> Result<Vec<Stored<E>>> {
        self.stream(value).try_collect().await
    }

    /// As [`find`](Self::find), one after the other: those that are next are being read while one is
    /// looked at.
    pub fn stream(&self, value: &str) -> Stream<Stored<E>> {
        let (this, value) = (self.clone(), value.to_owned());
        let entities = async move {
            let keys = this.keys(&value).await?;
            let concurrency = this.concurrency;
            let read = move |key| this.clone().read_listed(key, value.clone());
            Ok(iter(keys).map(read).buffered(concurrency))
        };
        once(entities).try_flatten().try_filter_map(|found| std::future::ready(Ok(found))).boxed()
    }

    /// The keys that are listed under a value: one read, or one for each chunk of a long list. Some
    /// may be of entities that are gone or have another value by now.
    pub async fn keys(&self, value: &str) -> Result<Vec<Key<E>>> {
        let keys = async {
            self.check()?;
            self.lists.keys(value).await
        };
        let keys = keys.await.map_err(|error| self.error(error))?;
        Ok(keys.iter().map(super::format::Listed::key).collect())
    }

    /// A listed entity, if it is still there and still has the value.
    async fn read_listed(self, key: Key<E>, value: String) -> Result<Option<Stored<E>>> {
        let Some(stored) = self.table.get(key).await? else { return Ok(None) };
        Ok((self.value_of(&stored.entity) == Some(value)).then_some(stored))
    }
}
