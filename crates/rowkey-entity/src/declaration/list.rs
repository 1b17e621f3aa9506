//! Lists that an entity declares: [`List`], and the address of the list of one value, [`ListKey`].

use std::fmt;
use std::marker::PhantomData;

use crate::entity::Entity;
use crate::key::{KeyError, WrittenKeys};

/// A list that an entity declares: an item of [`Declarations::lists`](super::Declarations::lists).
///
/// Each value has one row, in the partition of the entities or in a separate one, with the keys of
/// all entities that have the value; or one blob, for the entities of all partitions. The
/// type's store writes and reads it.
///
/// ```
/// use rowkey::{Entity, Projection};
///
/// #[derive(Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:4}")]
/// #[entity(list(name = by_tag, value = "{tags}", max = 8))]
/// struct Order {
///     tenant: String,
///     id: u32,
///     #[entity(json)]
///     tags: Vec<String>,
/// }
///
/// let [by_tag] = Order::DECLARED.lists else { panic!("there is one") };
/// assert_eq!((by_tag.name, by_tag.max), ("by_tag", 8));
/// let address = Order::by_tag("contoso", "urgent");
/// assert_eq!(address.parts(), Ok(("contoso", "list_order_by_tag_urgent")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The name of the list, which is also the name of its constructor.
    pub name: &'static str,
    /// The text that the RowKey of each row begins with.
    pub row_head: &'static str,
    /// The maximum number of values that an entity may have in the list.
    pub max: usize,
    /// Where the list of a value is.
    pub place: ListPlace,
    /// The table of the rows, if it is another one than that of the entities.
    pub table: Option<&'static str>,
}

/// Where the list of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPlace {
    /// In a row of the entities' partition, which is written in the entities' transaction.
    Partition,
    /// In a row of another partition or table, which may be one for the entities of all partitions; it is
    /// updated some time after the entities.
    Elsewhere,
    /// In a blob, for the entities of all partitions; it is updated some time after the entities.
    Blob,
}

/// The address of the list of one value of `E`: `Order::by_tag("contoso", "urgent")`.
pub struct ListKey<E> {
    position: usize,
    keys: Result<(String, String), KeyError>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> ListKey<E> {
    /// The declaration of the list.
    pub fn list(&self) -> &'static List {
        &E::DECLARED.lists[self.position]
    }

    /// The position of the list in [`Declarations::lists`](super::Declarations::lists).
    pub fn position(&self) -> usize {
        self.position
    }

    /// The PartitionKey and the RowKey of the list, or the reason why the key is invalid. For a
    /// list in a blob, the PartitionKey is empty and the RowKey is the name of the blob.
    pub fn parts(&self) -> Result<(&str, &str), &KeyError> {
        self.keys.as_ref().map(|(partition_key, row_key)| (&**partition_key, &**row_key))
    }
}

impl<E> From<WrittenKeys> for ListKey<E> {
    fn from(written: WrittenKeys) -> Self {
        Self { position: written.position, keys: written.finish(), entity: PhantomData }
    }
}

impl<E> Clone for ListKey<E> {
    fn clone(&self) -> Self {
        Self { position: self.position, keys: self.keys.clone(), entity: PhantomData }
    }
}

impl<E> fmt::Debug for ListKey<E> {
    /// Shows the list, but not the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListKey").field("list", &self.position).finish_non_exhaustive()
    }
}
