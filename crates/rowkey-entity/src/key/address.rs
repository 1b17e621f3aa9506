//! Typed addresses of entities and partitions.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use rowkey_wire::key as wire;

use super::between::{End, NotOfTemplate, between};
use super::stretch::RowKeys;
use super::template::Extent;
use super::write::{KeyError, KeyWriter, WrittenKeys};
use crate::entity::Entity;
use crate::index::Index;

/// The address of one entity, with its type: `Employee::key("sales", 7)`.
///
/// Constructors accept invalid keys (too long, forbidden characters); an operation with an invalid
/// key fails before anything is sent.
pub struct Key<E> {
    keys: Result<(String, String), KeyError>,
    entity: PhantomData<fn() -> E>,
}

impl<E> Key<E> {
    /// The key of type `E` with this PartitionKey and RowKey, given as they are stored.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        let (partition_key, row_key) = (partition_key.into(), row_key.into());
        let checked = wire::check(&partition_key).and_then(|()| wire::check(&row_key));
        let keys = checked.map(|()| (partition_key, row_key)).map_err(KeyError::Invalid);
        Self { keys, entity: PhantomData }
    }

    /// The key of this entity.
    pub fn of(entity: &E) -> Self
    where
        E: Entity,
    {
        let (mut partition_key, mut row_key) = (KeyWriter::new(), KeyWriter::new());
        entity.partition_key(&mut partition_key);
        entity.row_key(&mut row_key);
        Self::from_keys(partition_key.finish().and_then(|pk| Ok((pk, row_key.finish()?))))
    }

    /// The PartitionKey and the RowKey, or the reason why the key is invalid.
    pub fn parts(&self) -> Result<(&str, &str), &KeyError> {
        self.keys
            .as_ref()
            .map(|(partition_key, row_key)| (partition_key.as_str(), row_key.as_str()))
    }

    pub(crate) fn from_keys(keys: Result<(String, String), KeyError>) -> Self {
        Self { keys, entity: PhantomData }
    }

    /// The same address, for an entity of another type:
    /// `table.get(Employee::key("sales", 7).cast::<Record>())`.
    #[must_use]
    pub fn cast<F>(self) -> Key<F> {
        Key { keys: self.keys, entity: PhantomData }
    }

    #[doc(hidden)]
    pub fn into_parts(self) -> Result<(String, String), KeyError> {
        self.keys
    }
}

/// A partition, or a contiguous part of one, read as entities of type `E`.
///
/// `Employee::partition("sales")` is all employees in the partition: only rows that match `E`'s row
/// template are read, so entities of other types are left out.
pub struct Partition<E> {
    span: Result<Span, KeyError>,
    entity: PhantomData<fn() -> E>,
}

impl<E> Partition<E> {
    pub(crate) fn of(span: Result<Span, KeyError>) -> Self {
        Self { span, entity: PhantomData }
    }
}

impl<E> From<WrittenKeys> for Key<E> {
    fn from(written: WrittenKeys) -> Self {
        Self::from_keys(written.finish())
    }
}

/// All entities of the type if the RowKey is empty, or those whose RowKeys begin with it.
impl<E: Entity> From<WrittenKeys> for Partition<E> {
    fn from(written: WrittenKeys) -> Self {
        let span = written.finish().map(|(partition_key, head)| {
            let rows =
                if head.is_empty() { E::ROWS.keys() } else { RowKeys::beginning_with(&head) };
            Span { partition_key, rows, index: None }
        });
        Self::of(span)
    }
}

/// The part of a partition that contains one entity.
impl<E: Entity> From<Key<E>> for Partition<E> {
    fn from(key: Key<E>) -> Self {
        let span = key.keys.map(|(partition_key, row_key)| Span {
            partition_key,
            rows: RowKeys::one(&row_key),
            index: None,
        });
        Self::of(span)
    }
}

/// A PartitionKey and RowKeys.
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// The PartitionKey.
    pub partition_key: String,
    /// The rows of the partition.
    pub rows: RowKeys,
    /// The index to which the rows belong; `None` for the entities themselves.
    pub index: Option<&'static Index>,
}

