//! Secondary indexes as an entity declares them: [`Index`], and the addresses of their rows,
//! [`IndexKey`] and [`IndexRange`].
//!
//! A table has one index, its keys. Another one is made of rows of their own: a copy of each entity
//! under a key made of the values that are looked up. `#[entity(index(..))]` declares them and
//! writes the constructors of their addresses; what keeps the copies in step is a pattern's work.
//!
//! A copy holds the properties of the entity (or the declared ones), and says in [`PRIMARY_ROW_KEY`]
//! and, where the partition is another, in [`PRIMARY_PARTITION_KEY`] where the entity itself is.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::entity::Entity;
use crate::key::address::{Span, prefix};
use crate::key::write::ends_in_escape;
use crate::key::{Key, KeyError, KeyWriter, PartFormat, Partition};

/// The property of a copy that holds the RowKey of its entity.
pub const PRIMARY_ROW_KEY: &str = "PrimaryRowKey";

/// The property of a copy in another partition that holds the PartitionKey of its entity.
pub const PRIMARY_PARTITION_KEY: &str = "PrimaryPartitionKey";

/// An index that an entity declares: an item of [`Entity::INDEXES`].
///
/// ```
/// use rowkey::Entity;
/// use rowkey::index::{Copied, Scope};
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
/// let [by_email] = Employee::INDEXES else { panic!("there is one") };
/// assert_eq!((by_email.name, by_email.row_head), ("by_email", "email_"));
/// assert!(by_email.unique && by_email.scope == Scope::SamePartition);
/// assert_eq!(by_email.copy, Copied::All);
///
/// let row = Employee::by_email("sales", "Ada@contoso.com");
/// assert_eq!(row.parts(), Ok(("sales", "email_ada@contoso.com")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name, which is that of its constructor.
    pub name: &'static str,
    /// Where its rows are.
    pub scope: Scope,
    /// Whether a value stands for one entity at most. Otherwise the keys of the entity follow the
    /// value, as a tie-breaker.
    pub unique: bool,
    /// The text that the PartitionKey of each of its rows begins with; empty if the partition is the entity's.
    pub partition_head: &'static str,
    /// The text that the RowKey of each of its rows begins with.
    pub row_head: &'static str,
    /// Which properties its copies have.
    pub copy: Copied,
}

/// Where the rows of an index are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a partition of its own: the row claims a value for one entity, and holds nothing else.
    Claim,
    /// In another partition or table: they follow the entity after a while.
    OtherPartition,
    /// Beside the entity: one transaction changes both.
    SamePartition,
}

/// Which properties the copies of an entity have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All of the entity's: reading the copy is reading the entity.
    All,
    /// Those with these names.
    Only(&'static [&'static str]),
}

/// Marks the address of the claim of a value that one entity of a table may have.
#[derive(Clone, Copy, Debug)]
pub enum Claimed {}

/// Marks an address in an index whose rows are in another partition than their entities.
#[derive(Clone, Copy, Debug)]
pub enum OtherPartition {}

/// Marks an address in an index whose rows are beside their entities.
#[derive(Clone, Copy, Debug)]
pub enum SamePartition {}

/// The address of a row in a unique index of `E`: `Employee::by_email("sales", "ada@contoso.com")`.
///
/// `S` says where the rows of the index are, so that what is promised about the one kind is not
/// asked of the other: [`SamePartition`], [`OtherPartition`] or [`Claimed`].
pub struct IndexKey<E, S> {
    position: usize,
    keys: Result<(String, String), KeyError>,
    entity: PhantomData<fn() -> (E, S)>,
}

/// Rows of an index of `E` that lie side by side, in the order of the index.
///
/// `Employee::by_last_name("sales", "Jones")` is those of all Joneses in the department,
/// `Employee::by_last_name_all("sales")` the whole index.
pub struct IndexRange<E, S> {
    position: usize,
    span: Result<Span, KeyError>,
    /// What each RowKey begins with, and how the part is written that follows.
    head: (String, PartFormat),
    entity: PhantomData<fn() -> (E, S)>,
}

impl<E: Entity, S> IndexKey<E, S> {
    #[doc(hidden)]
    pub fn from_writers(position: usize, partition_key: KeyWriter, row_key: KeyWriter) -> Self {
        let keys = partition_key.finish().and_then(|pk| Ok((pk, row_key.finish()?)));
        Self { position, keys, entity: PhantomData }
    }

