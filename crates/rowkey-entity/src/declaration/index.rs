//! Secondary indexes that an entity declares: [`Index`], and the addresses of their rows,
//! [`IndexKey`] and [`IndexRange`]; and lists, [`List`] and [`ListKey`].
//!
//! A table has one index, its keys. A secondary index consists of separate rows: a copy of each
//! entity under a key made of the values to look up. `#[entity(index(..))]` declares indexes and
//! generates the constructors of their addresses; a store keeps the copies in step with their
//! entities.
//!
//! A copy holds the properties of the entity (or the declared ones). [`PRIMARY_ROW_KEY`] and, if
//! the copy is in another partition, [`PRIMARY_PARTITION_KEY`] hold the keys of the entity itself.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::entity::{Entity, KIND, VERSION};
use crate::key::address::Span;
use crate::key::between::{End, NotOfTemplate, between};
use crate::key::stretch::{RowKeys, prefix};
use crate::key::template::Extent;
use crate::key::write::ends_in_escape;
use crate::key::{Key, KeyError, KeyWriter, PartFormat, Partition, Piece, WrittenKeys};

pub use super::list::{List, ListKey, ListPlace};

/// The property of a copy that holds the RowKey of its entity.
pub const PRIMARY_ROW_KEY: &str = "PrimaryRowKey";

/// The property of a copy in another partition that holds the PartitionKey of its entity.
pub const PRIMARY_PARTITION_KEY: &str = "PrimaryPartitionKey";

/// The property of a copy that holds the name of its index.
#[doc(hidden)]
pub const INDEX_NAME: &str = "IndexName";

/// The beginning of the names of properties that name the entity whose copy a row holds, as the copies elsewhere of
/// `rowkey::store::Store` have them.
pub const COPIED_FROM: &str = "CopiedFrom_";

/// The property of rows that a store writes beside an entity and that are not copies of it.
#[doc(hidden)]
pub const ROW_FORMAT: &str = "RowFormat";

/// An index that an entity declares: an item of [`Declarations::indexes`](super::Declarations::indexes).
///
/// ```
/// use rowkey::index::{Copied, Scope};
/// use rowkey::{Entity, Projection};
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, row = "email_{email:lower}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// let [by_email] = Employee::DECLARED.indexes else { panic!("there is one") };
/// assert_eq!((by_email.name, by_email.row_head), ("by_email", "email_"));
/// assert!(by_email.unique && by_email.scope == Scope::SamePartition);
/// assert_eq!(by_email.copy, Copied::All);
///
/// let row = Employee::by_email("sales", "Ada@contoso.com");
/// assert_eq!(row.parts(), Ok(("sales", "email_ada@contoso.com")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// The name of the index, which is also the name of its constructor.
    pub name: &'static str,
    /// Where the rows of the index are.
    pub scope: Scope,
    /// The table of the rows, if it is another one than that of the entities.
    pub table: Option<&'static str>,
    /// Whether a value belongs to at most one entity. Otherwise the keys of the entity follow the
    /// value, as a tie-breaker.
    pub unique: bool,
    /// The text that the PartitionKey of each row begins with; empty if the rows are in the
    /// entity's partition.
    pub partition_head: &'static str,
    /// The text that the RowKey of each row begins with.
    pub row_head: &'static str,
    /// The template of the RowKeys, from which [ranges](IndexRange::range) derive the values. It is
    /// followed by the text that distinguishes entities with the same values.
    pub row_template: &'static [Piece],
    /// The properties of the copies.
    pub copy: Copied,
}

/// Where the rows of an index are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a separate partition: the row claims a value for one entity, and holds nothing else.
    Claim,
    /// In another partition or table: the rows are updated some time after the entity.
    OtherPartition,
    /// Beside the entity: one transaction changes both.
    SamePartition,
}

/// The properties of the copies in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All properties of the entity: a copy can be read instead of the entity.
    All,
    /// The properties with these names.
    Only(&'static [&'static str]),
}

/// Marks the address of the claim of a value that only one entity of a table may have.
#[derive(Clone, Copy, Debug)]
pub enum Claimed {}