impl<E: Entity> Partition<E> {
    /// All entities of type `E` in the partition with this key, given as it is stored.
    pub fn new(partition_key: impl Into<String>) -> Self {
        let partition_key = partition_key.into();
        let checked = wire::check(&partition_key).map_err(KeyError::Invalid);
        Self::with_key(checked.map(|()| partition_key))
    }

    fn with_key(partition_key: Result<String, KeyError>) -> Self {
        let span = partition_key.map(|partition_key| Span {
            partition_key,
            rows: E::ROWS.keys(),
            index: None,
        });
        Self { span, entity: PhantomData }
    }

    /// Only the rows whose RowKey begins with `row_prefix`, given as it is stored, including the
    /// literal head of `E`'s row template.
    #[must_use]
    pub fn prefix(mut self, row_prefix: &str) -> Self {
        if let Ok(span) = &mut self.span {
            span.rows.narrow(&RowKeys::beginning_with(row_prefix));
        }
        self
    }

    /// Only the entities between two keys of this partition, compared by the values in the keys:
    /// `.range(Employee::key("sales", 1)..Employee::key("sales", 100))`.
    ///
    /// Keys are compared part by part, in the order of the row template: numbers and dates by
    /// value, text by UTF-16 unit, and a part of several values by the text that it writes. `desc`
    /// does not change which entities are in a range: with `{at:desc}`, `key(monday)..key(friday)`
    /// includes Monday to Thursday. It changes the order in which they are returned, which is that
    /// of the table: Thursday first. A range whose start is above its end is empty, and nothing is
    /// sent.
    ///
    /// # Requests
    ///
    /// If one range of RowKeys contains exactly these values, the query requests that range. This
    /// is always so with one part, and with several parts if the ends differ only in the last one,
    /// or if the parts from the first difference on are either all `desc` or all not. Otherwise the
    /// values are in several ranges of RowKeys, fewer than two for each part, and each range takes
    /// separate requests, one after the other.
    ///
    /// Text that is followed by another part is the exception: RowKeys sort `ann B` before `ann`.
    /// The query reads the smallest range that contains all values, and skips other entities in it.
    /// Those are few if both ends are given. A range that ends with text and has no start also
    /// reads the rows whose values begin with the same character.
    ///
    /// # Errors
    ///
    /// The query fails, and sends nothing, if an end is not in this partition, or is a RowKey that
    /// does not match the row template of `E`: see [`row_keys`](Self::row_keys). For a type without
    /// a template, such as [`DynamicEntity`](crate::DynamicEntity) or an `EntitySet`, the range
    /// compares RowKeys.
    ///
    /// ```
    /// use rowkey::Entity;
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{city}", row = "{day:8,desc}")]
    /// struct Reading {
    ///     city: String,
    ///     day: u32,
    ///     degrees: f64,
    /// }
    ///
    /// let key = |day| Reading::key("leeds", day);
    /// // 20261123, 20261122, 20261121: in the order of the table
    /// let three_days = Reading::partition("leeds").range(key(20261121)..=key(20261123));
    /// ```
    #[must_use]
    pub fn range(mut self, range: impl RangeBounds<Key<E>>) -> Self {
        self.span = self.span.and_then(|mut span| {
            let row = |key: &Key<E>| {
                let (partition, row) = key.parts().map_err(Clone::clone)?;
                let is_here = partition == span.partition_key;
                if is_here { Ok(row.to_owned()) } else { Err(KeyError::OtherPartition) }
            };
            let from = try_map(range.start_bound(), row)?;
            let to = try_map(range.end_bound(), row)?;
            let rows = if E::ROW_TEMPLATE.is_empty() {
                RowKeys::within(from, to)
            } else {
                let end = |bound: Bound<String>| {
                    End::new(E::ROW_TEMPLATE, bound.map(|row| (row, Extent::Whole)))
                        .map_err(|NotOfTemplate| KeyError::NotOfTemplate)
                };
                between(E::ROW_TEMPLATE, end(from)?, end(to)?)
            };
            span.rows.narrow(&rows);
            Ok(span)
        });
        self
    }