    /// The index.
    pub fn index(&self) -> &'static Index {
        &E::INDEXES[self.position]
    }

    /// The place of the index in [`Entity::INDEXES`].
    pub fn position(&self) -> usize {
        self.position
    }

    /// The PartitionKey and the RowKey as they are stored, or why there is no such key.
    pub fn parts(&self) -> Result<(&str, &str), &KeyError> {
        self.keys.as_ref().map(|(partition_key, row_key)| (&**partition_key, &**row_key))
    }

    /// The same address, of a row that is read or written as a `C`.
    pub fn key_of<C>(self) -> Key<C> {
        Key::from_keys(self.keys)
    }
}

impl<E: Entity, S> IndexRange<E, S> {
    #[doc(hidden)]
    pub fn from_writers(
        position: usize,
        partition_key: KeyWriter,
        row_head: KeyWriter,
        next: PartFormat,
    ) -> Self {
        let keys = partition_key.finish().and_then(|pk| Ok((pk, row_head.finish()?)));
        let head = keys.as_ref().map(|(_, head)| head.clone()).unwrap_or_default();
        let span = keys.map(|(partition_key, head)| {
            let (from, to) = prefix(&head);
            Span { partition_key, from, to }
        });
        Self { position, span, head: (head, next), entity: PhantomData }
    }

    /// The index.
    pub fn index(&self) -> &'static Index {
        &E::INDEXES[self.position]
    }

    /// The place of the index in [`Entity::INDEXES`].
    pub fn position(&self) -> usize {
        self.position
    }

    /// Only the rows whose next value, the first that this range leaves open, is text that begins
    /// with `text`. It is written as the template writes the value: in lower case for `{email:lower}`.
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
            // (The text of the template is not escaped.)
            if let Some(end) = ends_in_escape(&begun, *format).filter(|_| !text.is_empty()) {
                to = Bound::Excluded(end);
            }
            span.narrow((from, to));
            Ok(span)
        });
        self
    }

    /// Only the rows between these values of the same index and partition:
    /// `.range(Employee::by_salary("sales", 40_000)..=Employee::by_salary("sales", 60_000))`.
    #[must_use]
    pub fn range<B: Clone + Into<Self>>(mut self, range: impl RangeBounds<B>) -> Self {
        let position = self.position;
        self.span = self.span.and_then(|mut span| {
            let end_of = |bound: &B| -> Result<Span, KeyError> {
                let end: Self = bound.clone().into();
                let found = end.span?;
                if end.position != position {
                    Err(KeyError::OtherIndex)
                } else if found.partition_key != span.partition_key {
                    Err(KeyError::OtherPartition)
                } else {
                    Ok(found)
                }
            };
            let from = match range.start_bound() {
                Bound::Included(bound) => end_of(bound)?.from,
                Bound::Excluded(bound) => opposite(end_of(bound)?.to),
                Bound::Unbounded => Bound::Unbounded,
            };
            let to = match range.end_bound() {
                Bound::Included(bound) => end_of(bound)?.to,
                Bound::Excluded(bound) => opposite(end_of(bound)?.from),
                Bound::Unbounded => Bound::Unbounded,
            };
            span.narrow((from, to));
            Ok(span)
        });
        self
    }

    /// The same rows, read as `C`s.
    pub fn partition_of<C>(self) -> Partition<C> {
        Partition::of(self.span)
    }
}

/// The one row.
impl<E: Entity, S> From<IndexKey<E, S>> for IndexRange<E, S> {
    fn from(key: IndexKey<E, S>) -> Self {
        let head = key.keys.as_ref().map(|(_, row)| row.clone()).unwrap_or_default();
        let span = key.keys.map(|(partition_key, row)| Span {
            partition_key,
            from: Bound::Included(row.clone()),
            to: Bound::Included(row),
        });
        Self {
            position: key.position,
            span,
            head: (head, PartFormat::default()),
            entity: PhantomData,
        }
    }
}

/// Where something begins that follows what ends at `bound`, and the other way round.
fn opposite(bound: Bound<String>) -> Bound<String> {
    match bound {
        Bound::Included(row) => Bound::Excluded(row),
        Bound::Excluded(row) => Bound::Included(row),
        Bound::Unbounded => Bound::Unbounded,
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
            entity: PhantomData,
        }
    }
}

impl<E, S> fmt::Debug for IndexKey<E, S> {
    /// Shows which index it is of, but not the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexKey").field("index", &self.position).finish_non_exhaustive()
    }
}

impl<E, S> fmt::Debug for IndexRange<E, S> {
    /// Shows which index it is of, but not the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexRange").field("index", &self.position).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{DecodeError, Projection, RowReader, RowWriter, Rows};

