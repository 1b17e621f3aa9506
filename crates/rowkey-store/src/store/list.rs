//! Reads through a list: the list of a value first, then its entities. Also the verification of lists.

use std::collections::BTreeSet;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use rowkey_client::index::{List, ListKey, ListPlace};
use rowkey_client::{Continuation, DynamicEntity, Entity, Error, ErrorKind, Key, Match, Result};
use rowkey_patterns::job::{Report, Verdict};

use super::query::{Part, rows_of};
use super::version::Versioned;
use super::{Inner, ReadHead, Store};
use crate::declarations::blob_list;
use crate::declarations::list::{check_room, list_keys, listed, old_list_keys, owner, read, write};
use crate::layer::deciding::{Deciding, is_lost, is_still};
use crate::row::Keys;
use crate::row::blobs::Blobs;
use crate::row::declared::prefix;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads the keys of the entities that have a value, in their order: `Order::by_tag("contoso",
    /// "urgent")` of `list(name = by_tag, value = "{tags}", max = 8)`. Costs one request.
    ///
    /// A list in a separate partition, `list(name = by_tag, partition = "tags", value = "{tags}", max =
    /// 8)`, holds the entities of all partitions: `Order::by_tag("urgent")`. It is updated after the
    /// commit of a write, and is ordered by PartitionKey first.
    ///
    /// [`query`](Self::query) reads the entities, page by page. A page costs the request for the list and
    /// one request per entity, 16 at a time. An entity that was deleted or lost the value since the list
    /// was read is left out. An entity that gained the value since then is returned if it comes after the
    /// previous page.
    ///
    /// Fails with [`ErrorKind::Decode`] if the stored list is damaged or incomplete;
    /// [`ErrorDetails::index`](rowkey_client::ErrorDetails::index) names it.
    ///
    /// # Limits
    ///
    /// A list is one row. It holds each RowKey without the prefix common to all RowKeys of the type, in
    /// 262,144 UTF-16 units with one unit between two keys: 37,449 keys of six characters. A write that
    /// would exceed this is refused with [`ErrorKind::TooLarge`], and nothing is written. (A list in another
    /// partition that other writers fill between this check and its update is noticed only after the commit: workers
    /// report it, and lookups of the value fail with the same error until there is room.) Each write that changes an entity's values
    /// reads and writes the whole lists that the entity leaves and joins, and starts over if another
    /// writer changed one of them in the meantime. Use a list for up to some thousand entities that rarely
    /// change their value, and an index with `many` otherwise.
    ///
    /// A list with `blob` has no such limit and holds entities of all partitions; its address is the value
    /// alone. It is updated after the commit. Each list that an entity joins or leaves costs three
    /// requests: the first reads the whole list and the last writes it.
    ///
    /// ```
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(list(name = by_tag, value = "{tags}", max = 8))]
    /// #[entity(list(name = by_customer, value = "{customer:lower}"))]
    /// struct Order {
    ///     tenant: String,
    ///     id: u32,
    ///     customer: Option<String>,
    ///     #[entity(json)]
    ///     tags: Vec<String>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// orders.create_if_missing().await?;
    /// let tags = vec!["urgent".to_owned(), "fragile".to_owned()];
    /// let first = Order { tenant: "contoso".into(), id: 1, customer: Some("Ada".into()), tags };
    /// orders.insert(&first).await?;
    /// orders.insert(&Order { id: 2, customer: None, ..first.clone() }).await?;
    ///
    /// orders.update(Order::key("contoso", 2), |order| drop(order.tags.remove(0))).await?;
    /// let urgent = orders.query(Order::by_tag("contoso", "urgent")).all().await?;
    /// assert_eq!(urgent.into_iter().map(|found| found.entity).collect::<Vec<_>>(), [first]);
    /// assert_eq!(orders.list_keys(&Order::by_tag("contoso", "fragile")).await?.len(), 2);
    /// assert_eq!(orders.count(Order::by_customer("contoso", "ADA")).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn list_keys(&self, address: &ListKey<E>) -> Result<Vec<Key<E>>> {
        let named = |error| self.named("List", error);
        let (partition_key, row_key) =
            address.parts().map_err(|error| named(Error::no_such_key(error)))?;
        self.inner.check_reader(address.list().name).await.map_err(named)?;
        if address.list().place == ListPlace::Blob {
            let blobs = self.inner.blobs().map_err(named)?;
            let blob = blobs.container().blob(&blobs.list_name(row_key));
            let stored = blob_list::stored(&blob, row_key, address.list()).await.map_err(named)?;
            let listed = stored.map(|(listed, _)| listed).unwrap_or_default();
            return Ok(listed
                .iter()
                .map(|(partition, row)| Key::new(&**partition, &**row))
                .collect());
        }
        let row = Key::<DynamicEntity>::new(partition_key, row_key);
        let name = address.list().name;
        let row = self.inner.table_of(name).get(row).await;
        let row = row.map_err(|error| named(self.inner.named_at(name, error)))?;
        let Some(row) = row else { return Ok(Vec::new()) };
        check_room(&row.entity, address.list()).map_err(named)?;
        let listed = read(&row.entity, address.list()).map_err(named)?;
        let key = |listed: &String| {
            let owner = owner(address.list(), partition_key, listed, prefix::<E>());
            Key::new(owner.0, owner.1)
        };
        Ok(listed.iter().map(key).collect())
    }
}

