//! Reading: the list once, then the entities it names.

use futures_util::stream::{iter, once};
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::table::Stream;
use rowkey::{Arg, Entity, Error, ErrorKind, Key, KeyPart, Result, Stored};
use rowkey_patterns::index_entity::list::List;

use super::{RemoteIndexEntity, STEM};

/// Reading.
impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + 'static> RemoteIndexEntity<E, V> {
    /// The entities whose value this is: one read of the list, and a point query an entity, several at
    /// a time.
    ///
    /// Every entity that is returned had the value when it was read. One that came to have it and is
    /// not settled yet is not met.
    pub async fn find(&self, value: impl Arg<V>) -> Result<Vec<Stored<E>>> {
        self.stream(value).try_collect().await
    }

    /// As [`find`](Self::find), one after the other: those that are next are being read while one is
    /// looked at.
    pub fn stream(&self, value: impl Arg<V>) -> Stream<Stored<E>> {
        let (this, value) = (self.clone(), value.into_arg());
        let entities = async move {
            let list = this.list_at(&value)?;
            let keys = this.keys_in(&list).await?;
            let concurrency = this.concurrency;
            let read = move |key| this.clone().read_listed(key, list.clone());
            Ok::<_, Error>(iter(keys).map(read).buffered(concurrency))
        };
        once(entities).try_flatten().try_filter_map(|found| std::future::ready(Ok(found))).boxed()
    }

    /// The keys in the list of a value: one read. Entities may be gone by now, or have another value.
    pub async fn keys(&self, value: impl Arg<V>) -> Result<Vec<Key<E>>> {
        self.keys_in(&self.list_at(&value.into_arg())?).await
    }

    async fn keys_in(&self, list: &str) -> Result<Vec<Key<E>>> {
        let list = self.read(list).await?;
        let keys: Option<Vec<_>> = list.keys().map(Self::key_of).collect();
        keys.ok_or_else(|| {
            let error = Error::refused(ErrorKind::Decode, "a list names what is no key");
            self.named(error.advise("delete its rows, and repair the lists"))
        })
    }

    /// A listed entity, if it is still there and still belongs to the list.
    async fn read_listed(self, key: Key<E>, list: String) -> Result<Option<Stored<E>>> {
        let Some(stored) = self.entities.get(key).await? else { return Ok(None) };
        Ok((self.list_of(&stored.entity)? == Some(list)).then_some(stored))
    }
}

impl<E: Entity, V: KeyPart> RemoteIndexEntity<E, V> {
    /// The list as it was at one time.
    pub(super) async fn read(&self, list: &str) -> Result<List> {
        List::read(&self.lists, list, STEM).await.map_err(|error| self.named(error))
    }
}
