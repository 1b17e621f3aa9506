//! Layers between an entity and its row: rows are opened before they are decoded, and closed after they
//! are encoded.
//!
//! Most types have none: their rows are decoded as they arrive, and encoded as they are sent. A type with
//! encrypted fields, with fields in blobs or with more properties than a row has needs something
//! asynchronous in between. All reads of entities and of whole copies go through [`Layers::head`],
//! [`Layers::open`] and [`Layers::open_copy`], all writes of heads through [`Layers::close`], which the
//! store calls when it adds an entity to a plan.
//!
//! | layer | `close`, while the plan is made | `open` |
//! |---|---|---|
//! | fields in blobs | uploads, replaces values by pointers | reads the blobs |
//! | a sealer | gets a key, replaces values by sealed ones | opens them |
//! | wide entities | splits the properties over the head and further rows, after all other layers | reads those rows, before all other layers |
//!
//! What `close` prepares elsewhere has to be harmless if the write never commits; `closing.plan` takes
//! rows, and targets that clean up afterwards, and gives the operation's mark to name things by. It is
//! called again whenever the plan is made again.
//!
//! A whole copy holds the closed properties of its head, byte for byte, and is opened under the keys of
//! the head: one sealing serves all of them. What was opened says where its copies stand, so a copy
//! elsewhere is refused. What [`Layer::not_copied`] names is left out, and then no
//! copy of the type is taken for its entity: reads through an index read the heads.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rowkey::entity::Older;
use rowkey::index::Index;
use rowkey::{
    DynamicEntity, Entity, Error, ErrorKind, Key, Projection, Properties, Result, Stored, Table,
};

use crate::deciding::Deciding;
use crate::plan::Plan;
use crate::row::{Closed, Copy, Head, Keys, MARK, Whole, digest, index_keys, primary_keys, text};
use crate::wide::{self, Beside, Gathered, Wide};

/// Something between the properties of an entity and its row.
pub(crate) trait Layer: Send + Sync {
    /// Makes stored properties of those of an entity.
    fn close<'a>(
        &'a self,
        closing: Closing<'a>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// Makes properties of an entity of stored ones. `row` has the keys of the head, also where it was
    /// read from a copy. What else has to be read is read from `table`, which is the primary if the
    /// read decides.
    fn open<'a>(
        &'a self,
        table: &'a Table,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>>;

    /// The properties that copies lack.
    fn not_copied(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether decisions need what it opens: fields that keys, indexes and values are made of.
    fn decides(&self) -> bool {
        true
    }

    /// Removes what `open` would have replaced, where decisions do not need it.
    fn pass_over(&self, row: &mut DynamicEntity) {
        let _ = row;
    }
}

/// The write for which an entity is closed.
pub(crate) struct Closing<'p> {
    pub(crate) plan: &'p mut Plan,
    /// The row as it is stored now.
    pub(crate) before: Option<&'p DynamicEntity>,
    /// The table of the row.
    pub(crate) table: &'p Table,
}

/// The layers of a type, in the order in which they close.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    each: Option<Arc<[Box<dyn Layer>]>>,
    /// Closes last and opens first.
    wide: Option<Arc<Wide>>,
    /// Whether only those open that decisions need.
    only_deciding: bool,
}

/// How often a head is read again that changes while it is opened.
const ROUNDS: usize = 8;

impl Layers {
    pub(crate) fn new(layers: Vec<Box<dyn Layer>>, wide: Option<Wide>) -> Self {
        let each = Some(layers).filter(|layers| !layers.is_empty()).map(Arc::from);
        Self { each, wide: wide.map(Arc::new), only_deciding: false }
    }

