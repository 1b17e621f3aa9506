//! What a type declares besides its keys and its properties: [`Declarations`], one constant with a field for each
//! kind of declaration.
//!
//! Each kind has a file here with the type of its field: `index` (also for unique values), `list`, `blob`, `expiry`,
//! `wide`, `older`. A new kind adds a file and a field. Code that passes the constant on needs no change for it.

pub(crate) mod blob;
pub(crate) mod expiry;
pub mod index;
pub(crate) mod list;
pub(crate) mod older;
pub(crate) mod wide;

/// The types of the fields, which [`crate::entity`] exports; those of indexes and lists are in [`crate::index`].
pub(crate) mod fields {
    pub use super::Declarations;
    pub use super::blob::BlobField;
    pub use super::older::{Older, OlderRows};
    pub use super::wide::Wide;
}

use fields::{BlobField, OlderRows, Wide};
use index::{Index, Scope};
use list::{List, ListPlace};

/// What a type declares besides its keys and its properties: [`Projection::DECLARED`](crate::Projection::DECLARED).
///
/// `#[derive(Entity)]` makes it from the attributes. An implementation by hand names what it has:
///
/// ```
/// use rowkey::Entity;
/// use rowkey::entity::Declarations;
///
/// const DECLARED: Declarations = Declarations { encrypted: &["Diagnosis"], ..Declarations::NONE };
///
/// #[derive(Entity)]
/// #[entity(store, partition = "{clinic}", row = "patient_{id:6}")]
/// struct Patient {
///     clinic: String,
///     id: u32,
///     #[entity(encrypt, rename = "Diagnosis")]
///     diagnosis: String,
/// }
/// # use rowkey::Projection;
/// assert_eq!(Patient::DECLARED, DECLARED);
/// assert!(Patient::DECLARED.is_opened() && Patient::DECLARED.indexes.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declarations {
    /// The secondary indexes and the unique values.
    pub indexes: &'static [Index],
    /// The lists: for each value, the RowKeys of the entities that have it.
    pub lists: &'static [List],
    /// The properties whose values are in blobs. A `Table` of the client refuses at compile time to read such a type;
    /// `rowkey::store::Store` reads it.
    pub blobs: &'static [BlobField],
    /// The properties with the addresses of [`BlobRef`](crate::BlobRef) fields.
    pub references: &'static [&'static str],
    /// The properties that must not be stored in plain text; [`Entity::encode`](crate::Entity::encode) calls
    /// [`must_encrypt`](crate::entity::RowWriter::must_encrypt) for each. Such a type belongs to a store, which
    /// encrypts them first.
    pub encrypted: &'static [&'static str],
    /// The property of [`Entity::expires_at`](crate::Entity::expires_at), if a field of the type has
    /// `#[entity(expiry)]`.
    pub expiry: Option<&'static str>,
    /// The rows that an entity takes.
    pub wide: Wide,
    /// The rows that older versions of the type may have left beside an entity.
    pub older: OlderRows,
    /// The name of each index, unique value and list, with its declaration: its templates and the fields that they
    /// name. The store compares it with the declarations of other programs.
    pub texts: &'static [(&'static str, &'static str)],
}

impl Declarations {
    /// For a type that declares nothing.
    pub const NONE: Self = Self {
        indexes: &[],
        lists: &[],
        blobs: &[],
        references: &[],
        encrypted: &[],
        expiry: None,
        wide: Wide::ONE,
        older: OlderRows::NONE,
        texts: &[],
    };

    /// Whether the stored data has to be opened before it is read, as for encrypted fields and wide entities. A
    /// `Table` of the client refuses at compile time to read such a type.
    #[must_use]
    pub const fn is_opened(&self) -> bool {
        !self.encrypted.is_empty() || self.wide.rows > 1
    }

    /// Whether the type has an index or a unique value of this scope.
    #[must_use]
    pub const fn has_index(&self, scope: Scope) -> bool {
        let mut at = 0;
        while at < self.indexes.len() {
            if self.indexes[at].scope as u8 == scope as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The most rows that the declarations of an entity take in its partition.
    pub(crate) const fn rows_beside(&self) -> usize {
        let (mut rows, mut at) = (0, 0);
        while at < self.indexes.len() {
            rows += matches!(self.indexes[at].scope, Scope::SamePartition) as usize;
            at += 1;
        }
        at = 0;
        while at < self.lists.len() {
            if matches!(self.lists[at].place, ListPlace::Partition) {
                rows += self.lists[at].max;
            }
            at += 1;
        }
        rows
    }

    /// Whether declarations keep something outside of the partition of their entity.
    pub(crate) const fn has_elsewhere(&self) -> bool {
        self.has_index(Scope::OtherPartition)
            || self.has_index(Scope::Claim)
            || self.has_list(ListPlace::Elsewhere)
            || self.has_list(ListPlace::Blob)
    }

    /// Whether the type has a list in this place.
    #[must_use]
    pub const fn has_list(&self, place: ListPlace) -> bool {
        let mut at = 0;
        while at < self.lists.len() {
            if self.lists[at].place as u8 == place as u8 {
                return true;
            }
            at += 1;
        }
        false
    }
}

impl Default for Declarations {
    fn default() -> Self {
        Self::NONE
    }
}
