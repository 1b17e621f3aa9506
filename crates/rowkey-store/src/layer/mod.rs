//! Layers between an entity and its row: they close a row after it is encoded, and open it before it is
//! decoded.
//!
//! Most types have none: their rows are decoded as received, and sent as encoded. Encrypted fields,
//! fields in blobs and wide entities require asynchronous steps in between. All reads of entities and of
//! whole copies go through [`Layers::head`], [`Layers::open`] and [`Layers::open_copy`]. All writes of
//! heads go through [`Layers::close`], which the store calls when it adds an entity to a plan.
//!
//! | layer | `close`, while the plan is made | `open` |
//! |---|---|---|
//! | fields in blobs | uploads, replaces values by pointers | reads the blobs |
//! | a sealer | gets a key, replaces values by sealed ones | decrypts them |
//! | wide entities | splits the properties into the head and further rows, after all other layers | reads those rows, before all other layers |
//!
//! Blobs and rows that `close` prepares must be harmless if the write is never committed. [`Closing`] accepts uploads, and
//! provides the operation's mark for unique names. `close` is called again whenever the plan is made again.
//!
//! A whole copy holds the closed properties of its head, byte for byte, and is opened under the keys of the
//! head, so all of them are sealed once. The opened entity determines the keys of its copies, so a copy in
//! another place is refused. The properties of [`Layer::not_copied`] are left out of copies. If there are
//! any, copies of the type never replace the entity: reads through an index read the heads.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::entity::Older;
use rowkey_client::index::Index;
use rowkey_client::{
    DynamicEntity, Entity, Error, ErrorKind, Key, Outcome, Properties, Result, Stored, Table,
};

use crate::row::beside::Beside;
use crate::row::blob_pointer::{is_in_blob, pointer_of};
use crate::row::envelope::{Envelope, METADATA};
use crate::row::op::Op;
use crate::row::{Closed, Copy, Head, Keys, MARK, Whole, digest, index_keys, primary_keys, text};
use blob_field::Upload;
use deciding::Deciding;
use wide::{Gathered, Wide};

pub(crate) mod blob_field;
pub(crate) mod deciding;
pub(crate) mod place;
pub(crate) mod seal;
pub(crate) mod wide;

/// A conversion between the properties of an entity and those of its row.
#[async_trait]
pub(crate) trait Layer: Send + Sync {
    /// Converts the properties of an entity to stored properties.
    async fn close(&self, closing: Closing<'_>, row: &mut DynamicEntity) -> Result<()>;

    /// Converts stored properties to those of the entity. `row` has the keys of the head, even if it
    /// was read from a copy. Further data is read from `table`, which is the primary if the read
    /// decides. `sealed` are the properties that stay sealed.
    async fn open(
        &self,
        table: &Table,
        row: &mut DynamicEntity,
        sealed: &mut Vec<String>,
    ) -> Result<()>;

    /// The properties that copies do not contain.
    fn not_copied(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether decisions need the opened fields, because keys, indexes and values are made of them.
    fn decides(&self) -> bool {
        true
    }

    /// Removes the properties that `open` would replace, if decisions do not need them.
    fn pass_over(&self, row: &mut DynamicEntity, sealed: &[String]) -> Result<()> {
        let _ = (row, sealed);
        Ok(())
    }
}

/// The write that an entity is closed for.
pub(crate) struct Closing<'p> {
    pub(crate) op: &'p Op,
    /// Whether the entity is rewritten unchanged.
    pub(crate) rewrites: bool,
    /// Blobs that are uploaded before the commit.
    pub(crate) uploads: &'p mut Vec<Upload>,
    /// The row that is stored now.
    pub(crate) before: Option<&'p DynamicEntity>,
    /// The table of the row.
    pub(crate) table: &'p Table,
}

/// The rows of an entity as the layers opened them: the properties, not yet those of a type.
struct Opened {
    row: DynamicEntity,
    /// The properties that stay sealed.
    sealed: Vec<String>,
    mark: Option<String>,
    closed: Closed,
}

/// The layers of a type, in the order in which they close.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    each: Option<Arc<[Box<dyn Layer>]>>,
    /// Closes last and opens first.
    wide: Option<Arc<Wide>>,
    /// Whether only the layers that decisions need open.
    only_deciding: bool,
}