    /// Only the rows between two RowKeys, given as they are stored and compared in stored order,
    /// for example to continue after a row. [`range`](Self::range) compares values.
    ///
    /// ```
    /// use std::ops::Bound;
    ///
    /// use rowkey::{DynamicEntity, Partition};
    ///
    /// let behind = (Bound::Excluded("id_000007"), Bound::Unbounded);
    /// let rest = Partition::<DynamicEntity>::new("sales").row_keys(behind);
    /// ```
    #[must_use]
    pub fn row_keys<'r>(mut self, range: impl RangeBounds<&'r str>) -> Self {
        self.span = self.span.and_then(|mut span| {
            let row = |row: &&str| {
                wire::check(row).map(|()| (*row).to_owned()).map_err(KeyError::Invalid)
            };
            let from = try_map(range.start_bound(), row)?;
            let to = try_map(range.end_bound(), row)?;
            span.rows.narrow(&RowKeys::within(from, to));
            Ok(span)
        });
        self
    }

    /// The PartitionKey as it is stored, or the reason why it is invalid.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Partition};
    ///
    /// assert_eq!(Partition::<DynamicEntity>::new("sales").partition_key(), Ok("sales"));
    /// assert!(Partition::<DynamicEntity>::new("a/b").partition_key().is_err());
    /// ```
    pub fn partition_key(&self) -> Result<&str, &KeyError> {
        self.span.as_ref().map(|span| &*span.partition_key)
    }

    /// The rows that begin with the RowKey of `key`, in its partition: an entity, and the rows
    /// whose RowKey continues that of the entity.
    ///
    /// If `id_7` is the key of an entity, `id_70` may be one, too: use it only if the last part of
    /// the row template has a fixed width, as numbers and dates do.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Entity, Partition};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "empid_{id:6}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    /// }
    ///
    /// // RowKey ge 'empid_000123' and RowKey lt 'empid_000124'
    /// let all_about_one = Partition::<DynamicEntity>::beginning_with(Employee::key("sales", 123));
    /// ```
    pub fn beginning_with<F>(key: Key<F>) -> Self {
        match key.keys {
            Ok((partition_key, row_key)) => Self::with_key(Ok(partition_key)).prefix(&row_key),
            Err(error) => Self::with_key(Err(error)),
        }
    }

    /// The same rows, read as entities of another type, for example one that covers several types.
    #[must_use]
    pub fn cast<F: Entity>(self) -> Partition<F> {
        Partition { span: self.span, entity: PhantomData }
    }

    /// All rows of the same partition that belong to another type; for an `EntitySet` or a
    /// [`DynamicEntity`](crate::DynamicEntity) that is the whole partition.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Entity};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "id_{id:6}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    /// }
    ///
    /// let everything_in_sales = Employee::partition("sales").whole::<DynamicEntity>();
    /// ```
    #[must_use]
    pub fn whole<F: Entity>(self) -> Partition<F> {
        Partition::with_key(self.span.map(|span| span.partition_key))
    }

    #[doc(hidden)]
    pub fn into_span(self) -> Result<Span, KeyError> {
        self.span
    }
}

/// Converts the value of a bound with `to_end`.
fn try_map<T, U>(
    bound: Bound<T>,
    to_end: impl FnOnce(T) -> Result<U, KeyError>,
) -> Result<Bound<U>, KeyError> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(to_end(key)?),
        Bound::Excluded(key) => Bound::Excluded(to_end(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

impl<E> Clone for Key<E> {
    fn clone(&self) -> Self {
        Self { keys: self.keys.clone(), entity: PhantomData }
    }
}

impl<E> PartialEq for Key<E> {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

impl<E> Eq for Key<E> {}

impl<E> Clone for Partition<E> {
    fn clone(&self) -> Self {
        Self { span: self.span.clone(), entity: PhantomData }
    }
}

impl<E> fmt::Debug for Key<E> {
    /// Shows whether the key is valid, and why not, but not the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Key");
        match &self.keys {
            Ok(_) => shown.finish_non_exhaustive(),
            Err(error) => shown.field(error).finish(),
        }
    }
}

impl fmt::Debug for Span {
    /// Does not show the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").finish_non_exhaustive()
    }
}

impl<E> fmt::Debug for Partition<E> {
    /// Shows whether the partition is valid, and why not, but not its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Partition");
        match &self.span {
            Ok(_) => shown.finish_non_exhaustive(),
            Err(error) => shown.field(error).finish(),
        }
    }
}