/// Paging.
impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads the entities of a list after a position, at most a given number of its keys.
    pub(super) async fn listed(
        &self,
        address: &ListKey<E>,
        entities: usize,
        from: Option<Continuation>,
    ) -> Result<Part<E>> {
        let named = |error| self.named("List", error);
        let (partition_key, row_key) =
            address.parts().map_err(|error| named(Error::no_such_key(error)))?;
        let at = (partition_key.to_owned(), row_key.to_owned());
        let of = ["list", self.inner.table.name(), partition_key, row_key];
        let behind = from.as_ref().map(|from| from.place_in(&of)).transpose().map_err(named)?;
        if entities == 0 {
            let what = "a page must have at least 1 entity";
            return Err(named(Error::refused(ErrorKind::Invalid, what)));
        }
        let mut keys = self.list_keys(address).await?;
        keys.sort_by(|one, other| one.parts().ok().cmp(&other.parts().ok()));
        keys.retain(|key| behind.is_none_or(|behind| key.parts().is_ok_and(|key| key > behind)));
        let is_last = keys.len() <= entities;
        keys.truncate(entities);
        let last = keys.last().filter(|_| !is_last).and_then(|key| key.parts().ok());
        let continuation = last.map(|(partition, row)| Continuation::behind(&of, partition, row));
        let mut rows = rows_of(stream::iter(self.each(keys).await)).await?;
        rows.retain(|row| {
            let is_listed =
                |one: &Versioned<E>| list_keys(&one.entity, address.position()).contains(&at);
            row.as_ref().map_or(true, is_listed)
        });
        Ok(Part { rows, continuation })
    }
}

/// Verifying.
impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Checks that all lists of an entity's values name it.
    pub(super) async fn examine_lists(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        position: usize,
    ) -> Result<Verdict> {
        let entry = (&E::DECLARED.lists[position], prefix::<E>(), keys);
        let name = E::DECLARED.lists[position].name;
        let (deciding, blobs) = (self.inner.deciding_of(name), self.inner.blobs.as_ref());
        let lists = list_keys(&head.entity, position);
        let examined = examine_lists(deciding, blobs, entry, lists).await;
        examined.map_err(|error| self.inner.named_at(name, error))
    }

    /// Looks for entities that a list names but that do not have the value.
    pub(super) async fn examine_list(
        &self,
        keys: &Keys,
        position: usize,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let list = &E::DECLARED.lists[position];
        let deciding = self.inner.deciding_of(list.name);
        // Read the list, then the entities, then write the list under its ETag, as an edit does.
        let Some(stored) = deciding.row(keys).await? else { return Ok(()) };
        let listed = read(&stored.entity, list)?;
        let mut right = BTreeSet::new();
        for one in &listed {
            let owner = owner(list, &keys.0, one, prefix::<E>());
            let head = self.read_before(&owner).await?;
            let has = |head: ReadHead<E>| match &head.older {
                Some(older) => old_list_keys(older, &E::DECLARED.lists[position]).contains(keys),
                None => list_keys(&head.entity, position).contains(keys),
            };
            if head.is_some_and(has) {
                right.insert(one.clone());
            }
        }
        let orphaned = (listed.len() - right.len()) as u64;
        if orphaned == 0 {
            // Each entry was counted with its entity.
            return Ok(());
        }
        if !repairs {
            // If the list changed in the meantime, its writers keep it in step.
            if is_still(deciding, keys, &stored.etag).await? {
                report.note(Some(list.name), Verdict::Orphaned, orphaned);
            }
            return Ok(());
        }
        let transaction = deciding.transaction();
        let transaction = if right.is_empty() {
            let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
            transaction.delete(key, Match::ETag(stored.etag))
        } else {
            let mut row = stored.entity.clone();
            write(&mut row, list, &right)?;
            transaction.replace((&row, stored.etag))
        };
        match deciding.write(transaction).await {
            Ok(_) => {
                report.note(Some(list.name), Verdict::Orphaned, orphaned);
                report.repaired(Some(list.name), orphaned);
            }
            // Another writer changed the list and keeps it in step.
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Checks that all these lists name an entity.
fn examine_lists<'a>(
    deciding: &'a Deciding,
    blobs: Option<&'a Blobs>,
    (list, of, keys): (&'static List, &'a str, &'a Keys),
    lists: BTreeSet<Keys>,
) -> BoxFuture<'a, Result<Verdict>> {
    async move {
        let listed = listed(list, keys, of);
        for at in lists {
            if list.place == ListPlace::Blob {
                let blob = blobs.ok_or_else(no_container)?.list(&at.1);
                let stored = blob_list::stored(&blob, &at.1, list).await?;
                if !stored.is_some_and(|(listed, _)| listed.contains(keys)) {
                    return Ok(Verdict::Missing);
                }
                continue;
            }
            let row = deciding.row(&at).await?;
            let found = row.map(|row| read(&row.entity, list)).transpose()?;
            if !found.is_some_and(|keys| keys.contains(&listed)) {
                return Ok(Verdict::Missing);
            }
        }
        Ok(Verdict::Right)
    }
    .boxed()
}

/// Returns the position of the declared list that a row with these keys belongs to.
pub(super) fn list_of(lists: &[List], keys: &Keys) -> Option<usize> {
    lists.iter().position(|list| list.place != ListPlace::Blob && keys.1.starts_with(list.row_head))
}

impl<E> Inner<E> {
    /// Returns the container of the store's blobs.
    pub(super) fn blobs(&self) -> Result<&Blobs> {
        self.blobs.as_ref().ok_or_else(no_container)
    }
}

fn no_container() -> Error {
    Error::refused(ErrorKind::Invalid, "the store has no container")
        .advise("give one to `StoreBuilder::blobs`")
}