/// How often a head that changes while it is opened is read again.
const ROUNDS: usize = 8;

/// A stored head, and what its further rows hold.
type WithBeside = (Stored<DynamicEntity>, Beside);

impl Layers {
    pub(crate) fn new(layers: Vec<Box<dyn Layer>>, wide: Option<Wide>) -> Self {
        let each = Some(layers).filter(|layers| !layers.is_empty()).map(Arc::from);
        Self { each, wide: wide.map(Arc::new), only_deciding: false }
    }

    /// Whether there are no layers, so that rows are decoded as received.
    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_none() && self.wide.is_none()
    }

    /// Whether rows are not changed, only split.
    pub(crate) fn only_wide(&self) -> bool {
        self.each.is_none()
    }

    /// Whether an entity may have several rows.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// Returns layers that open only what decisions need. Fields in blobs have their defaults then.
    pub(crate) fn only_deciding(&self) -> Self {
        Self { only_deciding: true, ..self.clone() }
    }

    /// Whether a copy of all properties is as complete as its entity.
    pub(crate) fn copies_are_whole(&self) -> bool {
        !self.is_wide() && self.iter().all(|layer| layer.not_copied().is_empty())
    }

    /// Reads the head at a key. One request, and those of the layers.
    pub(crate) async fn head<E: Entity>(
        &self,
        table: &Table,
        key: Key<impl Entity>,
    ) -> Result<Option<Stored<Head<E>>>> {
        if self.is_empty() {
            let read = table.get_as::<Whole<E>>(key).await?;
            let unwrapped = |stored: Stored<Whole<E>>| {
                let Stored { entity: Whole(entity), etag, timestamp, receipt } = stored;
                Stored { entity, etag, timestamp, receipt }
            };
            return Ok(read.map(unwrapped));
        }
        match table.get_as::<DynamicEntity>(key).await? {
            Some(stored) => self.open(table, stored).await,
            None => Ok(None),
        }
    }

    /// Reads the head at a key for a decision. One request, and those of the layers.
    pub(crate) async fn deciding_head<E: Entity>(
        &self,
        table: &Deciding,
        keys: &Keys,
    ) -> Result<Option<Stored<Head<E>>>> {
        let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
        // An unanswered read changed nothing.
        self.head(table.table(), key).await.map_err(|error| error.with_outcome(Outcome::Rejected))
    }

    /// Opens a stored head. If the head changes in the meantime, reads it again on the primary; `None` if
    /// it was deleted.
    pub(crate) async fn open<E: Entity>(
        &self,
        table: &Table,
        stored: Stored<DynamicEntity>,
    ) -> Result<Option<Stored<Head<E>>>> {
        if self.is_empty() {
            let Stored { entity: row, etag, timestamp, receipt } = stored;
            let Whole(entity) = row.read_as()?;
            return Ok(Some(Stored { entity, etag, timestamp, receipt }));
        }
        let Some(opened) = self.open_rows(table, stored).await? else { return Ok(None) };
        let Stored { entity, etag, timestamp, receipt } = opened;
        let Opened { row, sealed, mark, closed } = entity;
        let Whole::<E>(head) = row.read_beside_sealed(&sealed)?;
        let entity = Head { mark, closed: Some(closed), sealed, ..head };
        Ok(Some(Stored { entity, etag, timestamp, receipt }))
    }

    /// Opens the rows of a stored head, without decoding them.
    fn open_rows<'a>(
        &'a self,
        table: &'a Table,
        mut stored: Stored<DynamicEntity>,
    ) -> BoxFuture<'a, Result<Option<Stored<Opened>>>> {
        async move {
            let (partition_key, row_key) =
                (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
            let mut rounds = ROUNDS;
            loop {
                let Some((whole, beside)) = self.whole(table, stored).await? else {
                    return Ok(None);
                };
                let error = match self.open_once(table, whole, beside).await {
                    Ok(opened) => return Ok(Some(opened)),
                    Err(error) => error,
                };
                rounds -= 1;
                if error.kind() != ErrorKind::Conflict || rounds == 0 {
                    return Err(error);
                }
                let key = Key::<DynamicEntity>::new(&*partition_key, &*row_key);
                match Deciding::new(table).table().get(key).await? {
                    Some(now) => stored = now,
                    None => return Ok(None),
                }
            }
        }
        .boxed()
    }

    /// Reads the further rows of an entity whose stored head was read. If the head changes in the meantime,
    /// reads it again on the primary; `None` if it was deleted.
    pub(crate) fn whole<'a>(
        &'a self,
        table: &'a Table,
        stored: Stored<DynamicEntity>,
    ) -> BoxFuture<'a, Result<Option<WithBeside>>> {
        async move {
            if !self.is_wide() {
                return Ok(Some((stored, Beside::None)));
            }
            Self::gather(table, stored).await
        }
        .boxed()
    }

    async fn gather(
        table: &Table,
        mut stored: Stored<DynamicEntity>,
    ) -> Result<Option<WithBeside>> {
        let deciding = Deciding::new(table);
        let mut table = table;
        for _ in 0..ROUNDS {
            let found = match Wide::gather(table, &mut stored.entity).await? {
                Gathered::All(beside) => return Ok(Some((stored, beside))),
                Gathered::Torn(found) => found,
            };
            // The head, its further rows, and the head again: if the head is the same, the further rows
            // must be damaged.
            let was_primary = !table.account().options().read_from_secondary;
            let key =
                Key::<DynamicEntity>::new(&*stored.entity.partition_key, &*stored.entity.row_key);
            let Some(now) = deciding.table().get(key).await? else { return Ok(None) };
            if was_primary && now.etag == stored.etag {
                return Err(wide::damaged(found));
            }
            (stored, table) = (now, deciding.table());
        }
        Err(wide::torn())
    }

    async fn open_once(
        &self,
        table: &Table,
        stored: Stored<DynamicEntity>,
        beside: Beside,
    ) -> Result<Stored<Opened>> {
        let Stored { entity: mut row, etag, timestamp, receipt } = stored;
        let mark = text(&row, MARK).map(str::to_owned);
        row.remove(MARK);
        let closed = self.closed(row.clone(), beside);
        let sealed = self.open_row(table, &mut row).await?;
        let entity = Opened { row, sealed, mark, closed };
        Ok(Stored { entity, etag, timestamp, receipt })
    }

    /// Opens a whole copy in the index at `position`. Its bytes are those of its entity and open at any
    /// keys. So the entity must demand the row at these keys in this index: a copy that was moved to
    /// another value or another index is refused.
    ///
    /// Returns the keys of the entity if a program of another version left sealed properties out of the
    /// copy, because it has them in blobs. Then the seal of the entity does not fit the copy.
    pub(crate) async fn open_copy<E: Entity>(
        &self,
        table: &Table,
        position: usize,
        mut row: DynamicEntity,
    ) -> Result<std::result::Result<Copy<E>, Keys>> {
        if self.is_empty() {
            return Ok(Ok(row.read_as()?));
        }
        let Some(primary) = primary_keys(&row) else {
            return Err(Error::refused(ErrorKind::Decode, "a copy does not name its entity"));
        };
        let is_left_out =
            |name: &String| row.get(name).is_none() && !E::DECLARED.encrypted.contains(&&**name);
        if Envelope::of(&row).names.iter().any(is_left_out) {
            return Ok(Err(primary));
        }
        let mark = text(&row, MARK).map(str::to_owned);
        let digest = digest(&row);
        let at = (row.partition_key, row.row_key);
        (row.partition_key, row.row_key) = primary.clone();
        let sealed = self.open_row(table, &mut row).await?;
        let head = row.read_beside_sealed::<Head<E>>(&sealed)?;
        if !demands(&head, position, &at) {
            let index = E::DECLARED.indexes[position].name;
            let what = "the entity has no copy with this key: the copy was moved or altered";
            let error = Error::refused(ErrorKind::Decode, what).in_index(index);
            return Err(
                error.advise("`Store::verify` reports such rows, `Store::repair` repairs them")
            );
        }
        Ok(Ok(Copy { value: head.entity, primary, mark, digest }))
    }

    /// Closes an entity for a write, with the properties that its type does not have; `None` if there is no
    /// layer, and the entity is encoded directly.
    pub(crate) async fn close<E: Entity + Sync>(
        &self,
        closing: Closing<'_>,
        (entity, unknown): (&E, &Properties),
    ) -> Result<Option<Closed>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut row = DynamicEntity::of_any_size(entity)?;
        for (name, value) in unknown.iter() {
            row.set(name, value.clone());
        }
        self.close_row(closing, row).await.map(Some)
    }

    fn close_row<'a>(
        &'a self,
        Closing { op, rewrites, uploads, before, table }: Closing<'a>,
        mut row: DynamicEntity,
    ) -> BoxFuture<'a, Result<Closed>> {
        async move {
            for layer in self.iter() {
                let closing = Closing { op, rewrites, uploads: &mut *uploads, before, table };
                layer.close(closing, &mut row).await?;
            }
            let beside = match &self.wide {
                Some(wide) => wide.split(&row, op.mark())?,
                None => Beside::None,
            };
            Ok(self.closed(row, beside))
        }
        .boxed()
    }

    fn closed(&self, row: DynamicEntity, beside: Beside) -> Closed {
        let own = self.iter().flat_map(Layer::not_copied).map(str::to_owned);
        let mut not_copied: Vec<_> = own.collect();
        // Copies are the same in all programs, also where the type lacks a field in a blob.
        for name in Envelope::of(&row).names {
            if is_in_blob(&row, &name) {
                not_copied.extend([pointer_of(&name), name]);
            }
        }
        Closed { row, not_copied, beside }
    }

    fn open_row<'a>(
        &'a self,
        table: &'a Table,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        async move {
            // A layer with keys returns fewer names.
            let mut sealed = match text(row, METADATA) {
                Some(metadata) => Envelope::read(metadata).left_out(),
                None => Vec::new(),
            };
            for layer in self.iter().rev() {
                if layer.decides() || !self.only_deciding {
                    layer.open(table, row, &mut sealed).await?;
                } else {
                    layer.pass_over(row, &sealed)?;
                }
            }
            Ok(sealed)
        }
        .boxed()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &dyn Layer> {
        self.each.iter().flat_map(|layers| layers.iter()).map(|layer| &**layer)
    }
}