impl Index {
    /// Whether the copies have a property or a key of this name. Fields in the keys of the entity
    /// are not properties.
    ///
    /// ```
    /// # use rowkey::{Entity, Projection};
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "id_{id:6}")]
    /// #[entity(index(name = by_email, row = "email_{email:lower}", copy(name)))]
    /// struct Employee { department: String, id: u32, email: String, name: String, salary: f64 }
    ///
    /// let by_email = &Employee::DECLARED.indexes[0];
    /// assert!(by_email.has_column("name") && !by_email.has_column("salary"));
    /// assert!(!by_email.has_column("email"), "it is in the key of the copy alone");
    /// ```
    pub fn has_column(&self, name: &str) -> bool {
        const OF_ALL: [&str; 7] = [
            "PartitionKey",
            "RowKey",
            "Timestamp",
            PRIMARY_ROW_KEY,
            PRIMARY_PARTITION_KEY,
            KIND,
            VERSION,
        ];
        match self.copy {
            Copied::All => true,
            Copied::Only(names) => names.contains(&name) || OF_ALL.contains(&name),
        }
    }
}

/// Marks an address in an index whose rows are in another partition than their entities.
#[derive(Clone, Copy, Debug)]
pub enum OtherPartition {}

/// Marks an address in an index whose rows are beside their entities.
#[derive(Clone, Copy, Debug)]
pub enum SamePartition {}

/// The address of a row in a unique index of `E`: `Employee::by_email("sales", "ada@contoso.com")`.
///
/// `S` is the location of the index's rows: [`SamePartition`], [`OtherPartition`] or [`Claimed`].
/// It prevents a call that relies on the guarantees of one location from being used with another.
pub struct IndexKey<E, S> {
    position: usize,
    keys: Result<(String, String), KeyError>,
    entity: PhantomData<fn() -> (E, S)>,
}

/// Adjacent rows of an index of `E`, in the order of the index.
///
/// `Employee::by_last_name("sales", "Jones")` is the rows of all Joneses in the department,
/// `Employee::by_last_name_all("sales")` the whole index.
pub struct IndexRange<E, S> {
    position: usize,
    span: Result<Span, KeyError>,
    /// The text that each RowKey begins with, and the format of the part that follows.
    head: (String, PartFormat),
    extent: Extent,
    /// Whether the range excludes some of the rows that begin with the head.
    is_narrowed: bool,
    entity: PhantomData<fn() -> (E, S)>,
}

impl<E: Entity, S> IndexKey<E, S> {
    /// The index.
    pub fn index(&self) -> &'static Index {
        &E::DECLARED.indexes[self.position]
    }

    /// The position of the index in [`Declarations::indexes`](super::Declarations::indexes).
    pub fn position(&self) -> usize {
        self.position
    }

    /// The PartitionKey and the RowKey as they are stored, or the reason why the key is invalid.
    pub fn parts(&self) -> Result<(&str, &str), &KeyError> {
        self.keys.as_ref().map(|(partition_key, row_key)| (&**partition_key, &**row_key))
    }

    /// The same address for a row that is read or written as `C`.
    pub fn key_of<C>(self) -> Key<C> {
        Key::from_keys(self.keys)
    }
}