    /// An entity with an index over one text, by hand.
    struct Person;

    impl Projection for Person {
        const COLUMNS: Option<&'static [&'static str]> = None;

        fn decode(_: &RowReader<'_>) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }

    impl Entity for Person {
        const ROWS: Rows = Rows::Head("id_");
        const INDEXES: &'static [Index] = &[Index {
            name: "by_name",
            scope: Scope::SamePartition,
            unique: true,
            partition_head: "",
            row_head: "name_",
            copy: Copied::All,
        }];

        fn partition_key(&self, _: &mut KeyWriter) {}
        fn row_key(&self, _: &mut KeyWriter) {}
        fn encode(&self, _: &mut RowWriter) {}
    }

    type Names = IndexRange<Person, SamePartition>;

    const LOWER: PartFormat =
        PartFormat { width: None, descending: false, separator: Some('_'), lower: true };

    fn writer(text: &str) -> KeyWriter {
        let mut out = KeyWriter::new();
        out.literal(text);
        out
    }

    fn all() -> Names {
        IndexRange::from_writers(0, writer("p"), writer("name_"), LOWER)
    }

    fn name(text: &str) -> IndexKey<Person, SamePartition> {
        IndexKey::from_writers(0, writer("p"), writer(&format!("name_{text}_")))
    }

    /// All Joneses, say, of an index that is not unique.
    fn every(text: &str) -> Names {
        IndexRange::from_writers(0, writer("p"), writer(&format!("name_{text}_")), LOWER)
    }

    fn bounds(range: Names) -> (Bound<String>, Bound<String>) {
        let span = range.span.unwrap();
        (span.from, span.to)
    }

    fn between(from: &str, to: &str) -> (Bound<String>, Bound<String>) {
        (Bound::Included(from.to_owned()), Bound::Excluded(to.to_owned()))
    }

    #[test]
    fn a_prefix_is_written_as_the_template_writes_the_value() {
        assert_eq!(bounds(all()), between("name_", "name`"));
        assert_eq!(bounds(all().prefix("Jo")), between("name_jo", "name_jp"));
        assert_eq!(bounds(all().prefix("ΑΣ")), between("name_ασ", "name_ατ"), "not a final sigma");
        assert_eq!(bounds(all().prefix("j/")), between("name_j.~", "name_j.\u{a0}"));
        assert_eq!(bounds(all().prefix("")), between("name_", "name`"));
    }

    #[test]
    fn a_prefix_that_looks_like_half_an_escape_does_not_find_what_is_escaped() {
        // `a_` is written `a^~`, and `a^~` is written `a^}~`.
        assert_eq!(bounds(all().prefix("a^")), between("name_a^", "name_a^~"));
        assert_eq!(bounds(all().prefix("a.")), between("name_a.", "name_a.~"));
    }

    #[test]
    fn ranges_go_from_the_first_row_of_a_value_to_the_last_of_another() {
        assert_eq!(bounds(all().range(every("b")..every("d"))), between("name_b_", "name_d_"),);
        assert_eq!(bounds(all().range(every("b")..=every("d"))), between("name_b_", "name_d`"),);
        let after = (Bound::Excluded(every("b")), Bound::Unbounded);
        assert_eq!(bounds(all().range::<Names>(after)), between("name_b`", "name`"));
        let one = bounds(all().range(name("b")..=name("c")));
        assert_eq!(
            one,
            (Bound::Included("name_b_".to_owned()), Bound::Included("name_c_".to_owned()))
        );
    }

    #[test]
    fn ranges_of_other_partitions_and_indexes_are_refused() {
        let elsewhere: Names = IndexRange::from_writers(0, writer("q"), writer("name_b"), LOWER);
        let range = all().range(elsewhere..);
        assert_eq!(range.span, Err(KeyError::OtherPartition));
        let other: Names = IndexRange::from_writers(1, writer("p"), writer("name_b"), LOWER);
        assert_eq!(all().range(..other).span, Err(KeyError::OtherIndex));
        assert!(matches!(all().prefix("\n").span, Err(KeyError::ControlCharacter)));
    }

    #[test]
    fn addresses_are_those_of_rows_of_another_type() {
        let key: Key<crate::DynamicEntity> = name("b").key_of();
        assert_eq!(key.parts(), Ok(("p", "name_b_")));
        let rows: Partition<crate::DynamicEntity> = all().partition_of();
        assert_eq!(rows.partition_key(), Ok("p"));
    }
}
