//! An entity that is encoded once, for layers that send a transaction several times.

use std::fmt;
use std::sync::Arc;

use rowkey_entity::entity::RowReader;
use rowkey_entity::internals::{Row, decode};
use rowkey_entity::{DynamicEntity, Entity, FailedRow, Projection as _};
use rowkey_wire::etag::Match;
use rowkey_wire::odata::Fields;

use crate::cost::{Class, Usage};
use crate::error::Result;

/// An encoded entity: its keys and its encoded properties, without its type.
///
/// Layers above the client collect rows of several types in one plan, and send the same rows again
/// under another condition. [`Transaction::row`](crate::Transaction::row) accepts it. It also
/// encodes types that belong to a store, because the store itself writes its rows this way.
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey::table::EncodedRow;
///
/// let mut note = DynamicEntity::new("sales", "note_1");
/// note.set("text", "call back");
/// let row = EncodedRow::of(&note)?;
/// assert_eq!(row.keys(), ("sales", "note_1"));
/// # Ok::<_, rowkey::Error>(())
/// ```
#[derive(Clone)]
pub struct EncodedRow {
    pub(crate) row: Arc<Row>,
}

/// How an [`EncodedRow`] is written.
#[derive(Clone, Debug)]
pub enum RowWrite {
    /// Like [`Transaction::insert`](crate::Transaction::insert).
    Insert,
    /// Like [`Transaction::replace`](crate::Transaction::replace), under a condition.
    Replace(Match),
    /// Like [`Transaction::merge`](crate::Transaction::merge), under a condition.
    Merge(Match),
    /// Like [`Transaction::upsert`](crate::Transaction::upsert).
    Upsert,
    /// Like [`Transaction::upsert_merge`](crate::Transaction::upsert_merge).
    UpsertMerge,
}

impl EncodedRow {
    /// Encodes an entity.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if its keys or properties cannot be stored.
    pub fn of<E: Entity>(entity: &E) -> Result<Self> {
        Ok(Self { row: Arc::new(Row::unguarded(entity)?) })
    }

    /// The entity without its type.
    #[doc(hidden)]
    pub fn decoded(&self) -> Result<DynamicEntity> {
        let mut fields = Fields::default();
        decode::entity(&self.row.body, &mut fields)?;
        let row = RowReader::new(&fields);
        Ok(DynamicEntity::decode(&row).map_err(|error| FailedRow::of(&row, &error))?)
    }

    /// The PartitionKey and the RowKey.
    pub fn keys(&self) -> (&str, &str) {
        self.row.keys()
    }

    /// The size of the entity in bytes as the service counts it, for the limit of 1 MiB and for the bill of storage.
    ///
    /// 4 bytes, 2 for each UTF-16 unit of the keys and of the names of properties, 8 for each property, and its value: 2
    /// for each UTF-16 unit of a text and 4, the length of a binary value and 4, and the width of other types. This is
    /// Microsoft's formula of 2011, "How the size of an entity is calculated".
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    /// use rowkey::table::EncodedRow;
    ///
    /// let mut note = DynamicEntity::new("sales", "1");
    /// assert_eq!(EncodedRow::of(&note)?.size(), 4 + 2 * 6);
    /// note.set("City", "K\u{f6}ln");
    /// assert_eq!(EncodedRow::of(&note)?.size(), 4 + 2 * 6 + 8 + 2 * 4 + 2 * 4 + 4);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn size(&self) -> usize {
        self.row.size
    }

    /// What a write of this row alone uses: one request, with its bytes.
    ///
    /// ```
    /// use rowkey::cost::Class;
    /// use rowkey::table::EncodedRow;
    ///
    /// let row = EncodedRow::of(&rowkey::DynamicEntity::new("sales", "1"))?;
    /// let usage = row.usage();
    /// assert_eq!((usage.transactions(Class::TableWrite), usage.sent()), (1, row.payload_size() as u64));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn usage(&self) -> Usage {
        Usage::of(Class::TableWrite, 1).with_bytes(self.payload_size() as u64, 0)
    }

    /// The length of the entity's JSON in bytes, which counts for the 4 MiB of a transaction.
    ///
    /// [`Transaction::payload_size`](crate::Transaction::payload_size) is that of all operations with their headers.
    pub fn payload_size(&self) -> usize {
        self.row.body.len()
    }
}

impl fmt::Debug for EncodedRow {
    /// Shows the size, but neither keys nor properties.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedRow").field("size", &self.size()).finish_non_exhaustive()
    }
}
