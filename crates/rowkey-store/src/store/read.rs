//! Reads: by key, and of one entity through an index.

use futures_util::stream;
use rowkey_client::index::{Copied, IndexKey, Scope};
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Projection, Result};
use rowkey_patterns::internals::all_until;

use super::Store;
use super::query::{ends, whole};
use super::version::{Version, Versioned};
use crate::execute::remembered::Row;
use crate::layer::has_keys;
use crate::row::{Claim, Copy, Keys, Pointer, Seen};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads the entity at a key; `None` if it does not exist or is expired. One request.
    pub async fn get(&self, key: Key<E>) -> Result<Option<Versioned<E>>> {
        let read = self.inner.layers.head::<E>(&self.inner.table, key).await?;
        let read = read.map(|stored| Versioned {
            entity: stored.entity.entity,
            version: Version::of_head(&stored.etag),
        });
        Ok(self.unexpired(read))
    }

    /// Reads many entities by key, 16 at a time, in the order of the keys. One request each.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] if rows do not decode, after all were read:
    /// [`failed_rows`](rowkey_client::ErrorDetails::failed_rows) lists them.
    pub async fn get_many(
        &self,
        keys: impl IntoIterator<Item = Key<E>> + Send,
    ) -> Result<Vec<Option<Versioned<E>>>> {
        let keys: Vec<_> = keys.into_iter().collect();
        whole(stream::iter(self.each(keys).await))
            .await
            .map_err(|error| self.named("GetEntity", error))
    }

    /// Reads entities by key, 16 at a time, in the order of the keys.
    pub(super) async fn each(&self, keys: Vec<Key<E>>) -> Vec<Result<Option<Versioned<E>>>> {
        all_until(keys.into_iter().map(|key| self.get(key)), 16, ends).await
    }

    /// Whether an entity exists at a key and is not expired. One request, whose response has no properties if
    /// entities of the type never expire.
    pub async fn exists(&self, key: Key<E>) -> Result<bool> {
        if E::DECLARED.expiry.is_some() {
            return Ok(self.get(key).await?.is_some());
        }
        Ok(self.inner.table.get_as::<crate::row::Marked>(key).await?.is_some())
    }

    /// Finds the entity that has a value, by a unique value or by an index in which each value has one
    /// entity.
    ///
    /// Costs one request if the index is in the partition and its copies are whole; otherwise two, because
    /// the entity itself is read. A row that its entity no longer demands is skipped. If another entity has
    /// taken the value in the meantime, that entity is found.
    pub async fn find<S>(&self, key: IndexKey<E, S>) -> Result<Option<Versioned<E>>> {
        let (index, position) = (*key.index(), key.position());
        let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
        let keys = (partition_key.to_owned(), row_key.to_owned());
        self.inner.check_reader(index.name).await?;
        let at = || Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
        let table = self.inner.table_of(index.name);
        let named = |error| self.inner.named_at(index.name, error);
        let mut passed_over: Option<Keys> = None;
        loop {
            let mut claimed = None;
            let owner = match (index.scope, index.copy) {
                (Scope::SamePartition, Copied::All) if self.inner.layers.copies_are_whole() => {
                    let Some(copy) = self.copy(position, at()).await? else { return Ok(None) };
                    match copy {
                        Ok(Copy { value: entity, mark: Some(mark), digest, .. }) => {
                            let version = Version::of_copy(&mark, digest);
                            return Ok(self.unexpired(Some(Versioned { entity, version })));
                        }
                        // A copy that no store wrote has no version.
                        Ok(Copy { primary, .. }) | Err(primary) => primary,
                    }
                }
                (Scope::Claim, _) => match table.get(at()).await? {
                    Some(found) => {
                        let Claim { owner, op } = Claim::read(&found.entity)?;
                        claimed = Some((found.etag, op));
                        owner
                    }
                    None => return Ok(None),
                },
                _ => match table.get_as::<Pointer>(at()).await.map_err(named)? {
                    Some(pointer) => pointer.entity.0,
                    None => return Ok(None),
                },
            };
            if passed_over.as_ref() == Some(&owner) {
                return Ok(None);
            }
            if let Some(found) = self.demanding(&owner, position, &keys).await? {
                if let (Some((etag, op)), Some(announcer)) = (claimed, &self.inner.announcer) {
                    // A write that gives the value up need not read the claim again.
                    announcer.claims.put(keys, Row { etag, owner, op: Some(op) });
                }
                return Ok(Some(found));
            }
            passed_over = Some(owner);
        }
    }

    /// Finds the entity that has a value, and reads selected properties from its copy in the index. One
    /// request. Otherwise like [`Query::stream_as`](crate::Query::stream_as).
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, Projection, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// # #[entity(index(name = by_badge, row = "badge_{badge}"))]
    /// # struct User { tenant: String, id: u32, badge: u32, doors: i64 }
    /// #[derive(Debug, PartialEq, Projection)]
    /// struct Doors { doors: i64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let users = Store::<User>::builder(account.table("users")).build()?;
    /// # users.create_if_missing().await?;
    /// users.insert(&User { tenant: "contoso".into(), id: 1, badge: 77, doors: 0b101 }).await?;
    /// let doors: Option<Doors> = users.find_as(User::by_badge("contoso", 77)).await?;
    /// assert_eq!(doors, Some(Doors { doors: 0b101 }));
    /// # Ok(()) }
    /// ```
    pub async fn find_as<P, S>(&self, key: IndexKey<E, S>) -> Result<Option<P>>
    where
        P: Projection + Send + 'static,
    {
        self.may_project()?;
        let index = key.index();
        self.inner.check_reader(index.name).await?;
        let lacking = P::COLUMNS.map_or(index.copy != Copied::All, |names| {
            names.iter().any(|name| !index.has_column(name))
        });
        if index.scope == Scope::Claim || lacking {
            let what =
                format!("copies in the index `{}` lack a property of the projection", index.name);
            return Err(Error::refused(ErrorKind::Invalid, what).advise("find the entity"));
        }
        let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
        let at = Key::<DynamicEntity>::new(partition_key, row_key);
        let found = self.inner.table_of(index.name).get_as::<Seen<P>>(at).await;
        let found = found.map_err(|error| self.inner.named_at(index.name, error))?;
        Ok(found.map(|stored| stored.entity.0))
    }

    /// Refuses to read selected properties of rows that have to be opened as a whole.
    pub(super) fn may_project(&self) -> Result<()> {
        let what = if E::DECLARED.expiry.is_some() {
            "entities of this type may be expired, so single properties of them cannot be read"
        } else if !self.inner.layers.is_empty() {
            "rows of this type are opened as a whole, so single properties of them cannot be read"
        } else {
            return Ok(());
        };
        Err(Error::refused(ErrorKind::Invalid, what).advise("read entities instead"))
    }

    /// Reads a whole copy in the index at `position`, or the keys of its entity.
    async fn copy(
        &self,
        position: usize,
        key: Key<DynamicEntity>,
    ) -> Result<Option<std::result::Result<Copy<E>, Keys>>> {
        let (table, layers) = (&self.inner.table, &self.inner.layers);
        if layers.is_empty() {
            return Ok(table.get_as(key).await?.map(|stored| Ok(stored.entity)));
        }
        match table.get(key).await? {
            Some(stored) => layers.open_copy(table, position, stored.entity).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the entity at `owner`; `None` if it does not have the row `keys` in an index.
    pub(super) async fn demanding(
        &self,
        owner: &Keys,
        position: usize,
        keys: &Keys,
    ) -> Result<Option<Versioned<E>>> {
        let found = self.get(Key::new(&*owner.0, &*owner.1)).await?;
        let Some(found) = found else { return Ok(None) };
        Ok(Some(found).filter(|found| has_keys(&found.entity, position, keys)))
    }
}