impl<E: Entity, S> IndexRange<E, S> {
    /// The index.
    pub fn index(&self) -> &'static Index {
        &E::DECLARED.indexes[self.position]
    }

    /// The position of the index in [`Declarations::indexes`](super::Declarations::indexes).
    pub fn position(&self) -> usize {
        self.position
    }

    /// Only the rows in which the next value, the first that this range leaves open, is text that
    /// begins with `text`. The text is converted as the template converts the value: to lower case
    /// for `{email:lower}`.
    ///
    /// ```
    /// # use rowkey::Entity;
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{department}", row = "id_{id:6}")]
    /// # #[entity(index(name = by_email, row = "email_{email:lower}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// let whose_names_begin_with_ada = Employee::by_email_all("sales").prefix("Ada");
    /// ```
    #[must_use]
    pub fn prefix(mut self, text: &str) -> Self {
        let (head, format) = &self.head;
        let mut out = KeyWriter::new();
        out.literal(head);
        out.part(&text.to_owned(), *format);
        self.span = self.span.and_then(|mut span| {
            let begun = out.finish()?;
            let (from, mut to) = prefix(&begun);
            // (The literal text of the template is not escaped.)
            if let Some(end) = ends_in_escape(&begun, *format).filter(|_| !text.is_empty()) {
                to = Bound::Excluded(end);
            }
            span.rows.narrow(&RowKeys::within(from, to));
            Ok(span)
        });
        self.is_narrowed = true;
        self
    }

    /// Only the rows between these values of the same index and partition:
    /// `.range(Employee::by_salary("sales", 40_000)..=Employee::by_salary("sales", 60_000))`.
    ///
    /// The range compares values, as [`Partition::range`] does: `desc` does not change which rows
    /// are in it, and text is compared as the template writes it, in lower case for
    /// `{email:lower}`. An end stands for all rows with its values:
    /// `by_name_under_last("sales", "Jones")..` begins with the first Jones.
    /// `by_last_name("sales", "Jones")..` includes `Jones Jr` and `Jonesy`.
    ///
    /// The query fails, and sends nothing, if an end is in another index or partition, or was
    /// itself narrowed by `range` or [`prefix`](Self::prefix).
    #[must_use]
    pub fn range<B: Clone + Into<Self>>(mut self, range: impl RangeBounds<B>) -> Self {
        let position = self.position;
        self.span = self.span.and_then(|mut span| {
            let template = E::DECLARED.indexes[position].row_template;
            let end_of = |bound: Bound<&B>| {
                let end = match bound {
                    Bound::Included(end) => Bound::Included(end.clone().into()),
                    Bound::Excluded(end) => Bound::Excluded(end.clone().into()),
                    Bound::Unbounded => Bound::Unbounded,
                };
                if let Bound::Included(end) | Bound::Excluded(end) = &end {
                    let end: &Self = end;
                    let found = end.span.as_ref().map_err(Clone::clone)?;
                    if end.position != position {
                        return Err(KeyError::OtherIndex);
                    } else if found.partition_key != span.partition_key {
                        return Err(KeyError::OtherPartition);
                    } else if end.is_narrowed {
                        return Err(KeyError::NotOfTemplate);
                    }
                }
                End::new(template, end.map(|end| (end.head.0, end.extent)))
                    .map_err(|NotOfTemplate| KeyError::NotOfTemplate)
            };
            let rows = between(template, end_of(range.start_bound())?, end_of(range.end_bound())?);
            span.rows.narrow(&rows);
            Ok(span)
        });
        self.is_narrowed = true;
        self
    }

    /// The same rows, read as type `C`.
    pub fn partition_of<C>(self) -> Partition<C> {
        Partition::of(self.span)
    }
}

impl<E, S> From<WrittenKeys> for IndexKey<E, S> {
    fn from(written: WrittenKeys) -> Self {
        Self { position: written.position, keys: written.finish(), entity: PhantomData }
    }
}

/// The rows whose RowKeys begin with the one that was written.
impl<E: Entity, S> From<WrittenKeys> for IndexRange<E, S> {
    fn from(written: WrittenKeys) -> Self {
        let (position, next) = (written.position, written.next);
        let keys = written.finish();
        let head = keys.as_ref().map(|(_, head)| head.clone()).unwrap_or_default();
        let index = E::DECLARED.indexes.get(position);
        let span = keys.map(|(partition_key, head)| {
            let rows = RowKeys::beginning_with(&head);
            Span { partition_key, rows, index }
        });
        Self {
            position,
            span,
            head: (head, next),
            extent: Extent::Beginning,
            is_narrowed: false,
            entity: PhantomData,
        }
    }
}

/// The range with only this row.
impl<E: Entity, S> From<IndexKey<E, S>> for IndexRange<E, S> {
    fn from(key: IndexKey<E, S>) -> Self {
        let head = key.keys.as_ref().map(|(_, row)| row.clone()).unwrap_or_default();
        let index = E::DECLARED.indexes.get(key.position);
        let span = key.keys.map(|(partition_key, row)| Span {
            partition_key,
            rows: RowKeys::one(&row),
            index,
        });
        Self {
            position: key.position,
            span,
            head: (head, PartFormat::default()),
            extent: Extent::Whole,
            is_narrowed: false,
            entity: PhantomData,
        }
    }
}

impl<E, S> Clone for IndexKey<E, S> {
    fn clone(&self) -> Self {
        Self { position: self.position, keys: self.keys.clone(), entity: PhantomData }
    }
}

impl<E, S> Clone for IndexRange<E, S> {
    fn clone(&self) -> Self {
        Self {
            position: self.position,
            span: self.span.clone(),
            head: self.head.clone(),
            extent: self.extent,
            is_narrowed: self.is_narrowed,
            entity: PhantomData,
        }
    }
}

impl<E, S> fmt::Debug for IndexKey<E, S> {
    /// Shows the index, but not the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexKey").field("index", &self.position).finish_non_exhaustive()
    }
}

impl<E, S> fmt::Debug for IndexRange<E, S> {
    /// Shows the index, but not the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexRange").field("index", &self.position).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