    /// Whether rows are decoded as they arrive.
    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_none() && self.wide.is_none()
    }

    /// Whether an entity may have several rows.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// The same, which open what decisions need: fields in blobs have their defaults.
    pub(crate) fn only_deciding(&self) -> Self {
        Self { only_deciding: true, ..self.clone() }
    }

    /// Whether a copy of all properties has all that its entity has.
    pub(crate) fn copies_are_whole(&self) -> bool {
        !self.is_wide() && self.iter().all(|layer| layer.not_copied().is_empty())
    }

    /// Reads the head at a key. One request, and what the layers need.
    pub(crate) async fn head<E: Entity>(
        &self,
        table: &Table,
        key: Key<impl Entity>,
    ) -> Result<Option<Stored<Head<E>>>> {
        if self.is_empty() {
            let read = table.get_as::<Whole<E>>(key).await?;
            return Ok(read.map(|Stored { entity: Whole(entity), etag, timestamp }| Stored {
                entity,
                etag,
                timestamp,
            }));
        }
        match table.get_as::<DynamicEntity>(key).await? {
            Some(stored) => self.open(table, stored).await,
            None => Ok(None),
        }
    }

    /// Opens a head that was read as it is stored. If it changes meanwhile it is read again on the primary;
    /// `None` if it is gone then.
    pub(crate) async fn open<E: Entity>(
        &self,
        table: &Table,
        mut stored: Stored<DynamicEntity>,
    ) -> Result<Option<Stored<Head<E>>>> {
        let (partition_key, row_key) =
            (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
        let mut rounds = ROUNDS;
        loop {
            let Some((whole, beside)) = self.whole(table, stored).await? else { return Ok(None) };
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

    /// Reads the further rows of an entity, whose head was read as it is stored. If it changes meanwhile it
    /// is read again on the primary; `None` if it is gone then.
    pub(crate) async fn whole(
        &self,
        table: &Table,
        stored: Stored<DynamicEntity>,
    ) -> Result<Option<(Stored<DynamicEntity>, Beside)>> {
        if !self.is_wide() {
            return Ok(Some((stored, Beside::None)));
        }
        // Boxed, so that reads of types of one row are not larger for it.
        Box::pin(Self::gather(table, stored)).await
    }

    async fn gather(
        table: &Table,
        mut stored: Stored<DynamicEntity>,
    ) -> Result<Option<(Stored<DynamicEntity>, Beside)>> {
        let deciding = Deciding::new(table);
        let mut table = table;
        for _ in 0..ROUNDS {
            let found = match Wide::gather(table, &mut stored.entity).await? {
                Gathered::All(beside) => return Ok(Some((stored, beside))),
                Gathered::Torn(found) => found,
            };
            // The head, its further rows and the head again: if that is the same one, nothing but the rows
            // can be wrong.
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

    async fn open_once<E: Entity>(
        &self,
        table: &Table,
        stored: Stored<DynamicEntity>,
        beside: Beside,
    ) -> Result<Stored<Head<E>>> {
        let Stored { entity: mut row, etag, timestamp } = stored;
        if self.is_empty() {
            let Whole(entity) = row.read_as()?;
            return Ok(Stored { entity, etag, timestamp });
        }
        let mark = text(&row, MARK).map(str::to_owned);
        row.remove(MARK);
        let closed = Some(self.closed(row.clone(), beside));
        let Whole::<E>(opened) = self.opened(table, row).await?;
        Ok(Stored { entity: Head { mark, closed, ..opened }, etag, timestamp })
    }

    /// Opens a whole copy in the index at `position`. It holds the bytes of its entity, which open wherever
    /// they stand, so the entity has to demand the row at these keys in this index: a copy that was
    /// moved to another value, or to another index, is refused.
    pub(crate) async fn open_copy<E: Entity>(
        &self,
        table: &Table,
        position: usize,
        mut row: DynamicEntity,
    ) -> Result<Copy<E>> {
        if self.is_empty() {
            return row.read_as();
        }
        let Some(primary) = primary_keys(&row) else {
            return Err(Error::refused(ErrorKind::Decode, "a copy does not name its entity"));
        };
        let mark = text(&row, MARK).map(str::to_owned);
        let digest = digest(&row);
        let at = (row.partition_key, row.row_key);
        (row.partition_key, row.row_key) = primary.clone();
        let head = self.opened::<Head<E>>(table, row).await?;
        if !demands(&head, position, &at) {
            let index = E::INDEXES[position].name;
            let what = "a copy stands where its entity has none: it was moved or altered";
            let error = Error::refused(ErrorKind::Decode, what).in_index(index);
            return Err(error.advise("`Store::verify` names such rows, `Store::repair` mends them"));
        }
        Ok(Copy { value: head.entity, primary, mark, digest })
    }

    /// Closes an entity, with the properties that its type does not know, for a write; `None` if there is no layer, and it is encoded as it is.
    pub(crate) async fn close<E: Entity + Sync>(
        &self,
        table: &Table,
        plan: &mut Plan,
        before: Option<&Closed>,
        (entity, unknown): (&E, &Properties),
    ) -> Result<Option<Closed>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut row = DynamicEntity::of_any_size(entity)?;
        for (name, value) in unknown.iter() {
            row.set(name, value.clone());
        }
        let before = before.map(|closed| &closed.row);
        for layer in self.iter() {
            layer.close(Closing { plan, before, table }, &mut row).await?;
        }
        let beside = match &self.wide {
            Some(wide) => wide.split(&row, plan.op.mark())?,
            None => Beside::None,
        };
        Ok(Some(self.closed(row, beside)))
    }

    async fn opened<P: Projection>(&self, table: &Table, mut row: DynamicEntity) -> Result<P> {
        self.open_row(table, &mut row).await?;
        row.read_as()
    }

    fn closed(&self, row: DynamicEntity, beside: Beside) -> Closed {
        let not_copied = self.iter().flat_map(Layer::not_copied).collect();
        Closed { row, not_copied, beside }
    }

    async fn open_row(&self, table: &Table, row: &mut DynamicEntity) -> Result<()> {
        for layer in self.iter().rev() {
            if layer.decides() || !self.only_deciding {
                layer.open(table, row).await?;
            } else {
                layer.pass_over(row);
            }
        }
        Ok(())
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &dyn Layer> {
        self.each.iter().flat_map(|layers| layers.iter()).map(|layer| &**layer)
    }
}

/// Tells whether an entity has a row in one of its indexes, without its type.
#[derive(Clone)]
pub(crate) struct Demands {
    has: fn(&DynamicEntity, usize, &Keys) -> Result<bool>,
    layers: Layers,
}

impl Demands {
    pub(crate) fn of<E: Entity>(layers: &Layers) -> Self {
        Self { has: has::<E>, layers: layers.only_deciding() }
    }

    /// Whether the entity in `head`, as it is stored, has the row `keys` in the index at `position`.
    pub(crate) async fn ask(
        &self,
        table: &Table,
        head: &Stored<DynamicEntity>,
        position: usize,
        keys: &Keys,
    ) -> Result<bool> {
        if self.layers.is_empty() {
            return (self.has)(&head.entity, position, keys);
        }
        let Some((mut head, _)) = self.layers.whole(table, head.clone()).await? else {
            return Ok(false);
        };
        self.layers.open_row(table, &mut head.entity).await?;
        (self.has)(&head.entity, position, keys)
    }
}

fn has<E: Entity>(head: &DynamicEntity, position: usize, keys: &Keys) -> Result<bool> {
    Ok(demands(&head.read_as::<Head<E>>()?, position, keys))
}

/// Whether an entity, as it is stored, has the row `keys` in the index at `position`.
fn demands<E: Entity>(head: &Head<E>, position: usize, keys: &Keys) -> bool {
    match &head.older {
        // Its rows are those of the version that wrote it.
        Some(older) => old_keys::<E>(older, position).as_ref() == Some(keys),
        None => has_keys(&head.entity, position, keys),
    }
}

/// Whether an entity has the row `keys` in the index at `position`. One whose values make no valid key,
/// because another program wrote it, has no row there.
pub(crate) fn has_keys<E: Entity>(entity: &E, position: usize, keys: &Keys) -> bool {
    index_keys(entity, position).is_ok_and(|own| own.as_ref() == Some(keys))
}

/// The keys of the row that an older version of the type wrote into an index of this name.
pub(crate) fn old_keys<E: Entity>(older: &Older, position: usize) -> Option<Keys> {
    let own = &E::INDEXES[position];
    let is_it = |index: &&Index| (index.name, index.scope) == (own.name, own.scope);
    older.indexed.iter().find(|(index, _)| is_it(index)).map(|(_, keys)| keys.clone())
}