/// Checks whether an entity has a row in one of its indexes, without naming its type.
#[derive(Clone)]
pub(crate) struct Demands {
    has: fn(&DynamicEntity, &[String], usize, &Keys) -> Result<bool>,
    layers: Layers,
}

impl Demands {
    pub(crate) fn of<E: Entity>(layers: &Layers) -> Self {
        Self { has: has::<E>, layers: layers.only_deciding() }
    }

    /// Whether the stored entity in `head` has the row `keys` in the index at `position`.
    pub(crate) async fn ask(
        &self,
        table: &Table,
        head: &Stored<DynamicEntity>,
        position: usize,
        keys: &Keys,
    ) -> Result<bool> {
        if self.layers.is_empty() {
            return (self.has)(&head.entity, &[], position, keys);
        }
        let Some((mut head, _)) = self.layers.whole(table, head.clone()).await? else {
            return Ok(false);
        };
        let sealed = self.layers.open_row(table, &mut head.entity).await?;
        (self.has)(&head.entity, &sealed, position, keys)
    }
}

fn has<E: Entity>(
    head: &DynamicEntity,
    sealed: &[String],
    position: usize,
    keys: &Keys,
) -> Result<bool> {
    Ok(demands(&head.read_beside_sealed::<Head<E>>(sealed)?, position, keys))
}

/// Whether a stored entity has the row `keys` in the index at `position`.
fn demands<E: Entity>(head: &Head<E>, position: usize, keys: &Keys) -> bool {
    match &head.older {
        // Its rows are those of the type version that wrote it.
        Some(older) => old_keys(older, &E::DECLARED.indexes[position]).as_ref() == Some(keys),
        None => has_keys(&head.entity, position, keys),
    }
}

/// Whether an entity has the row `keys` in the index at `position`. An entity with invalid values,
/// which another program wrote, has no row there.
pub(crate) fn has_keys<E: Entity>(entity: &E, position: usize, keys: &Keys) -> bool {
    index_keys(entity, position).is_ok_and(|own| own.as_ref() == Some(keys))
}

/// Returns the keys of the row that an older version of the type wrote into an index of this name.
pub(crate) fn old_keys(older: &Older, own: &Index) -> Option<Keys> {
    let place = |index: &Index| (index.name, index.scope, index.table);
    let is_it = |index: &&Index| place(index) == place(own);
    older.indexed.iter().find(|(index, _)| is_it(index)).map(|(_, keys)| keys.clone())
}
