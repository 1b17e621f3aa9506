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
//! | a sealer | gets a data key, replaces values by sealed ones | unwraps the data key, opens them |
//! | fields in blobs | uploads, replaces values by pointers | reads the blobs |
//! | wide entities | moves properties to further rows, which it adds to the plan | reads those rows |
//!
//! What `close` prepares elsewhere has to be harmless if the write never commits; `closing.plan` takes
//! rows, and targets that clean up afterwards, and gives the operation's mark to name things by. It is
//! called again whenever the plan is made again.
//!
//! A whole copy holds the closed properties of its head, byte for byte, and is opened under the keys of
//! the head: one sealing serves all of them. What [`Layer::not_copied`] names is left out, and then no
//! copy of the type is taken for its entity: reads through an index read the heads.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Result, Stored, Table};

use crate::plan::Plan;
use crate::row::{Closed, Copy, Head, Keys, MARK, digest, index_keys, primary_keys, text};

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
    fn not_copied(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The write for which an entity is closed.
pub(crate) struct Closing<'p> {
    pub(crate) plan: &'p mut Plan,
    /// The row as it is stored now.
    #[expect(dead_code, reason = "a sealer does not go by it")]
    pub(crate) before: Option<&'p DynamicEntity>,
    /// The table of the row.
    pub(crate) table: &'p Table,
}

/// The layers of a type, in the order in which they close.
#[derive(Clone, Default)]
pub(crate) struct Layers(Option<Arc<[Box<dyn Layer>]>>);

impl Layers {
    pub(crate) fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        Self(Some(layers).filter(|layers| !layers.is_empty()).map(Arc::from))
    }

    /// Whether rows are decoded as they arrive.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a copy of all properties has all that its entity has.
    pub(crate) fn copies_are_whole(&self) -> bool {
        self.iter().all(|layer| layer.not_copied().is_empty())
    }

    /// Reads the head at a key. One request, and what the layers need.
    pub(crate) async fn head<E: Entity>(
        &self,
        table: &Table,
        key: Key<impl Entity>,
    ) -> Result<Option<Stored<Head<E>>>> {
        if self.is_empty() {
            return table.get_as(key).await;
        }
        match table.get_as::<DynamicEntity>(key).await? {
            Some(stored) => self.open(table, stored).await.map(Some),
            None => Ok(None),
        }
    }

    /// Opens a head that was read as it is stored.
    pub(crate) async fn open<E: Entity>(
        &self,
        table: &Table,
        stored: Stored<DynamicEntity>,
    ) -> Result<Stored<Head<E>>> {
        let Stored { entity: mut row, etag, timestamp } = stored;
        if self.is_empty() {
            return Ok(Stored { entity: row.read_as()?, etag, timestamp });
        }
        let mark = text(&row, MARK).map(str::to_owned);
        row.remove(MARK);
        let closed = Some(self.closed(row.clone()));
        let entity = self.opened(table, row).await?;
        Ok(Stored { entity: Head { entity, mark, closed }, etag, timestamp })
    }

    /// Opens a whole copy.
    pub(crate) async fn open_copy<E: Entity>(
        &self,
        table: &Table,
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
        (row.partition_key, row.row_key) = primary.clone();
        let value = self.opened(table, row).await?;
        Ok(Copy { value, primary, mark, digest })
    }

    /// Closes an entity for a write; `None` if there is no layer, and it is encoded as it is.
    pub(crate) async fn close<E: Entity>(
        &self,
        table: &Table,
        plan: &mut Plan,
        before: Option<&Closed>,
        entity: &E,
    ) -> Result<Option<Closed>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut row = DynamicEntity::of_any_size(entity)?;
        let before = before.map(|closed| &closed.row);
        for layer in self.iter() {
            layer.close(Closing { plan, before, table }, &mut row).await?;
        }
        Ok(Some(self.closed(row)))
    }

    async fn opened<E: Entity>(&self, table: &Table, mut row: DynamicEntity) -> Result<E> {
        for layer in self.iter().rev() {
            layer.open(table, &mut row).await?;
        }
        row.read_as()
    }

    fn closed(&self, row: DynamicEntity) -> Closed {
        let not_copied = self.iter().flat_map(|layer| layer.not_copied()).copied().collect();
        Closed { row, not_copied }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &dyn Layer> {
        self.0.iter().flat_map(|layers| layers.iter()).map(|layer| &**layer)
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
        Self { has: has::<E>, layers: layers.clone() }
    }

    /// Whether the entity in `head`, as it is stored, has the row `keys` in the index at `position`.
    pub(crate) async fn ask(
        &self,
        table: &Table,
        head: &DynamicEntity,
        position: usize,
        keys: &Keys,
    ) -> Result<bool> {
        if self.layers.is_empty() {
            return (self.has)(head, position, keys);
        }
        let mut head = head.clone();
        for layer in self.layers.iter().rev() {
            layer.open(table, &mut head).await?;
        }
        (self.has)(&head, position, keys)
    }
}

fn has<E: Entity>(head: &DynamicEntity, position: usize, keys: &Keys) -> Result<bool> {
    Ok(has_keys(&head.read_as::<E>()?, position, keys))
}

/// Whether an entity has the row `keys` in the index at `position`. One whose values make no valid key,
/// because another program wrote it, has no row there.
pub(crate) fn has_keys<E: Entity>(entity: &E, position: usize, keys: &Keys) -> bool {
    index_keys(entity, position).is_ok_and(|own| own.as_ref() == Some(keys))
}
